"""Writes the return of each episode of fresh trials of policies of RL², and draws it.

    python tools/trial_returns.py --output=FILE.json --picture=FILE.png RUN...

128 trials with the random streams of reporting (seed 0), in exact physics, four episodes each, two
more than in meta-training; nothing learns. The numbers are of each run: means, 95 % intervals over
trials, and the share of trials above 0, by episode.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from epg_tf.artifacts.rl2_policy import load_rl2
from epg_tf.baselines.recurrent_ppo import RecurrentAgent
from epg_tf.baselines.rl2 import trial_returns
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.core.types import Array, LifeKey
from epg_tf.evaluation.statistics import confidence_interval
from epg_tf.reports.plots import COLOURS, write_png
from epg_tf.runs.provenance import provenance
from epg_tf.tasks.registry import make_family

TRIALS, EPISODES = 128, 4
PHASE = "reporting"


def played(run: str, trials: int = TRIALS, episodes: int = EPISODES) -> Array:
    """Returns the return of each episode of trials with the policy of a run, [trials, episodes]."""
    policy = load_rl2(run)
    settings = policy.experiment
    agent = RecurrentAgent(make_family(settings.task), settings.network, settings.ppo, seed=0)
    agent.load_policy(policy.vector)
    keys = [LifeKey(0, PHASE, 0, number) for number in range(trials)]
    exact = dataclasses.replace(settings.task, physics="exact")
    return trial_returns(agent, exact, episodes, keys)


def summary(returns: Array) -> dict[str, Any]:
    """Returns the numbers of one run from its returns, [trials, episodes]."""
    return {
        "mean": returns.mean(axis=0).tolist(),
        "ci95": [list(confidence_interval(column)) for column in returns.T],
        "share_above_0": (returns > 0).mean(axis=0).tolist(),
        "smallest": returns.min(axis=0).tolist(),
        "trials": len(returns),
    }


def draw(found: Mapping[str, Mapping[str, Any]], path: str) -> None:
    """Draws the mean return of each run against the number of the episode."""
    figure = Figure(figsize=(6, 3.6), dpi=100, facecolor="white")
    axes = figure.add_subplot()
    for (name, numbers), colour in zip(found.items(), COLOURS, strict=False):
        episodes = np.arange(1, len(numbers["mean"]) + 1)
        axes.plot(episodes, numbers["mean"], color=colour, marker="o", label=name)
        axes.fill_between(episodes, *zip(*numbers["ci95"], strict=True), color=colour, alpha=0.15)
    axes.axhline(0, color="#888888", linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="episode of a trial", ylabel="return")
    axes.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    write_png(figure, path)


def main(words: Sequence[str]) -> int:
    """Plays, writes and draws; returns the exit code."""
    given = _parsed(words)
    try:
        found = {run: summary(played(run)) for run in given.runs}
    except RecordError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    about = {"phase": PHASE, "physics": "exact", "seed": 0, "made_with": provenance()}
    files.write_json(given.output, {"about": about, "runs": found})
    draw(found, given.picture)
    for run, numbers in found.items():
        cells = zip(numbers["mean"], numbers["ci95"], numbers["share_above_0"], strict=True)
        text = "; ".join(f"{m:.1f} [{low:.1f}, {high:.1f}] {s:.0%}" for m, (low, high), s in cells)
        print(f"{run}: {text}")
    return 0


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Returns the arguments; ends the process with one line where they cannot be used."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", required=True, help="file for the numbers, .json")
    parser.add_argument("--picture", required=True, help="file for the picture, .png")
    parser.add_argument("--overwrite", action="store_true", help="replace these files")
    parser.add_argument("runs", nargs="+", help="folders of runs of epg-tf meta-train-rl2")
    given = parser.parse_args(words)
    for flag, name, suffix in (
        ("output", given.output, ".json"),
        ("picture", given.picture, ".png"),
    ):
        path = Path(name)
        if path.suffix != suffix or not path.parent.is_dir():
            parser.error(f"--{flag}={name} must end in {suffix} and lie in a folder that exists")
        if path.exists() and not given.overwrite:
            parser.error(f"--{flag}={name}: there is such a file; name another or add --overwrite")
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
