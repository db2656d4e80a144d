"""Draws several panels of curves beside one another, with one legend: tests of agents, or runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from epg_tf.core.types import Array
from epg_tf.evaluation.results import Results
from epg_tf.reports.plots import COLOURS, FAINT, INK, as_it_is, draw_statistics, dress, head

_DASHED = (0, (4, 3))


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


Panels = Mapping[str, Mapping[str, Curves]]
"""Title of a panel -> name of a curve -> its agents or runs."""


def agent_panels(
    panels: Panels,
    title: str,
    labels: tuple[str, str] = ("environment steps", "return"),
    marks: Sequence[float] = (),
    single: bool = False,
) -> Figure:
    """Draws mean and middle half over agents.

    Args:
      marks: Where a vertical line stands in each panel.
      single: Whether each agent is a thin line, too, and all panels share their axes.
    """

    def draw(axes: Axes, curves: Curves, colour: str) -> None:
        if single:
            axes.plot(curves.x, curves.values.T, color=colour, linewidth=0.8, alpha=0.6)
        draw_statistics(axes, curves.x, curves.values, colour)

    figure = grid(panels, title, draw, labels, shared=single)
    for axes in figure.axes:
        for place in marks:
            axes.axvline(place, color=FAINT, linewidth=1.2, linestyle=_DASHED, zorder=1)
    return figure


def objective_panels(results: Results, titles: Mapping[str, str], title: str) -> Figure:
    """Draws fresh agents under objectives at stages of meta-training, one panel each (MetaGenRL,
    Figures 4 and 10).

    Args:
      titles: Name of an objective -> title of its panel, in the order of the panels.
    """
    panels = {
        above: {"": Curves.of_agents(results.select(loss=loss))} for loss, above in titles.items()
    }
    labels = ("environment steps of a fresh agent", "return without exploration")
    return agent_panels(panels, title, labels, single=True)


def run_panels(
    panels: Panels,
    title: str,
    labels: tuple[str, str],
    levels: Mapping[str, float] | None = None,
    shared: bool = False,
) -> Figure:
    """Draws mean and standard deviation over runs of different seeds, and each run as a thin line
    (EPG, Figure 20).

    Args:
      levels: Title of a panel -> height of a dashed horizontal line.
    """

    def draw(axes: Axes, curves: Curves, colour: str) -> None:
        mean, deviation = over_runs(curves.values)
        axes.fill_between(
            curves.x, mean - deviation, mean + deviation, color=colour, alpha=0.18, linewidth=0
        )
        if len(curves.values) > 1:
            axes.plot(curves.x, curves.values.T, color=colour, linewidth=0.7, alpha=0.55, zorder=2)
        marker = "o" if len(curves.x) == 1 else ""
        axes.plot(curves.x, mean, color=colour, linewidth=2.2, marker=marker, zorder=3)

    figure = grid(panels, title, draw, labels, shared)
    for axes, above in zip(figure.axes, panels, strict=False):
        if levels and np.isfinite(levels.get(above, np.nan)):
            axes.axhline(levels[above], color=FAINT, linewidth=1.2, linestyle=_DASHED, zorder=1)
    return figure


def over_runs(values: Array) -> tuple[Array, Array]:
    """Returns mean and standard deviation (of a sample; 0 for one) over the runs of [L, T]; NaN
    where a run has no value, for a mean over fewer of them would jump.
    """
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else 0.0 * values[0]
    return values.mean(axis=0), deviation


def grid(
    panels: Panels,
    title: str,
    draw: Callable[[Axes, Curves, str], None],
    labels: tuple[str, str],
    shared: bool = False,
    note: str = "",
) -> Figure:
    """Lays out panels in rows, and draws each of their curves in the colour of its name.

    Args:
      panels: What to draw; a curve that is alone and has no name, or that of the vertical axis, is
        not in the legend.
    """
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    columns = 3 if len(panels) in (3, 5, 6) or len(panels) > 8 else min(2, len(panels))
    lines = -(-len(panels) // columns)
    height = {1: 4.4, 2: 3.0, 3: 2.5}[columns] * lines + 0.8
    figure = Figure(figsize=(9.0, height), dpi=100, facecolor="white")
    places = figure.subplots(lines, columns, squeeze=False, sharex=shared, sharey=shared)
    for axes in places.flat[len(panels) :]:
        axes.set_axis_off()
    for number, (axes, (above, curves)) in enumerate(
        zip(places.flat, panels.items(), strict=False)
    ):
        for name, each in curves.items():
            draw(axes, each, COLOURS[names.index(name) % len(COLOURS)])
        last = number + columns >= len(panels)
        dress(axes, labels[0] if last else "", labels[1] if number % columns == 0 else "")
        axes.set_title(as_it_is(above), fontsize=11 - (columns > 2), color=INK, loc="left")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    handles = [
        Line2D([], [], color=COLOURS[number % len(COLOURS)], linewidth=2.6, label=name)
        for number, name in enumerate(names)
    ]
    shown = handles if set(names) - {labels[1], ""} else []  # else the axis says it
    head(figure, title, shown, note)
    return figure
