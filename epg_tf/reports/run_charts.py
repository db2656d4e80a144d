"""Makes the charts of meta-training, of several runs side by side, and of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from epg_tf.core.types import Array
from epg_tf.reports import charts
from epg_tf.reports.charts import View
from epg_tf.reports.plots import EvaluatedRun, column

Rows = Sequence[Mapping[str, float]]
"""Of a metrics.csv, one per epoch or round."""

_DRAWN = ("epoch", "env_steps", "fitness_mean", "fitness_q25", "fitness_q75")  # in a first view
_STEPS = "environment steps of meta-training"


def progress(rows: Rows) -> go.Figure:
    """Returns the progress of evolution: fitness and validation, then each column of its own."""
    epochs = column(rows, "epoch")
    first = [
        charts.band(epochs, column(rows, "fitness_q25"), column(rows, "fitness_q75"), 0),
        charts.line("mean fitness", epochs, column(rows, "fitness_mean"), 0),
    ]
    validation = column(rows, "validation_return_mean")
    if (known := np.isfinite(validation)).any():
        first.append(charts.points("validation return", epochs[known], validation[known], 1))
    views = [View("return", "epoch", "return", first), *_columns(rows, epochs, "epoch", _DRAWN)]
    return charts.chart(views)


def returns_progress(
    rows: Rows, returns: Mapping[str, str], validation: Mapping[str, str]
) -> go.Figure:
    """Returns the progress of MetaGenRL, MAML or RL²: returns, those of validation, then the other
    columns.

    Args:
      rows: Of the run.
      returns: Name of a line -> column, of meta-training.
      validation: The same, of validation; without a value there is no view of it.
    """
    steps = column(rows, "env_steps")
    views = [View("return", _STEPS, "mean return, with exploration", _lines(rows, returns))]
    if any(np.isfinite(column(rows, name)).any() for name in validation.values()):
        lines = _lines(rows, validation)
        views.append(View("validation", _STEPS, "mean return in validation", lines))
    others = ("epoch", "env_steps", *returns.values(), *validation.values())
    return charts.chart([*views, *_columns(rows, steps, _STEPS, others)])


def _lines(rows: Rows, names: Mapping[str, str]) -> list[Any]:
    """Returns a line for each column, through its known values."""
    steps, traces = column(rows, "env_steps"), []
    for number, (shown, name) in enumerate(names.items()):
        values = column(rows, name)
        known = np.isfinite(values)
        traces.append(charts.line(shown, steps[known], values[known], number))
    return traces


def _columns(rows: Rows, x: Array, x_title: str, without: Sequence[str]) -> list[View]:
    """Returns one view for each column of numbers that varies."""
    views = []
    for name in rows[0] if rows else ():
        cells = [row[name] for row in rows]
        if name in without or any(isinstance(cell, str) for cell in cells):
            continue
        values = column(rows, name)
        known = values[np.isfinite(values)]
        if known.size and np.ptp(known) > 0:
            views.append(View(name, x_title, name, [charts.line(name, x, values, 0)]))
    return views


def fitness_distribution(rows: Rows) -> go.Figure:
    """Returns how fitness is spread over the lives, and so the tasks, of each epoch."""
    epochs = column(rows, "epoch")
    spread = {name: column(rows, f"fitness_{name}") for name in ("min", "q25", "q75", "max")}
    traces = [
        charts.band(epochs, spread["min"], spread["max"], 5),
        charts.band(epochs, spread["q25"], spread["q75"], 0),
        charts.line("maximum", epochs, spread["max"], 5),
        charts.line("median", epochs, column(rows, "fitness_median"), 0),
        charts.line("minimum", epochs, spread["min"], 5, dashed=True),
    ]
    return charts.chart([View("fitness", "epoch", "fitness", traces)])


def side_by_side(runs: Mapping[str, Rows], columns: Mapping[str, str]) -> go.Figure:
    """Returns columns of several runs against env steps, one view a column that some run has.

    Args:
      runs: Name -> rows.
      columns: Name of a view -> name of the column.

    Raises:
      ValueError: No run has a number in any of the columns.
    """
    views = []
    for title, name in columns.items():
        traces = []
        for number, (run, rows) in enumerate(runs.items()):
            values = column(rows, name)
            if np.isfinite(values).any():
                traces.append(charts.line(run, column(rows, "env_steps"), values, number))
        if traces:
            views.append(View(title, _STEPS, title, traces))
    if not views:
        raise ValueError(f"no run has a number in {', '.join(columns.values())}")
    return charts.chart(views)


def study(runs: Sequence[EvaluatedRun], ppo: Mapping[str, float] | None) -> go.Figure:
    """Returns the tests of a study's runs against env steps, one colour an estimator.

    Args:
      runs: As far as they have been tested.
      ppo: Its mean return, `mean`; None before PPO was tested.
    """
    estimators = list(dict.fromkeys(run.estimator for run in runs))
    traces = []
    for run in runs:
        name, number = f"{run.estimator}, seed {run.seed}", estimators.index(run.estimator)
        steps, mean = column(run.rows, "env_steps"), column(run.rows, "mean")
        traces.append(charts.band(steps, column(run.rows, "low"), column(run.rows, "high"), number))
        traces.append(charts.line(name, steps, mean, number))
    last = max((column(run.rows, "env_steps").max() for run in runs if run.rows), default=1.0)
    if ppo is not None and np.isfinite(ppo["mean"]):
        traces.append(charts.level("PPO", ppo["mean"], (0.0, last)))
    return charts.chart([View("return", _STEPS, "test return", traces)])
