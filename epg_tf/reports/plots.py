"""Draws what all pictures share, from colours to files, and the progress of evolution.

Figures are drawn off screen and without pyplot, so they can be drawn anywhere, from any thread.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

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
_TITLE, _ROW = 0.40, 0.25  # inches: height of a title, of a row of a legend or note


def evolution_figure(rows: Sequence[Mapping[str, float]]) -> Figure:
    """Draws meta-training: fitness and validation return, and on a thin second axis alpha where it
    is not always 0, against epochs.

    Args:
      rows: One per epoch, as `MetricsFile.read` returns them. Columns `epoch`, `fitness_mean`,
        `fitness_q25`, `fitness_q75`, `validation_return_mean`, `alpha`; a column that is absent or
        NaN is not drawn.
    """
    figure = Figure(figsize=(9, 5.4), dpi=100, facecolor="white")
    axes = figure.subplots()
    epochs, mean, low, high, validation, alpha = (
        column(rows, name)
        for name in ("epoch", "fitness_mean", "fitness_q25", "fitness_q75",
                     "validation_return_mean", "alpha")
    )  # fmt: skip
    band = axes.fill_between(epochs, low, high, color=COLOURS[0], alpha=0.18, linewidth=0)
    band.set_label("middle half of lives")
    marker = "o" if len(epochs) == 1 else ""  # a line of one point would be invisible
    handles: list[Artist] = [*axes.plot(epochs, mean, color=COLOURS[0], linewidth=2, marker=marker)]
    handles[0].set_label("mean fitness")
    handles.append(band)
    if (known := np.isfinite(validation)).any():
        dots = axes.plot(epochs[known], validation[known], "o", color=COLOURS[1], markersize=6.5)
        dots[0].set(markeredgecolor="white", label="validation return (mean)", zorder=4)
        handles += dots
    dress(axes, "epoch", "return")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if (alpha > 0.0).any():  # False for NaN
        handles += _draw_alpha(axes, epochs, alpha)
    head(figure, "Meta-training", handles)
    return figure


def _draw_alpha(axes: Axes, epochs: Array, alpha: Array) -> list[Line2D]:
    """Draws alpha on a second axis, below the curves; returns what the legend names."""
    right = axes.twinx()
    lines = right.plot(epochs, alpha, color=FAINT, linewidth=1, linestyle=(0, (5, 2)))
    lines[0].set_label("alpha (right)")
    right.set_ylim(-0.03, 1.03)
    right.set_ylabel("alpha: share of the surrogate loss", color=FAINT, fontsize=9.5, labelpad=7)
    right.tick_params(colors=FAINT, labelsize=9, length=0)
    right.spines[:].set_visible(False)
    axes.set_zorder(right.get_zorder() + 1)
    axes.patch.set_visible(False)
    return lines


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


def head(figure: Figure, title: str, handles: Sequence[Artist] = (), note: str = "") -> None:
    """Lays out panels that are drawn, and puts title, legend and note above them."""
    for handle in handles:
        handle.set_label(as_it_is(str(handle.get_label())))
    longest = max((len(str(handle.get_label())) for handle in handles), default=0)
    columns = min(_LEGEND_COLUMNS, max(1, int(8.2 / (0.5 + 0.078 * longest))))  # inches
    rows = math.ceil(len(handles) / columns)
    height, room = figure.get_figheight(), _TITLE + _ROW * (rows + bool(note))
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 1.0 - room / height))
    left = figure.axes[0].get_position().x0
    top = 1.0 - 0.08 / height
    figure.text(left, top, as_it_is(title), fontsize=13, fontweight="bold", color=INK, va="top")
    if handles:
        figure.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(left - 0.008, 1.0 - (_TITLE - 0.04) / height),
            ncol=math.ceil(len(handles) / rows),
            borderpad=0.2,
            frameon=False,
            fontsize=10,
            labelcolor=INK,
            handlelength=1.6,
            columnspacing=1.4,
            borderaxespad=0,
        )
    place = 1.0 - (room - 0.06) / height
    figure.text(left, place, note, fontsize=9, color=FAINT, va="bottom")


def as_it_is(text: str) -> str:
    """Returns a text that is drawn as it is, not as the formula that it might be."""
    return text.replace("$", r"\$")


def write_png(figure: Figure, path: files.PathLike) -> None:
    """Writes a figure to a PNG file."""
    canvas = FigureCanvasAgg(figure)
    files.write_atomically(Path(path), canvas.print_png)


def svg(figure: Figure) -> bytes:
    """Returns a figure as SVG, its letters as text; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "epg_tf", "svg.fonttype": "none"}):
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
    return buffer.getvalue()


def write_svg(figure: Figure, path: files.PathLike) -> None:
    """Writes a figure to an SVG file."""
    files.write_atomically(Path(path), lambda stream: stream.write(svg(figure)))
