"""Shows means of returns with their 95 % intervals, one row each: as text and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from epg_tf.reports.plots import COLOURS, FAINT, INK, dress, write_png

Rows = Mapping[str, Mapping[str, Any]]
"""Label -> a row of `statistics.interval_row`."""


def rows_table(rows: Rows) -> str:
    """Returns a line for each row: mean, 95 % interval, lives, failures."""
    width = max(map(len, rows)) + 2
    lines = [f"{'':{width}}{'mean':>9}  {'95 % interval':>20}  {'lives':>5}  {'failed':>6}"]
    for name, row in rows.items():
        low, high = row["ci95"]
        lines.append(
            f"{name:{width}}{row['mean']:9.2f}  {f'[{low:.2f}, {high:.2f}]':>20}  "
            f"{row['lives']:5d}  {row['failed_lives']:6d}"
        )
    return "\n".join(lines)


def draw_rows(rows: Rows, colours: Mapping[str, int], path: Path, title: str) -> None:
    """Draws means and 95 % intervals, one row each, and a line at the mean of the first.

    Args:
      rows: At least one.
      colours: Label -> which of `plots.COLOURS`; the first one for labels that are not there.
      path: PNG file to write.
      title: Line above the picture.

    Raises:
      OSError: The file cannot be written.
    """
    figure = Figure(figsize=(9, 1.4 + 0.42 * len(rows)), dpi=100, facecolor="white")
    axes = figure.subplots()
    places = np.arange(len(rows))[::-1]
    for place, (label, row) in zip(places, rows.items(), strict=True):
        colour = COLOURS[colours.get(label, 0)]
        axes.plot(row["ci95"], [place, place], color=colour, linewidth=2.4, zorder=2)
        axes.plot(row["mean"], place, "o", color=colour, markersize=7, zorder=3)
    first = next(iter(rows.values()))["mean"]
    if np.isfinite(first):
        axes.axvline(first, color=FAINT, linewidth=1, linestyle=(0, (5, 2)), zorder=1)
    axes.set_yticks(places, list(rows))
    dress(axes, "return of the final policy: mean and 95 % interval", "")
    axes.set_title(title, fontsize=13, fontweight="bold", color=INK, loc="left", pad=12)
    figure.tight_layout()
    write_png(figure, path)
