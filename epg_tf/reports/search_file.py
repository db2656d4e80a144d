"""Keeps a search for a baseline's settings in a JSON file, from which it can go on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.epg.shards import thread_count
from epg_tf.evaluation.tuning import SPACES, Search, Trial, at_edge, rungs, winner


def write_search(
    path: files.PathLike, search: Search, trials: Sequence[Trial], command: str
) -> None:
    """Writes what a search has found so far; the winner is null until the last trial has ended.

    Raises:
      OSError: The file cannot be written.
    """
    plan = rungs(search.budget, search.agents)
    best = winner(trials) if len(trials) == sum(count for count, _ in plan) else None
    found = {
        "command": command,
        **_header(search),
        "trials": [dataclasses.asdict(trial) for trial in trials],
        "winner": None if best is None else dataclasses.asdict(best),
        "at_edge": {} if best is None else at_edge(SPACES[search.baseline][1], best.settings),
    }
    files.write_json(path, found)


def read_trials(path: files.PathLike, search: Search) -> list[Trial]:
    """Reads the trials that `write_search` wrote, in order.

    Raises:
      RecordError: The file is damaged, or of another search.
    """
    found = files.read_json(path, "the search")
    for name, value in files.plain(_header(search)).items():
        if found.get(name) != value:
            raise RecordError(
                f"{path}: it is of another search, with {name}={found.get(name)!r:.100} instead of "
                f"{value!r:.100}; name another file"
            )
    try:
        return [_trial(each) for each in found["trials"]]
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(
            f"{path}: its trials cannot be read ({files.one_line(error)}); name another file"
        ) from error


def _header(search: Search) -> dict[str, Any]:
    """Returns what says which search it is."""
    group, space = SPACES[search.baseline]
    experiment = search.experiment
    return {
        "baseline": search.baseline,
        "group": group,
        "task": dataclasses.asdict(experiment.task),
        "centred_observations": experiment.inner.centred_observations,
        "env_steps": experiment.life_steps,
        "seed": search.seed,
        "budget": search.budget,
        "rungs": rungs(search.budget, search.agents),
        "threads": thread_count(experiment),  # shards are as many, and their size is in the numbers
        "space": space,
        "config": {
            name: values for name, values in experiment.to_mapping().items() if name != "compute"
        },
    }


def _trial(kept: Mapping[str, Any]) -> Trial:
    """Returns a trial; JSON has null for numbers that are not finite."""
    nothing = kept["failed"] == kept["agents"]
    limits = (math.nan, math.nan) if nothing else (-math.inf, math.inf)
    low, high = (
        limit if end is None else float(end)
        for end, limit in zip(kept["ci95"], limits, strict=True)
    )
    mean = math.nan if kept["mean"] is None else float(kept["mean"])
    return Trial(**{**kept, "mean": mean, "ci95": (low, high)})
