"""Draws MetaGenRL: the population's returns in meta-training, and how fresh agents learn from
objectives.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from epg_tf.core import files
from epg_tf.core.types import Array
from epg_tf.reports.plots import (
    COLOURS,
    FAINT,
    column,
    draw_statistics,
    dress,
    head,
    legend_rows,
    write_csv,
    write_png,
)

_GRID_COLUMNS = 4
_LEGEND_COLUMNS = 3


def training_curves(
    rows: Sequence[Mapping[str, float]], environments: Sequence[str], path: files.PathLike
) -> None:
    """Draws the population's mean return in each environment against env steps, one panel each.

    Args:
      rows: One per round, with columns `env_steps` and `training_return/ENVIRONMENT`.
      environments: Their names.
      path: PNG to write.

    Raises:
      OSError: The file cannot be written.
    """
    figure = Figure(figsize=(9, 1.0 + 3.6 * len(environments)), dpi=100, facecolor="white")
    grid = figure.subplots(len(environments), 1, squeeze=False)
    for axes, environment, colour in zip(
        grid[:, 0], environments, COLOURS * len(environments), strict=False
    ):
        returns = column(rows, f"training_return/{environment}")
        axes.plot(
            column(rows, "env_steps"),
            returns,
            color=colour,
            linewidth=2,
            marker="o" if len(rows) == 1 else "",
        )
        dress(axes, "environment steps of the population", f"return in {environment}")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    figure.suptitle("Meta-training: mean return of episodes, with exploration", fontsize=12)
    figure.tight_layout()
    write_png(figure, path)


def learning_curves(
    curves: Mapping[str, tuple[Array, Array]],
    exploring: Collection[str],
    path: files.PathLike,
    title: str,
) -> None:
    """Draws how fresh agents learn under several methods.

    Args:
      curves: Label -> (env steps [T], returns [L, T]); drawn in this order.
      exploring: Labels of curves whose episodes are played with exploration; dashed.
      path: PNG to write, 900 x 540 pixels.
      title: Line above the panel.

    Raises:
      OSError: The file cannot be written.
    """
    figure = Figure(figsize=(9, 5.4), dpi=100, facecolor="white")
    rows = legend_rows(curves, _LEGEND_COLUMNS)
    axes = figure.add_axes((0.095, 0.115, 0.875, 0.75 - 0.04 * rows))
    handles = []
    for number, (label, (steps, returns)) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        style = "--" if label in exploring else "-"
        draw_statistics(axes, steps, returns, colour, style)
        handles.append(Line2D([], [], color=colour, linestyle=style, linewidth=2.4, label=label))
    dress(axes, "environment steps", "return")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    head(figure, title, handles, 0.937, _LEGEND_COLUMNS)
    note = "line: mean     band: middle half of agents" + (
        "     dashed: with exploration" if exploring else ""
    )
    figure.text(0.097, 0.895 - 0.04 * rows, note, fontsize=9, color=FAINT, va="center")
    write_png(figure, path)


def objective_grid(
    curves: Mapping[int, tuple[Array, Array]], path: files.PathLike, title: str
) -> None:
    """Draws fresh agents under objectives at stages of meta-training, one panel each (MetaGenRL,
    Figures 4 and 10).

    Args:
      curves: Env steps of meta-training per agent -> (env steps [T], returns [L, T]).
      path: PNG to write.
      title: Line above the panels.

    Raises:
      OSError: The file cannot be written.
    """
    columns = min(_GRID_COLUMNS, len(curves))
    lines = -(-len(curves) // columns)
    figure = Figure(figsize=(2.9 * columns + 0.6, 2.5 * lines + 0.9), dpi=100, facecolor="white")
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(curves) :]:
        axes.set_axis_off()
    for axes, (trained, (steps, returns)) in zip(grid.flat, curves.items(), strict=False):
        for agent in returns:
            axes.plot(steps, agent, color=COLOURS[0], linewidth=0.8, alpha=0.6)
        draw_statistics(axes, steps, returns, COLOURS[0])
        dress(axes, "", "")
        axes.set_title(
            f"after {EngFormatter(sep=' ')(trained)} env steps per agent".replace("  ", " "),
            fontsize=9,
        )
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    figure.supxlabel("environment steps of a fresh agent", fontsize=10)
    figure.supylabel("return without exploration", fontsize=10)
    figure.suptitle(title, fontsize=12)
    figure.tight_layout()
    write_png(figure, path)


def curves_csv(
    curves: Mapping[str | int, tuple[Array, Array]], name: str, path: files.PathLike
) -> None:
    """Writes the numbers behind a picture: one row per curve, agent and evaluation, NaN as `nan`.

    Args:
      curves: As drawn.
      name: Header of what tells curves apart, e.g. "method".
      path: CSV to write.

    Raises:
      OSError: The file cannot be written.
    """
    lines: list[list[float | str]] = [[name, "agent", "env_steps", "return"]]
    for label, (steps, returns) in curves.items():
        for agent, row in enumerate(returns):
            lines += [
                [label, agent, int(step), float(value)]
                for step, value in zip(steps, row, strict=True)
            ]
    write_csv(lines, path)
