"""Draws the progress of meta-training and the tests of a study; holds what all pictures share.

Figures are drawn off screen and without pyplot, so they can be drawn anywhere, from any thread.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator

from epg_tf.core import files
from epg_tf.core.types import Array

# Okabe and Ito's palette, which colour-blind eyes can distinguish, strongest contrast on white
# first; then others of Tol's.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#882255",
    "#999933",
    "#332288",
    "#661100",
    "#44AA99",
    "#AA4499",
    "#DDCC77",
    "#117733",
    "#BBBBBB",
)
INK = "#333333"
FAINT = "#8A8A8A"
Style = Literal["-", "--"]
"""Of a line, solid or dashed."""

_LEGEND_COLUMNS = 4


def learning_curve(rows: Sequence[Mapping[str, float]], path: files.PathLike) -> None:
    """Draws meta-training: fitness and validation return, and on a thin second axis alpha, against
    epochs.

    Args:
      rows: One per epoch, as `MetricsFile.read` returns them. Columns `epoch`, `fitness_mean`,
        `fitness_q25`, `fitness_q75`, `validation_return_mean`, `alpha`; a column that is absent or
        NaN is not drawn.
      path: PNG to write, 900 x 540 pixels.

    Raises:
      OSError: The file cannot be written.
    """
    figure = Figure(figsize=(9, 5.4), dpi=100, facecolor="white")
    axes = figure.add_axes((0.095, 0.115, 0.82, 0.765))
    epochs, alpha = column(rows, "epoch"), column(rows, "alpha")
    handles = _draw_returns(axes, rows, epochs)
    dress(axes, "epoch", "return")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if np.isfinite(alpha).any():
        handles += _draw_alpha(axes, epochs, alpha)
    head(figure, "Meta-training", handles, 0.945)
    write_png(figure, path)


def _draw_returns(axes: Axes, rows: Sequence[Mapping[str, float]], epochs: Array) -> list[Artist]:
    """Draws fitness and validation return; returns what the legend names."""
    low, high = column(rows, "fitness_q25"), column(rows, "fitness_q75")
    validation = column(rows, "validation_return_mean")
    handles: list[Artist] = [
        *axes.plot(
            epochs,
            column(rows, "fitness_mean"),
            color=COLOURS[0],
            linewidth=2,
            marker=_marker(epochs),
            label="mean fitness",
        ),
        axes.fill_between(
            epochs,
            low,
            high,
            color=COLOURS[0],
            alpha=0.18,
            linewidth=0,
            label="middle half of lives",
        ),
    ]
    drawn = np.isfinite(validation)
    if drawn.any():
        handles += axes.plot(
            epochs[drawn],
            validation[drawn],
            "o",
            color=COLOURS[1],
            markersize=6.5,
            markeredgecolor="white",
            label="validation return (mean)",
            zorder=4,
        )
    return handles


def _draw_alpha(axes: Axes, epochs: Array, alpha: Array) -> list[Line2D]:
    """Draws alpha on a second axis, below the curves; returns what the legend names."""
    right = axes.twinx()
    lines = right.plot(
        epochs, alpha, color=FAINT, linewidth=1, linestyle=(0, (5, 2)), label="alpha (right)"
    )
    right.set_ylim(-0.03, 1.03)
    right.set_ylabel("alpha: share of the surrogate loss", color=FAINT, fontsize=9.5, labelpad=7)
    right.tick_params(colors=FAINT, labelsize=9, length=0)
    right.spines[:].set_visible(False)
    axes.set_zorder(right.get_zorder() + 1)
    axes.patch.set_visible(False)
    return lines


@dataclasses.dataclass(frozen=True)
class EvaluatedRun:
    """One run of a study, tested T times.

    Attributes:
      estimator: Name of its estimator of evolution.
      seed: Of the run.
      rows: [T] tests in their order, each with `epoch`, `env_steps` (meta-training so far), and of
        the return `mean`, `low` and `high`, the ends of its 95 % interval.
    """

    estimator: str
    seed: int
    rows: Sequence[Mapping[str, float]]


def study_curves(
    runs: Sequence[EvaluatedRun], ppo: tuple[float, float, float], path: files.PathLike, title: str
) -> None:
    """Draws test returns against the env steps of meta-training, one colour per estimator.

    Each run is a thin line; a bold one is the mean over the runs of an estimator, test by test.

    Args:
      runs: Runs; those of one estimator have been tested equally often.
      ppo: PPO's mean return and the ends of its interval: a horizontal line and band; NaN draws
        none.
      path: PNG to write, 900 x 540 pixels.
      title: Line above the panel.

    Raises:
      OSError: The file cannot be written.
    """
    figure = Figure(figsize=(9, 5.4), dpi=100, facecolor="white")
    estimators = list(dict.fromkeys(run.estimator for run in runs))
    entries = len(estimators) + 1
    axes = figure.add_axes((0.095, 0.115, 0.875, 0.75 - 0.04 * legend_rows(range(entries))))
    handles = []
    for number, estimator in enumerate(estimators):
        colour = COLOURS[number % len(COLOURS)]
        mine = [run.rows for run in runs if run.estimator == estimator]
        steps = np.array([column(rows, "env_steps") for rows in mine])
        means = np.array([column(rows, "mean") for rows in mine])
        for one_steps, one_means in zip(steps, means, strict=True):
            axes.plot(one_steps, one_means, color=colour, linewidth=0.8, alpha=0.6, zorder=2)
        axes.plot(steps.mean(axis=0), means.mean(axis=0), color=colour, linewidth=2.4, zorder=3)
        handles.append(Line2D([], [], color=colour, linewidth=3, label=estimator))
    if np.isfinite(ppo).all():
        mean, low, high = ppo
        axes.axhspan(low, high, color=FAINT, alpha=0.22, linewidth=0, zorder=1)
        axes.axhline(mean, color=FAINT, linewidth=1.6, linestyle=(0, (5, 2)), zorder=1)
        handles.append(
            Line2D([], [], color=FAINT, linewidth=1.6, linestyle=(0, (5, 2)), label="PPO")
        )
    dress(axes, "environment steps of meta-training", "test return")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    head(figure, title, handles, 0.937)
    legend = "thin: a run     bold: mean over runs     band: 95 % interval of PPO's mean"
    figure.text(
        0.097,
        0.895 - 0.04 * legend_rows(range(entries)),
        legend,
        fontsize=9,
        color=FAINT,
        va="center",
    )
    write_png(figure, path)


def study_csv(runs: Sequence[EvaluatedRun], path: files.PathLike) -> None:
    """Writes the numbers behind `study_curves`: one row per test, NaN as `nan`.

    Raises:
      OSError: The file cannot be written.
    """
    numbers = ("mean", "low", "high")
    lines: list[list[float | str]] = [["estimator", "seed", "epoch", "env_steps", *numbers]]
    for run in runs:
        for row in run.rows:
            places = [int(row["epoch"]), int(row["env_steps"])]
            values = [float(row[name]) for name in numbers]
            lines.append([run.estimator, run.seed, *places, *values])
    write_csv(lines, path)


def write_csv(lines: Sequence[Sequence[float | str]], path: files.PathLike) -> None:
    """Writes lines of cells, the header first."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    files.write_atomically(path, lambda stream: stream.write(buffer.getvalue().encode()))


def statistics(values: Array) -> tuple[Array, Array, Array]:
    """Returns mean, 25 % and 75 % quantile over the lives of [L, T], each [T]; NaN where no life
    has a finite value.
    """
    values = np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    known = np.isfinite(values).any(axis=0)  # NumPy warns about columns that are all NaN
    result = np.full((3, values.shape[1]), np.nan)
    result[0, known] = np.nanmean(values[:, known], axis=0)
    result[1:, known] = np.nanquantile(values[:, known], [0.25, 0.75], axis=0)
    return result[0], result[1], result[2]


def draw_statistics(axes: Axes, x: Array, values: Array, colour: str, style: Style = "-") -> None:
    """Draws mean and middle half of [L, T] values over x, [T]; a mean without neighbours becomes a
    dot.
    """
    mean, low, high = statistics(values)
    axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=1)
    axes.plot(x, mean, color=colour, linewidth=2.2, linestyle=style, zorder=3)
    known = np.pad(np.isfinite(mean), 1)
    isolated = known[1:-1] & ~known[:-2] & ~known[2:]
    if isolated.any():
        axes.plot(x[isolated], mean[isolated], color=colour, linestyle="", marker="o", zorder=3)


def _marker(x: Array) -> str:
    """Returns a marker for a line of one point, which would be invisible, and none for others."""
    return "o" if len(x) == 1 else ""


def column(rows: Sequence[Mapping[str, float]], name: str) -> Array:
    """Returns one column of rows, NaN where a row lacks it."""
    values = [row.get(name) for row in rows]
    return np.array(
        [np.nan if value in (None, "") else float(value) for value in values], np.float64
    )


def dress(axes: Axes, x_label: str, y_label: str) -> None:
    """Gives a panel labels, a light grid and no frame."""
    axes.set_xlabel(x_label, color=INK, fontsize=11)
    axes.set_ylabel(y_label, color=INK, fontsize=11)
    axes.margins(x=0.015)
    axes.grid(color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=10, length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#BBBBBB")


LEGEND_STYLE: dict[str, Any] = {
    "frameon": False,
    "fontsize": 10,
    "labelcolor": INK,
    "handlelength": 1.6,
    "columnspacing": 1.4,
    "borderaxespad": 0,
}
"""Arguments of every legend above panels."""


def head(
    figure: Figure, title: str, handles: Sequence, height: float, columns: int = _LEGEND_COLUMNS
) -> None:
    """Puts title and legend, of at most so many columns, above the panels, where they cover no
    data.
    """
    left = figure.axes[0].get_position().x0
    figure.text(left, height, title, fontsize=14, fontweight="bold", color=INK, va="bottom")
    columns = math.ceil(len(handles) / max(1, legend_rows(handles, columns)))
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(left - 0.008, height),
        ncol=max(1, columns),
        borderpad=0.4,
        **LEGEND_STYLE,
    )


def legend_rows(entries: Sized, columns: int = _LEGEND_COLUMNS) -> int:
    """Returns how many rows a legend takes."""
    return math.ceil(len(entries) / columns)


def write_png(figure: Figure, path: files.PathLike) -> None:
    """Writes a figure to a PNG file."""
    canvas = FigureCanvasAgg(figure)
    files.write_atomically(Path(path), canvas.print_png)


def write_svg(figure: Figure, path: files.PathLike) -> None:
    """Writes a figure to an SVG file; the same figure gives the same file."""
    canvas = FigureCanvasSVG(figure)

    def write(stream: BinaryIO) -> None:
        with rc_context({"svg.hashsalt": "epg_tf", "svg.fonttype": "none"}):
            canvas.print_svg(stream, metadata={"Date": None})

    files.write_atomically(Path(path), write)
