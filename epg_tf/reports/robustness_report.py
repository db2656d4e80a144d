"""Writes what a test of robustness leaves in its folder: numbers and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epg_tf.baselines.method import LABELS
from epg_tf.core import files
from epg_tf.evaluation.robustness import LOSS
from epg_tf.reports.interval_rows import draw_rows, rows_table

SUMMARY_FILE, PICTURE_FILE = "robustness.json", "robustness.png"
OWN = (SUMMARY_FILE, PICTURE_FILE)


def rows_of(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns label -> the row of every method under every change, in the order of the test."""
    found = {}
    for change in summary.values():
        found[change["label"]] = change[LOSS]
        for name, row in change.items():
            if name in LABELS:
                found[f"{change['label']}: {LABELS[name]}"] = row
    return found


def table(summary: Mapping[str, Any]) -> str:
    """Returns a line for each row: mean, 95 % interval, lives, failures."""
    return rows_table(rows_of(summary))


def write_robustness(
    folder: files.PathLike, summary: Mapping[str, Any], about: Mapping[str, Any], title: str
) -> Path:
    """Writes `robustness.json` and `robustness.png`; returns the picture.

    Args:
      folder: Exists.
      summary: From `summarize_robustness`.
      about: What was tested and how.
      title: Line above the picture.

    Raises:
      OSError: A file cannot be written.
    """
    folder, rows = Path(folder), rows_of(summary)
    of_loss = {change["label"] for change in summary.values()}
    colours = {label: 0 if label in of_loss else 2 for label in rows}
    draw_rows(rows, colours, folder / PICTURE_FILE, title)
    files.write_json(folder / SUMMARY_FILE, {"changes": summary, "about": about})
    return folder / PICTURE_FILE
