"""Makes the charts of a test of fresh agents from the table of results."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from epg_tf.core.types import Array
from epg_tf.evaluation.results import LEARNING, Results
from epg_tf.evaluation.summary import Summary
from epg_tf.reports import charts
from epg_tf.reports.charts import View
from epg_tf.reports.plots import statistics
from epg_tf.reports.tables import label

_RETURN = "return of the final policy"
_STEPS = "environment steps of learning"
_POINTS = 3000  # of a method, so that a browser stays quick


def learning_curves(groups: Mapping[str, Results]) -> go.Figure:
    """Returns mean and middle half of the returns while agents learn, and of KL where measured.

    Where some curves are of episodes with exploration and others are not, the former are dashed.

    Args:
      groups: Rows of each method, as of `Results.groups`.
    """
    exploring = {name for name, rows in groups.items() if (rows.episodes == LEARNING).any()}
    dashed = exploring if len(exploring) < len(groups) else set()
    views = [View("return", _STEPS, "return", _curves(groups, "returns", dashed))]
    views.append(View("single agents", _STEPS, "return", _single_agents(groups)))
    if any(np.isfinite(rows.kl).any() for rows in groups.values()):
        kl = _curves(groups, "kl", dashed)
        views.append(View("KL per update", _STEPS, "KL per update (nats)", kl))
    return charts.chart(views)


def _curves(groups: Mapping[str, Results], column: str, dashed: set[str]) -> list[go.Scatter]:
    traces = []
    for number, (name, rows) in enumerate(groups.items()):
        steps, values = rows.pivot(column)
        if np.isfinite(values).any():
            mean, low, high = statistics(values)
            traces.append(charts.band(steps, low, high, number))
            traces.append(charts.line(label(name), steps, mean, number, name in dashed))
    return traces


def _single_agents(groups: Mapping[str, Results]) -> list[go.Scatter]:
    """Returns the returns of the first agents as points, some thousands of a method."""
    traces = []
    for number, (name, rows) in enumerate(groups.items()):
        steps, values = rows.pivot()
        values = values[: max(1, _POINTS // max(1, len(steps)))]
        x = np.broadcast_to(steps, values.shape).ravel()
        traces.append(charts.points(label(name), x, values.ravel(), number))
    return traces


def comparison(summaries: Mapping[str, Summary]) -> go.Figure:
    """Returns means with their 95 % intervals: of final returns, of areas, and of differences."""
    final = {label(name): (row.final_return_mean, *row.ci95) for name, row in summaries.items()}
    area = {label(name): (row.auc_mean, *row.auc_ci95) for name, row in summaries.items()}
    ahead = {
        label(name): (row.ahead_mean, *row.ahead_ci95)
        for name, row in summaries.items()
        if row.ahead_mean is not None and row.ahead_ci95 is not None
    }
    views = [_view("final return", "mean and 95 % interval", final)]
    if any(np.isfinite(mean) for mean, _, _ in area.values()):
        views.append(_view("while learning", "auc: mean and 95 % interval", area))
    if ahead:
        title = "ahead: mean and 95 % interval"
        views.append(_view("difference", title, ahead))
    return charts.chart(views)


def _view(name: str, title: str, rows: Mapping[str, tuple[float, float, float]]) -> View:
    return View(name, title, "", charts.intervals(rows), categories=True)


def distribution(groups: Mapping[str, Results], summaries: Mapping[str, Summary]) -> go.Figure:
    """Returns final returns over tasks, one point an agent, and their performance profiles."""
    boxes = [
        charts.box(label(name), rows.final(), number)
        for number, (name, rows) in enumerate(groups.items())
    ]
    views = [View("one point an agent", _RETURN, "", boxes, categories=True)]
    profiles = []
    for number, name in enumerate(groups):
        if (pairs := summaries[name].profile) is not None:
            returns, shares = np.array(pairs).T
            profiles.append(charts.line(label(name), returns, shares, number))
    if profiles:
        title = "share of agents that end above it"
        views.append(View("performance profile", _RETURN, title, profiles))
    return charts.chart(views)


def by_parameter(groups: Mapping[str, Results], parameters: Mapping[str, Array]) -> go.Figure:
    """Returns final returns against what tasks differ in, one view a parameter.

    Args:
      groups: Rows of each method.
      parameters: Name with unit -> values, one for each number of an agent.
    """
    views = []
    for parameter, values in parameters.items():
        traces = []
        for number, (name, rows) in enumerate(groups.items()):
            agents = [agent for *_, agent in rows.agents()]
            traces.append(charts.points(label(name), values[agents], rows.final(), number))
        views.append(View(parameter, parameter, _RETURN, traces))
    return charts.chart(views)
