"""Draws how fresh agents learned, from the table of results."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from epg_tf.baselines.maml_settings import TEST_STEPS
from epg_tf.core.failures import worst_for_failed
from epg_tf.evaluation.results import LEARNING, Results
from epg_tf.evaluation.summary import learned_groups, reference, summarize
from epg_tf.reports.plots import (
    COLOURS,
    FAINT,
    Style,
    draw_statistics,
    dress,
    head,
    statistics,
)
from epg_tf.reports.tables import label

_SINGLE_LIVES = 5
_METHODS_WITH_SINGLE_LIVES = 5  # with more of them nobody could tell the lines apart
_MOST_GROUPS = 11  # of which each has a line of its own
_HIGHEST_KL = 100  # times the median of the methods' peaks, on an axis that is not logarithmic
_LOWEST_KL = 1e-4  # nats, on one that is
_LONGEST = 5  # times the shortest life, on an axis that is not logarithmic


def learning_figure(results: Results, title: str, levels: Sequence[str] = ()) -> Figure:
    """Draws fresh agents under several methods: mean and middle half of their returns.

    Where KL was measured, in the layout of EPG's Figure 5: single agents dotted, and below them
    the KL of every update. Where some curves are of episodes with exploration and others are not,
    the former are dashed, and a diamond shows their final policies, and those of MAML, which adapts
    once more after the last point of its curve. A thin line is the final mean return of the learned
    loss, and a star where a baseline first reaches it. With more than 11 groups those of a method
    are drawn as one; with lives of very different lengths the axis is logarithmic, and so is that
    of KL where one method's is far above the others'.

    Args:
      levels: Methods of which only the mean final return is drawn, as a horizontal line.
    """
    groups = _drawn(results)
    exploring = {name for name, rows in groups.items() if (rows.episodes == LEARNING).any()}
    dashed = exploring if len(exploring) < len(groups) else set()
    measured = bool(np.isfinite(results.kl).any())
    single = measured and len(groups) <= _METHODS_WITH_SINGLE_LIVES
    figure = Figure(figsize=(9, 7.0 if measured else 5.4), dpi=100, facecolor="white")
    top, *below = figure.subplots(
        1 + measured, height_ratios=(2, 1)[: 1 + measured], squeeze=False
    )[:, 0]
    handles, diamonds = [], False
    for (name, rows), colour in zip(groups.items(), itertools.cycle(COLOURS)):
        style: Style = "--" if name in dashed else "-"
        handles.append(
            Line2D([], [], color=colour, linestyle=style, linewidth=2.6, label=label(name))
        )
        final = worst_for_failed(rows.final()).mean()
        if name in levels:
            top.axhline(float(final), color=colour, linewidth=2.2, zorder=2)
            continue
        if single:
            _draw_single_lives(top, rows, colour)
        draw_statistics(top, *rows.pivot(), colour, style)
        if (name in dashed or rows.method[0] in TEST_STEPS) and np.isfinite(rows.final()).any():
            top.plot(rows.env_steps.max(), final, color=colour, marker="D", linestyle="", zorder=4)
            diamonds = True
    matched = _mark_matches(top, results, groups)
    dress(top, "environment steps", "return")
    if _far_apart(groups):
        top.set_xscale("log")
    top.xaxis.set_major_formatter(EngFormatter(sep=""))
    for axes in below:
        _draw_kl(axes, groups, levels)
    head(figure, title, handles, _note(single, bool(dashed), diamonds, matched))
    return figure


def _drawn(results: Results) -> dict[str, Results]:
    """Returns what has a line of its own: each group of results while there are few, else each
    method, with the agents of all its losses.
    """
    groups = results.groups()
    if len(groups) <= _MOST_GROUPS:
        return groups
    return {method: results.select(method) for method in dict.fromkeys(results.method)}


def _far_apart(groups: Mapping[str, Results]) -> bool:
    """Returns whether some agents live so much longer that the others' curves cannot be seen."""
    lengths = [steps for rows in groups.values() if (steps := int(rows.env_steps.max()))]
    return max(lengths, default=0) > _LONGEST * min(lengths, default=0)


def _mark_matches(axes: Axes, results: Results, groups: Mapping[str, Results]) -> bool:
    """Marks where baselines reach the learned loss's final return; returns whether one does."""
    compared = reference(results)
    if compared is None:
        return False
    summaries, learned = summarize(results), learned_groups(results)
    target = summaries[compared].final_return_mean
    reached = [
        (number, steps)
        for number, name in enumerate(groups)
        if name in summaries.keys() - {compared, *learned}
        and (steps := summaries[name].steps_to_match) is not None
    ]
    if np.isfinite(target):
        axes.axhline(target, color=FAINT, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1)
    for number, steps in reached:
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(
            steps,
            target,
            marker="*",
            markersize=13,
            color=colour,
            markeredgecolor="white",
            zorder=5,
        )
    return bool(reached)


def _note(single_lives: bool, dashed: bool, diamonds: bool, matched: bool) -> str:
    """Returns what explains the lines."""
    parts = ["line: mean", "band: middle half of agents"]
    if single_lives:
        parts.append(f"dotted: first {_SINGLE_LIVES} agents")
    if dashed:
        parts.append("dashed: with exploration")
    if diamonds:
        parts.append("diamond: final policy")
    if matched:
        parts.append("star: matches the learned loss")
    return "; ".join(parts)


def _draw_single_lives(axes: Axes, rows: Results, colour: str) -> None:
    steps, returns = rows.pivot()
    for life in returns[:_SINGLE_LIVES]:
        axes.plot(steps, life, color=colour, linewidth=0.9, linestyle=":", alpha=0.75, zorder=2)


def _draw_kl(axes: Axes, groups: Mapping[str, Results], levels: Sequence[str]) -> None:
    """Draws the KL of every update, in the colours of the panel of returns."""
    peaks = []
    for (name, rows), colour in zip(groups.items(), itertools.cycle(COLOURS)):
        if name in levels:
            continue
        steps, kl = rows.pivot("kl")
        draw_statistics(axes, np.arange(1, len(steps) + 1), kl, colour)
        if np.isfinite(kl).any():
            peaks.append(np.nanmax(statistics(kl)[0]))
    dress(axes, "number of updates", "KL per update (nats)")
    axes.set_ylim(bottom=0)
    if peaks and max(peaks) > _HIGHEST_KL * np.median(peaks) > 0:
        axes.set_yscale("log")
        axes.set_ylim(bottom=_LOWEST_KL)
