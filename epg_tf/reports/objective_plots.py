"""Draws the meta-training of MetaGenRL, MAML and RL²: returns of episodes against env steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from epg_tf.core import files
from epg_tf.reports.plots import COLOURS, column, dress, write_png


def training_curves(
    rows: Sequence[Mapping[str, float]], returns: Mapping[str, str], path: files.PathLike
) -> None:
    """Writes `training_figure` to a PNG file.

    Raises:
      OSError: The file cannot be written.
    """
    write_png(training_figure(rows, returns), path)


def training_figure(rows: Sequence[Mapping[str, float]], returns: Mapping[str, str]) -> Figure:
    """Draws mean returns against the env steps of meta-training, one panel each.

    Args:
      rows: One per round or iteration, with a column `env_steps`.
      returns: What a panel shows, e.g. "return in Hopper-v5" -> its column.
    """
    figure = Figure(figsize=(9, 1.0 + 3.6 * len(returns)), dpi=100, facecolor="white")
    grid = figure.subplots(len(returns), 1, squeeze=False)
    for axes, (shown, name), colour in zip(
        grid[:, 0], returns.items(), COLOURS * len(returns), strict=False
    ):
        axes.plot(
            column(rows, "env_steps"),
            column(rows, name),
            color=colour,
            linewidth=2,
            marker="o" if len(rows) == 1 else "",
        )
        dress(axes, "environment steps of meta-training", shown)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    figure.suptitle("Meta-training: mean return of episodes, with exploration", fontsize=12)
    figure.tight_layout()
    return figure
