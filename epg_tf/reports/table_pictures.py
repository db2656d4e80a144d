"""Draws tables and bars of a figure that has no curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from epg_tf.reports.plots import COLOURS, FAINT, INK, dress

_LINE = 0.32  # inches
_BOLD = 1.2  # width of a bold letter, in usual ones


def table_picture(header: Sequence[str], lines: Sequence[Sequence[str]], title: str) -> Figure:
    """Draws a table of texts; the first column to the left, others to the right.

    Args:
      header: Names of columns.
      lines: Cells of each line.
      title: Line above it.
    """
    widths = [
        2 + max([_BOLD * len(str(name)), *(len(str(line[place])) for line in lines)])
        for place, name in enumerate(header)
    ]
    height = 0.7 + _LINE * (len(lines) + 1)
    figure = Figure(figsize=(max(5.0, 0.092 * sum(widths) + 0.4), height), dpi=100)
    figure.set_facecolor("white")
    edges = np.cumsum([0, *widths]) / sum(widths)
    left, right = 0.02, 0.98
    top = 1.0 - 0.55 / height
    figure.text(left, 1 - 0.1 / height, title, fontsize=13, fontweight="bold", color=INK, va="top")
    for number, line in enumerate((header, *lines)):
        y = top - (number + 0.5) * _LINE / height
        for place, cell in enumerate(line):
            x = edges[place] if place == 0 else edges[place + 1]
            figure.text(
                left + (right - left) * x,
                y,
                str(cell),
                fontsize=10.5,
                color=INK if number else "#555555",
                fontweight="normal" if number else "bold",
                ha="left" if place == 0 else "right",
                va="center",
            )
    axes = figure.add_axes((left, 0.0, right - left, 1.0))
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    for line_height in (top, top - _LINE / height):
        axes.axhline(line_height, color="#BBBBBB", linewidth=0.9)
    return figure


def bars(
    values: Mapping[str, float], title: str, x_label: str, faint: Sequence[str] = ()
) -> Figure:
    """Draws numbers of very different size as horizontal bars over a logarithmic axis.

    Args:
      values: Name of a bar -> number above 0, from top to bottom.
      title: Line above them.
      x_label: Of the axis.
      faint: Names of bars of another kind.
    """
    figure = Figure(figsize=(9, 1.3 + 0.3 * len(values)), dpi=100, facecolor="white")
    axes = figure.subplots()
    colours = [FAINT if name in faint else COLOURS[0] for name in values]
    axes.barh(list(values), list(values.values()), color=colours, height=0.62)
    axes.set_xscale("log")
    axes.set_xlim(min(values.values()) / 3, max(values.values()) * 6)
    axes.invert_yaxis()
    dress(axes, x_label, "")
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    write = EngFormatter(places=1, sep=" ")
    for place, number in enumerate(values.values()):
        axes.text(
            number * 1.15, place, write(number), va="center", fontsize=9.5, color=INK, bbox=box
        )
    axes.set_title(title, fontsize=13, fontweight="bold", color=INK, loc="left", pad=10)
    figure.tight_layout()
    return figure
