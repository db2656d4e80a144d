"""Writes what a test of adaptation leaves in its folder: numbers and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epg_tf.baselines.method import LABELS
from epg_tf.core import files
from epg_tf.reports.plots import write_png
from epg_tf.reports.table_pictures import interval_picture
from epg_tf.reports.tables import intervals_table

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
    counted = summary["pairs"]
    pairs = f"pairs of different tasks: {counted['differing_tasks']} of {counted['all']}"
    return f"{intervals_table(rows_of(summary))}\n{pairs}"


def write_adaptation(
    folder: files.PathLike, summary: Mapping[str, Any], about: Mapping[str, Any], title: str
) -> Path:
    """Writes `adaptation.json` and `adaptation.png`; returns the picture.

    Raises:
      OSError: A file cannot be written.
    """
    folder = Path(folder)
    rows = rows_of(summary)
    colours = {
        label: 1 if label.startswith("switch") else 2 if label in LABELS.values() else 0
        for label in rows
    }
    ends = {label: (row["mean"], *row["ci95"]) for label, row in rows.items()}
    write_png(interval_picture(ends, title, colours), folder / PICTURE_FILE)
    files.write_json(folder / SUMMARY_FILE, {**summary, "about": about})
    return folder / PICTURE_FILE
