"""Draws single lives (EPG, Figures 8 and 22)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from epg_tf.core.types import Array
from epg_tf.evaluation.results import Results
from epg_tf.reports.panels import Curves, run_panels
from epg_tf.reports.plots import INK, dress, head
from epg_tf.reports.tables import label

_RETURN = "#C1272D"  # red, as in the paper
_KL = "#0072B2"


def spread(results: Results, columns: int) -> list[int]:
    """Returns the numbers of agents whose final returns are spread over those of a method, from
    the lowest to the highest.
    """
    finals = results.final()
    numbers = np.array([agent for _, _, _, agent in results.agents()])
    order = numbers[np.argsort(np.where(np.isfinite(finals), finals, -np.inf), kind="stable")]
    places = np.linspace(0, len(order) - 1, min(columns, len(order)))
    return [int(order[round(place)]) for place in places]


def life_columns(results: Results, agents: Sequence[int], title: str) -> Figure:
    """Draws lives of one method, one column a task: return against env steps, red; KL against
    updates, blue; the number is the mean return of the final episodes.

    Args:
      agents: Numbers of those to draw, in the order of columns.
    """
    figure = Figure(figsize=(9.0, 4.6), dpi=100, facecolor="white")
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
    head(figure, title)
    return figure


def compared_columns(groups: Mapping[str, Results], agents: Sequence[int], title: str) -> Figure:
    """Draws how several methods learn in the same tasks, one panel a task.

    Args:
      agents: Numbers of the tasks, in the order of panels.
    """
    panels: dict[str, dict[str, Curves]] = {f"task {agent}": {} for agent in agents}
    for name, rows in groups.items():
        for above, agent in zip(panels, agents, strict=True):
            steps, returns, _, _ = _life(rows, agent)
            panels[above][label(name)] = Curves(steps, returns[None])
    labels = ("environment steps", "return")
    return run_panels(panels, title, labels, dict.fromkeys(panels, 0.0), shared=True)


def _life(results: Results, agent: int) -> tuple[Array, Array, Array, float]:
    """Returns env steps, returns, KL and final return of one agent."""
    rows = results.rows(results.agent == agent)
    steps, returns = rows.pivot()
    return steps, returns[0], rows.pivot("kl")[1][0], float(rows.final()[0])
