"""Draws tables of texts, and means with their 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from epg_tf.reports.plots import COLOURS, FAINT, INK, as_it_is, dress, head

_LINE = 0.32  # inches
_LETTER = 0.092  # inches


def table_picture(header: Sequence[str], lines: Sequence[Sequence[str]], title: str) -> Figure:
    """Draws a table of texts; the first column to the left, others to the right."""
    cells = [list(map(str, line)) for line in (header, *lines)]
    # A bold letter is as wide as 1.2 usual ones.
    widths = [
        2 + max(1.2 * len(column[0]), *map(len, column)) for column in zip(*cells, strict=True)
    ]
    size = (max(5.0, _LETTER * sum(widths) + 0.4), 0.7 + _LINE * len(cells))
    figure = Figure(figsize=size, dpi=100, facecolor="white")
    axes = figure.subplots()
    axes.set_axis_off()
    table = axes.table(
        cells,
        colWidths=[width / sum(widths) for width in widths],
        bbox=Bbox.unit(),
        edges="horizontal",
    )
    table.auto_set_font_size(False)
    for (row, column), cell in table.get_celld().items():
        cell.set(edgecolor="#BBBBBB" if row == 0 else "white", linewidth=0.9 * (row == 0))
        cell.PAD = 0.0
        cell.set_text_props(
            ha="right" if column else "left",
            fontsize=10.5,
            color=INK if row else "#555555",
            fontweight="normal" if row else "bold",
        )
    head(figure, title)
    return figure


def interval_picture(
    rows: Mapping[str, tuple[float, float, float]],
    title: str,
    colours: Mapping[str, int] | None = None,
) -> Figure:
    """Draws means of returns and their 95 % intervals, one row each, and a line at the first mean.

    Args:
      rows: Name -> mean, low and high end, from top to bottom; at least one; NaN is not drawn.
      colours: Name -> which of `plots.COLOURS`; the first one for others.
    """
    width = 9.0 + _LETTER * max(0, max(map(len, rows)) - 40)  # for long names
    figure = Figure(figsize=(width, 1.4 + 0.42 * len(rows)), dpi=100, facecolor="white")
    axes = figure.subplots()
    places = np.arange(len(rows))[::-1]
    for place, (name, (mean, *ends)) in zip(places, rows.items(), strict=True):
        colour = COLOURS[(colours or {}).get(name, 0) % len(COLOURS)]
        axes.plot(ends, [place, place], color=colour, linewidth=2.4, zorder=2)
        axes.plot(mean, place, "o", color=colour, markersize=7, zorder=3)
    first = next(iter(rows.values()))[0]
    if np.isfinite(first):
        axes.axvline(first, color=FAINT, linewidth=1, linestyle=(0, (5, 2)), zorder=1)
    axes.set_yticks(places, list(map(as_it_is, rows)))
    dress(axes, "return of the final policy: mean and 95 % interval", "")
    head(figure, title)
    return figure
