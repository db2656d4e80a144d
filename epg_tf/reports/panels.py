"""Draws several panels of curves beside one another, with one legend: tests of agents, or runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from epg_tf.core.types import Array
from epg_tf.evaluation.results import Results
from epg_tf.reports.plots import (
    COLOURS,
    FAINT,
    INK,
    LEGEND_STYLE,
    draw_statistics,
    dress,
    legend_rows,
)

_MOST_COLUMNS = 3
_WIDTH = 9.0  # inches
_PANEL = 3.0  # height of a row of panels
_LEGEND_COLUMNS = 3
_ROW = 0.26  # height of a row of the legend


@dataclasses.dataclass(frozen=True)
class Curves:
    """Curves of one colour.

    Attributes:
      x: [T].
      values: [L, T], one row for each agent or run.
    """

    x: Array
    values: Array

    @staticmethod
    def of_agents(results: Results) -> Curves:
        """Returns the learning curves of the agents of one method."""
        return Curves(*results.pivot())


def agent_panels(
    panels: Mapping[str, Mapping[str, Curves]], title: str, marks: Sequence[float] = ()
) -> Figure:
    """Draws mean and middle half of agents' returns, one panel for each test.

    Args:
      panels: Title of a panel -> name of a curve -> its agents.
      title: Line above all.
      marks: Env steps at which a vertical line stands in each panel.
    """

    def draw(axes: Axes, curves: Curves, colour: str) -> None:
        draw_statistics(axes, curves.x, curves.values, colour)

    figure = _grid(panels, title, draw, ("environment steps", "return"))
    for axes in figure.axes:
        for place in marks:
            axes.axvline(place, color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
    return figure


def run_panels(
    panels: Mapping[str, Mapping[str, Curves]],
    title: str,
    labels: tuple[str, str],
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Draws mean and standard deviation over runs of different seeds, and each run as a thin line
    (EPG, Figure 20).

    Args:
      panels: Title of a panel -> name of a curve -> its runs.
      title: Line above all.
      labels: Of the axes.
      levels: Title of a panel -> height of a dashed horizontal line.
    """

    def draw(axes: Axes, curves: Curves, colour: str) -> None:
        mean, deviation = over_runs(curves.values)
        axes.fill_between(
            curves.x, mean - deviation, mean + deviation, color=colour, alpha=0.18, linewidth=0
        )
        if len(curves.values) > 1:
            for run in curves.values:
                axes.plot(curves.x, run, color=colour, linewidth=0.7, alpha=0.55, zorder=2)
        axes.plot(curves.x, mean, color=colour, linewidth=2.2, zorder=3)

    figure = _grid(panels, title, draw, labels)
    for axes, above in zip(figure.axes, panels, strict=False):
        if levels and above in levels:
            axes.axhline(levels[above], color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
    return figure


def over_runs(values: Array) -> tuple[Array, Array]:
    """Returns mean and standard deviation (of a sample; 0 for one) over the runs of [L, T]; NaN
    where a run has no value, for a mean over fewer of them would jump.
    """
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else 0.0 * values[0]
    return values.mean(axis=0), deviation


def _grid(
    panels: Mapping[str, Mapping[str, Curves]],
    title: str,
    draw: Callable[[Axes, Curves, str], None],
    labels: tuple[str, str],
) -> Figure:
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    shown = [] if names == [labels[1]] else names  # the axis already says it
    columns = _MOST_COLUMNS if len(panels) in (3, 5, 6) else min(2, len(panels))
    lines = -(-len(panels) // columns)
    height = (_PANEL if columns > 1 else 4.4) * lines
    head = 0.34 + _ROW * legend_rows(shown, _LEGEND_COLUMNS)
    figure = Figure(figsize=(_WIDTH, height + head), dpi=100, facecolor="white")
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for number, (axes, (above, curves)) in enumerate(zip(grid.flat, panels.items(), strict=False)):
        for name, each in curves.items():
            draw(axes, each, COLOURS[names.index(name) % len(COLOURS)])
        dress(axes, labels[0], labels[1] if number % columns == 0 else "")
        axes.set_title(above, fontsize=11, color=INK, loc="left")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    top = 1.0 - head / (height + head)
    figure.tight_layout(rect=(0.0, 0.0, 1.0, top))
    _head(figure, title, shown, top)
    return figure


def _head(figure: Figure, title: str, names: Sequence[str], top: float) -> None:
    """Puts title and legend above the panels."""
    left = figure.axes[0].get_position().x0
    figure.text(left, 0.99, title, fontsize=13, fontweight="bold", color=INK, va="top")
    handles = [
        Line2D([], [], color=COLOURS[number % len(COLOURS)], linewidth=2.6, label=name)
        for number, name in enumerate(names)
    ]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(left - 0.008, top),
        ncol=_LEGEND_COLUMNS,
        borderpad=0.2,
        **LEGEND_STYLE,
    )
