"""Joins two tests of the same tasks: rows of the second test are added to those of the first one.

    python tools/join_tests.py --output=FOLDER FIRST SECOND

FIRST and SECOND are folders of tests of epg-tf meta-test with the same tasks, lives and agents,
e.g. a test of losses of several seeds and an earlier one of one of them beside PPO; all losses of
the second are in the first. A life does not
depend on what else is in a test, so FOLDER gets what one test of all would have written. What both
have must be the same to the bit, and there must be something: so the two were made by code and on
machines that agree.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core import files
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.experiment import PolicyConfig
from epg_tf.evaluation.results import COLUMNS, Results, read_results
from epg_tf.reports.evaluation_report import write_report

_SAME = (
    "task",
    "phase",
    "seed",
    "updates",
    "compare_updates",
    "policy",
    "alpha",
    "baseline",
    "rivals",
)
_DEFAULTS = {"policy": dataclasses.asdict(PolicyConfig())}
_MERGED = ("meta_training_env_steps", "zero_shot_facts", "meta_trained")
_SUMS = "parameters_sha256"  # older tests do not state them


def joined(first: Results, second: Results) -> Results:
    """Returns the rows of the first table, then those of methods and losses that only the second
    one has.

    Raises:
      ConfigError: Nothing is in both, or something differs.
    """
    added, common = [], 0
    for method, loss in dict.fromkeys(zip(second.method, second.loss, strict=True)):
        mine, its = first.select(method, loss), second.select(method, loss)
        if not len(mine):
            added.append(its)
            continue
        common += 1
        for name in COLUMNS:
            number = getattr(mine, name).dtype.kind == "f"
            if not np.array_equal(getattr(mine, name), getattr(its, name), equal_nan=number):
                raise ConfigError(f"{f'{method} {loss}'.strip()} differs between the tests")
    if not common:
        raise ConfigError("the tests have no method and loss in common, so nothing links them")
    agents = set(first.agent)
    if any(set(table.agent) != agents for table in added):
        raise ConfigError(f"the tests have other agents than the {len(agents)} of the first one")
    return Results.join([first, *added])


def joined_about(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the joined test states.

    Raises:
      ConfigError: The tests are not of the same tasks, lives and rivals.
    """
    for name in _SAME:
        if _whole(first, name) != _whole(second, name):
            raise ConfigError(f"the tests differ in {name}: {first[name]!r} and {second[name]!r}")
    losses = {first["loss"], *first["other_losses"]}
    for loss in (second["loss"], *second["other_losses"]):
        if loss not in losses:
            raise ConfigError(f"the first test has no {loss}; name the test of more losses first")
    merged = {name: {**second[name], **first[name]} for name in _MERGED}
    if _SUMS in first or _SUMS in second:
        merged[_SUMS] = {**second.get(_SUMS, {}), **first.get(_SUMS, {})}
    later = [*first.get("continued_with", ()), *second.get("continued_with", ())]
    found = {**first, **merged, "joined_with": second["made_with"]}
    return found | ({"continued_with": later} if later else {})


def _whole(about: Mapping[str, Any], name: str) -> Any:
    """Returns an entry; settings that an older test does not state have their defaults."""
    return {**_DEFAULTS[name], **about[name]} if name in _DEFAULTS else about[name]


def main(words: Sequence[str]) -> int:
    """Reads, joins, writes; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", required=True, help="folder for the joined test")
    parser.add_argument("tests", nargs=2, help="folders of tests of epg-tf meta-test")
    given = parser.parse_args(words)
    try:
        abouts = [
            files.read_json(Path(test) / "summary.json", "the summary of a test")["about"]
            for test in given.tests
        ]
        about = joined_about(*abouts)
        results = joined(*map(read_results, given.tests))
        files.prepare_folder(given.output, (), overwrite=None)
    except (ConfigError, RecordError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (KeyError, TypeError) as error:
        names = " and ".join(given.tests)
        print(f"error: {names} are no tests of losses of EPG ({error!r})", file=sys.stderr)
        return 2
    title = f"{about['task']['family']}: fresh agents on unseen tasks"
    print(write_report(given.output, results, about, title))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
