"""Writes results as tidy rows and as lines of a caption; all analyses share this."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epg_tf.core.types import Array
from epg_tf.evaluation.results import COLUMNS, HEADER, Results
from epg_tf.evaluation.statistics import confidence_interval
from epg_tf.evaluation.summary import Summary, summarize
from epg_tf.figures.declaration import Row
from epg_tf.reports.tables import label


def chosen(results: Results, methods: tuple[str, ...]) -> Results:
    """Returns the rows of some methods, in their order; those that are absent are left out."""
    return Results.join([results.select(method=name) for name in methods])


def rows_of(results: Results, panel: str = "") -> list[Row]:
    """Returns the table of results as tidy rows, with the panel in which they are drawn."""
    columns = [getattr(results, name).tolist() for name in COLUMNS]
    names = ("panel", *HEADER)
    return [dict(zip(names, (panel, *cells), strict=True)) for cells in zip(*columns, strict=True)]


def summary_lines(results: Results, panel: str = "") -> list[str]:
    """Returns how each method of a test ended, one line each."""
    start = f"{panel}: " if panel else ""
    return [f"{start}{_line(name, row)}" for name, row in summarize(results).items()]


def _line(name: str, row: Summary) -> str:
    low, high = row.ci95
    text = (
        f"{label(name)}: mean final return {row.final_return_mean:.2f} "
        f"[{low:.2f}, {high:.2f}], {row.lives} agents"
    )
    if np.isfinite(row.initial_return_mean):
        low, high = row.initial_ci95
        text += f"; in the first episode {row.initial_return_mean:.2f} [{low:.2f}, {high:.2f}]"
    if row.failed_lives:
        text += f"; {row.failed_lives} agents failed"
    if row.ahead_mean is not None and row.ahead_ci95 is not None:
        low, high = row.ahead_ci95
        text += f"; the learned loss ends {row.ahead_mean:.2f} [{low:.2f}, {high:.2f}] above it"
    return text


def mean_with_interval(values: Array) -> str:
    """Returns mean and 95 % interval of [L] values as text; the mean alone where there is one, and
    how many are known where not all are.
    """
    values = np.asarray(values, float)
    known = values[np.isfinite(values)]
    if not len(known):
        return "unknown"
    if len(known) < len(values):
        return f"{mean_with_interval(known)} ({len(known)} of {len(values)} known)"
    if len(values) == 1:
        return f"{values[0]:.2f}"
    low, high = confidence_interval(values)
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


def stated(row: Mapping[str, object]) -> str:
    """Returns mean and 95 % interval of a row of a summary, as text."""
    mean, interval = row.get("final_return_mean"), row.get("ci95")
    if not isinstance(mean, float | int):
        return "failed"
    if not isinstance(interval, list | tuple) or None in interval:
        return f"{mean:.2f}"
    low, high = interval
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"
