"""Writes what a test of robustness leaves in its folder: numbers and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epg_tf.baselines.method import LABELS
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.evaluation.robustness import LOSS
from epg_tf.evaluation.robustness import OWN as UNCHANGED
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


def read_changes(folder: files.PathLike) -> dict[str, Any]:
    """Returns what an earlier test left in `folder`, as of `summarize_robustness`; {} if nothing.

    Raises:
      RecordError: `robustness.json` cannot be read or has no changes.
    """
    path = Path(folder) / SUMMARY_FILE
    if not path.exists():
        return {}
    found = files.read_json(path, "results of a test of robustness").get("changes")
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise RecordError(f"{path}: it has no changes; choose another folder")
    return found


def join_changes(
    folder: files.PathLike,
    known: Mapping[str, Any],
    measured: Mapping[str, Any],
    names: Sequence[str],
) -> dict[str, Any]:
    """Returns what an earlier test found with what was measured now, in the order of `names`.

    Args:
      folder: Of the earlier test.
      known: From `read_changes`; may be empty.
      measured: From `summarize_robustness`; is kept where both have a change.
      names: Of all changes.

    Raises:
      RecordError: Lives without a change have other returns in the two.
    """
    if known and files.plain(measured[UNCHANGED]) != known.get(UNCHANGED):
        raise RecordError(
            f"{Path(folder)}: {SUMMARY_FILE} there has other returns in lives without a change, so "
            "it is of another loss, other lives or another machine; choose another folder, or pass "
            "overwrite=True instead of resume=True"
        )
    both = {**known, **measured}
    return {name: both[name] for name in names if name in both}


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
