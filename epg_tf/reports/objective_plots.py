"""Draws MetaGenRL's meta-training: the returns of its population."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from epg_tf.core import files
from epg_tf.reports.plots import COLOURS, column, dress, write_png


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
