"""Draws the tests of a study of estimators, and writes their numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from epg_tf.core import files
from epg_tf.core.types import Array
from epg_tf.reports.panels import Curves, run_panels
from epg_tf.reports.plots import column, write_csv


@dataclasses.dataclass(frozen=True)
class EvaluatedRun:
    """One run of a study, tested T times.

    Attributes:
      estimator: Name of its estimator of evolution.
      seed: Of the run.
      rows: [T] tests in their order, each with `epoch`, `env_steps` (meta-training so far), and of
        the return `mean`, `low` and `high`, the ends of its 95 % interval.
    """

    estimator: str
    seed: int
    rows: Sequence[Mapping[str, float]]


def study_figure(runs: Sequence[EvaluatedRun], ppo: float, title: str) -> Figure:
    """Draws test returns against the env steps of meta-training: each run as a thin line, and mean
    and standard deviation over the runs of an estimator where all of them were tested.

    Args:
      runs: At least one, each tested at least once.
      ppo: PPO's mean return, a dashed line; NaN draws none.
      title: Line above the panel.
    """
    curves = {}
    for estimator in dict.fromkeys(run.estimator for run in runs):
        rows = [run.rows for run in runs if run.estimator == estimator]
        steps = np.nanmean(_columns(rows, "env_steps"), axis=0)
        curves[estimator] = Curves(steps, _columns(rows, "mean"))
    above = "dashed: PPO" if np.isfinite(ppo) else ""
    labels = ("environment steps of meta-training", "test return")
    return run_panels({above: curves}, title, labels, {above: ppo})


def _columns(runs: Sequence[Sequence[Mapping[str, float]]], name: str) -> Array:
    """Returns a column of several runs, NaN behind the end of those that are shorter."""
    values = np.full((len(runs), max(map(len, runs))), np.nan)
    for number, rows in enumerate(runs):
        values[number, : len(rows)] = column(rows, name)
    return values


def study_csv(runs: Sequence[EvaluatedRun], path: files.PathLike) -> None:
    """Writes the numbers behind `study_figure`: one row per test, NaN as `nan`.

    Raises:
      OSError: The file cannot be written.
    """
    numbers = ("mean", "low", "high")
    lines: list[list[float | str]] = [["estimator", "seed", "epoch", "env_steps", *numbers]]
    for run in runs:
        for row in run.rows:
            places = [int(row["epoch"]), int(row["env_steps"])]
            values = [float(row[name]) for name in numbers]
            lines.append([run.estimator, run.seed, *places, *values])
    write_csv(lines, path)
