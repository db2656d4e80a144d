"""Writes what a test of adaptation leaves in its folder: numbers and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from epg_tf.baselines.method import LABELS
from epg_tf.core import files
from epg_tf.reports.plots import COLOURS, FAINT, INK, dress, write_png

SUMMARY_FILE, PICTURE_FILE = "adaptation.json", "adaptation.png"
OWN = (SUMMARY_FILE, PICTURE_FILE)

_LABELS = {
    "own": "in its own task",
    "transfer": "in another agent's task",
    "yoked": "taught from another's experience",
    "before": "before the task switches",
    "after": "just after",
    "end": "at the end of the life",
}


def rows_of(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns label -> what is known of each measure, in the order of pictures and tables."""
    found = {_LABELS[name]: summary[name] for name in ("own", "transfer", "yoked")}
    switch = summary["switch"]
    for name, row in (("before", switch["before"]), ("after", switch["after"]), ("end", switch)):
        found[f"switch: {_LABELS[name]}"] = row
    fixed = summary.get("zero_shot", {})
    return found | {LABELS[name]: row for name, row in fixed.items()}


def table(summary: Mapping[str, Any]) -> str:
    """Returns a line for each measure: mean, 95 % interval, lives, failures."""
    rows = rows_of(summary)
    width = max(map(len, rows)) + 2
    lines = [f"{'':{width}}{'mean':>9}  {'95 % interval':>20}  {'lives':>5}  {'failed':>6}"]
    for name, row in rows.items():
        low, high = row["ci95"]
        lines.append(
            f"{name:{width}}{row['mean']:9.2f}  {f'[{low:.2f}, {high:.2f}]':>20}  "
            f"{row['lives']:5d}  {row['failed_lives']:6d}"
        )
    counted = summary["pairs"]
    return "\n".join(
        [*lines, f"pairs of different tasks: {counted['differing_tasks']} of {counted['all']}"]
    )


def write_adaptation(
    folder: files.PathLike, summary: Mapping[str, Any], about: Mapping[str, Any], title: str
) -> Path:
    """Writes `adaptation.json` and `adaptation.png`; returns the picture.

    Args:
      folder: Exists.
      summary: From `summarize_adaptation`.
      about: What was tested and how.
      title: Line above the picture.

    Raises:
      OSError: A file cannot be written.
    """
    folder = Path(folder)
    _draw(rows_of(summary), folder / PICTURE_FILE, title)
    files.write_json(folder / SUMMARY_FILE, {**summary, "about": about})
    return folder / PICTURE_FILE


def _draw(rows: Mapping[str, Mapping[str, Any]], path: Path, title: str) -> None:
    """Draws means and 95 % intervals, one row each, and a line at the return in the own task."""
    figure = Figure(figsize=(9, 1.4 + 0.42 * len(rows)), dpi=100, facecolor="white")
    axes = figure.subplots()
    places = np.arange(len(rows))[::-1]
    for place, (label, row) in zip(places, rows.items(), strict=True):
        group = 1 if label.startswith("switch") else 2 if label in LABELS.values() else 0
        colour = COLOURS[group]
        axes.plot(row["ci95"], [place, place], color=colour, linewidth=2.4, zorder=2)
        axes.plot(row["mean"], place, "o", color=colour, markersize=7, zorder=3)
    own = next(iter(rows.values()))["mean"]
    if np.isfinite(own):
        axes.axvline(own, color=FAINT, linewidth=1, linestyle=(0, (5, 2)), zorder=1)
    axes.set_yticks(places, list(rows))
    dress(axes, "return of the final policy: mean and 95 % interval", "")
    axes.set_title(title, fontsize=13, fontweight="bold", color=INK, loc="left", pad=12)
    figure.tight_layout()
    write_png(figure, path)
