"""Draws single lives, one column a task (EPG, Figures 8 and 22): returns above, KL of each update
below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from epg_tf.core.types import Array
from epg_tf.evaluation.results import Results
from epg_tf.reports.plots import COLOURS, INK, dress, head
from epg_tf.reports.tables import label

_WIDTH = 9.0  # inches
_RETURN = "#C1272D"  # red, as in the paper
_KL = "#0072B2"


def spread(results: Results, columns: int) -> list[int]:
    """Returns the numbers of agents whose final returns are spread over those of a method, from
    the lowest to the highest.

    Args:
      results: Rows of one method.
      columns: How many agents.
    """
    finals = results.final()
    numbers = np.array([agent for _, _, _, agent in results.agents()])
    order = numbers[np.argsort(np.where(np.isfinite(finals), finals, -np.inf), kind="stable")]
    places = np.linspace(0, len(order) - 1, min(columns, len(order)))
    return [int(order[round(place)]) for place in places]


def life_columns(results: Results, agents: Sequence[int], title: str) -> Figure:
    """Draws lives of one method: return against env steps, red; KL against updates, blue; the
    number is the mean return of the final episodes.

    Args:
      results: Rows of one method.
      agents: Numbers of those to draw, in the order of columns.
      title: Line above all.
    """
    figure = Figure(figsize=(_WIDTH, 4.6), dpi=100, facecolor="white")
    grid = figure.subplots(2, len(agents), squeeze=False, sharey="row")
    for column, agent in enumerate(agents):
        steps, returns, kl, final = _life(results, agent)
        top, bottom = grid[0, column], grid[1, column]
        top.plot(steps, returns, color=_RETURN, linewidth=1.2)
        top.set_title(f"task {agent}: {final:.1f}", fontsize=10, color=INK)
        bottom.plot(np.arange(1, len(kl) + 1), kl, color=_KL, linewidth=1.0)
        dress(top, "env steps", "return" if column == 0 else "")
        dress(bottom, "update", "KL (nats)" if column == 0 else "")
        for axes in (top, bottom):
            axes.tick_params(labelsize=8)
            axes.xaxis.label.set_size(9)
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.93))
    left = grid[0, 0].get_position().x0
    figure.text(left, 0.985, title, fontsize=13, fontweight="bold", color=INK, va="top")
    return figure


def compared_columns(groups: Mapping[str, Results], agents: Sequence[int], title: str) -> Figure:
    """Draws how several methods learn in the same tasks, one column a task.

    Args:
      groups: Rows of each method.
      agents: Numbers of the tasks, in the order of columns.
      title: Line above all.
    """
    figure = Figure(figsize=(_WIDTH, 3.6), dpi=100, facecolor="white")
    grid = figure.subplots(1, len(agents), squeeze=False, sharey=True)
    handles = []
    for number, (name, rows) in enumerate(groups.items()):
        colour = COLOURS[number % len(COLOURS)]
        handles.append(Line2D([], [], color=colour, linewidth=2.4, label=label(name)))
        for axes, agent in zip(grid[0], agents, strict=True):
            steps, returns, _, _ = _life(rows, agent)
            axes.plot(steps, returns, color=colour, linewidth=1.3)
    for column, (axes, agent) in enumerate(zip(grid[0], agents, strict=True)):
        axes.axhline(0.0, color=INK, linewidth=0.6, zorder=1)
        axes.set_title(f"task {agent}", fontsize=10, color=INK)
        dress(axes, "env steps", "return" if column == 0 else "")
        axes.tick_params(labelsize=8)
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.83))
    head(figure, title, handles, 0.915)
    return figure


def _life(results: Results, agent: int) -> tuple[Array, Array, Array, float]:
    """Returns env steps, returns, KL and final return of one agent."""
    rows = results.rows(results.agent == agent)
    steps, returns = rows.pivot()
    return steps, returns[0], rows.pivot("kl")[1][0], float(rows.final()[0])
