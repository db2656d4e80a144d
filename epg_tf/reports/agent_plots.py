"""Draws how fresh agents learned, from the table of results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from epg_tf.baselines.maml_method import STEPS
from epg_tf.core import files
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
    legend_rows,
    statistics,
    write_png,
)
from epg_tf.reports.tables import label

_SINGLE_LIVES = 5
_METHODS_WITH_SINGLE_LIVES = 5  # with more of them nobody could tell the lines apart
_GRID_COLUMNS = 4
_MOST_GROUPS = 11  # of which each has a line of its own
_LONG_LABEL = 26  # characters, beyond which the legend has fewer columns
_HIGHEST_KL = 100  # times the median of the methods' peaks, on an axis that is not logarithmic
_LOWEST_KL = 1e-4  # nats, on one that is
_LONGEST = 5  # times the shortest life, on an axis that is not logarithmic


@dataclasses.dataclass(frozen=True)
class _Layout:
    """Places the parts of a picture; lengths are shares of the figure.

    Attributes:
      height: Of the figure (inches); the width is 9.
      columns: Of the legend.
      bottom: Lower edge of the upper panel.
      top: Its upper edge without a legend.
      row: Height of a row of the legend.
      title: Height of the title.
      note: Height of the note without a legend.
    """

    height: float
    columns: int
    bottom: float
    top: float
    row: float
    title: float
    note: float


_WITH_KL = _Layout(7.0, 4, 0.425, 0.900, 0.03, 0.953, 0.921)
_RETURNS_ALONE = _Layout(5.4, 3, 0.115, 0.865, 0.04, 0.937, 0.895)


def learning_curves(results: Results, path: files.PathLike, title: str) -> None:
    """Writes `learning_figure` to a PNG file, 900 pixels wide.

    Raises:
      OSError: The file cannot be written.
    """
    write_png(learning_figure(results, title), path)


def learning_figure(results: Results, title: str, levels: Sequence[str] = ()) -> Figure:
    """Draws fresh agents under several methods: mean and middle half of their returns.

    Where KL was measured, in the layout of EPG's Figure 5: single agents dotted, and below them
    the KL of every update. Where some curves are of episodes with exploration and others are not,
    the former are dashed, and a diamond shows their final policies, and those of MAML, which adapts
    once more after the last point of its curve. A thin line is the final mean return of the learned
    loss, and a star where a rival first reaches it. With more than 11 groups those of a method are
    drawn as one; with lives of very different lengths the axis is logarithmic, and so is that of KL
    where one method's is far above the others'.

    Args:
      results: The table; methods are drawn in its order.
      title: Line above the panels.
      levels: Methods of which only the mean final return is drawn, as a horizontal line.
    """
    groups = _drawn(results)
    measured = bool(np.isfinite(results.kl).any())
    exploring = {name for name, rows in groups.items() if (rows.episodes == LEARNING).any()}
    mixed = exploring if len(exploring) < len(groups) else set()
    layout = _WITH_KL if measured else _RETURNS_ALONE
    if max((len(label(name)) for name in groups), default=0) > _LONG_LABEL:
        layout = dataclasses.replace(layout, columns=3)
    figure = Figure(figsize=(9, layout.height), dpi=100, facecolor="white")
    rows_of_legend = legend_rows(groups, layout.columns)
    height = layout.top - layout.bottom - layout.row * rows_of_legend
    top = figure.add_axes((0.095, layout.bottom, 0.875, height))
    handles, diamonds = [], False
    for number, (name, rows) in enumerate(groups.items()):
        colour = COLOURS[number % len(COLOURS)]
        style: Style = "--" if name in mixed else "-"
        if name in levels:
            top.axhline(
                float(worst_for_failed(rows.final()).mean()), color=colour, linewidth=2.2, zorder=2
            )
            handles.append(Line2D([], [], color=colour, linewidth=2.6, label=label(name)))
            continue
        if measured and len(groups) <= _METHODS_WITH_SINGLE_LIVES:
            _draw_single_lives(top, rows, colour)
        draw_statistics(top, *rows.pivot(), colour, style)
        if (name in mixed or rows.method[0] in STEPS) and np.isfinite(rows.final()).any():
            mean = worst_for_failed(rows.final()).mean()
            top.plot(rows.env_steps.max(), mean, color=colour, marker="D", linestyle="", zorder=4)
            diamonds = True
        handles.append(
            Line2D([], [], color=colour, linestyle=style, linewidth=2.6, label=label(name))
        )
    matched = _mark_matches(top, results, groups)
    dress(top, "environment steps", "return")
    if _far_apart(groups):
        top.set_xscale("log")
    top.xaxis.set_major_formatter(EngFormatter(sep=""))
    if measured:
        _draw_kl(figure, top, groups, levels)
    head(figure, title, handles, layout.title, layout.columns)
    single = measured and len(groups) <= _METHODS_WITH_SINGLE_LIVES
    note = _note(single, bool(mixed), diamonds, matched)
    place = layout.note - layout.row * rows_of_legend
    figure.text(0.097, place, note, fontsize=9, color=FAINT, va="center")
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
    """Marks where rivals reach the learned loss's final return; returns whether one does.

    Args:
      axes: Where curves are.
      results: The table.
      groups: What has a line of its own.
    """
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
    return "     ".join(parts)


def _draw_single_lives(axes: Axes, rows: Results, colour: str) -> None:
    steps, returns = rows.pivot()
    for life in returns[:_SINGLE_LIVES]:
        axes.plot(steps, life, color=colour, linewidth=0.9, linestyle=":", alpha=0.75, zorder=2)


def _draw_kl(
    figure: Figure, top: Axes, groups: Mapping[str, Results], levels: Sequence[str]
) -> None:
    """Draws the KL of every update below the panel of returns, in its colours."""
    bottom = figure.add_axes((0.095, 0.085, 0.875, 0.235))
    peaks = []
    for number, (name, rows) in enumerate(groups.items()):
        if name in levels:
            continue
        steps, kl = rows.pivot("kl")
        draw_statistics(bottom, np.arange(1, len(steps) + 1), kl, COLOURS[number % len(COLOURS)])
        if np.isfinite(kl).any():
            peaks.append(np.nanmax(statistics(kl)[0]))
    dress(bottom, "number of updates", "KL per update (nats)")
    bottom.set_ylim(bottom=0)
    if peaks and max(peaks) > _HIGHEST_KL * np.median(peaks) > 0:
        bottom.set_yscale("log")
        bottom.set_ylim(bottom=_LOWEST_KL)
    figure.align_ylabels([top, bottom])


def objective_grid(
    results: Results, titles: Mapping[str, str], path: files.PathLike, title: str
) -> None:
    """Writes `objective_figure` to a PNG file.

    Raises:
      OSError: The file cannot be written.
    """
    write_png(objective_figure(results, titles, title), path)


def objective_figure(results: Results, titles: Mapping[str, str], title: str) -> Figure:
    """Draws fresh agents under objectives at stages of meta-training, one panel each (MetaGenRL,
    Figures 4 and 10).

    Args:
      results: The table; all its methods are learned objectives.
      titles: Name of an objective -> title of its panel, in the order of the panels.
      title: Line above the panels.
    """
    columns = min(_GRID_COLUMNS, len(titles))
    lines = -(-len(titles) // columns)
    figure = Figure(figsize=(2.9 * columns + 0.6, 2.5 * lines + 0.9), dpi=100, facecolor="white")
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(titles) :]:
        axes.set_axis_off()
    for axes, (loss, above) in zip(grid.flat, titles.items(), strict=False):
        steps, returns = results.select(loss=loss).pivot()
        for agent in returns:
            axes.plot(steps, agent, color=COLOURS[0], linewidth=0.8, alpha=0.6)
        draw_statistics(axes, steps, returns, COLOURS[0])
        dress(axes, "", "")
        axes.set_title(above, fontsize=9)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    figure.supxlabel("environment steps of a fresh agent", fontsize=10)
    figure.supylabel("return without exploration", fontsize=10)
    figure.suptitle(title, fontsize=12)
    figure.tight_layout()
    return figure
