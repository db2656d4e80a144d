"""Writes what a test of robustness leaves in its folder, numbers and a picture, and reads the
numbers for a test that goes on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.baselines.method import LABELS
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.core.experiment import PolicyConfig
from epg_tf.evaluation.robustness import LOSS, Change
from epg_tf.evaluation.robustness import OWN as UNCHANGED
from epg_tf.reports.plots import write_png
from epg_tf.reports.resumed_tests import refusal
from epg_tf.reports.table_pictures import interval_picture
from epg_tf.reports.tables import intervals_table

SUMMARY_FILE, PICTURE_FILE = "robustness.json", "robustness.png"
OWN = (SUMMARY_FILE, PICTURE_FILE)
_SAME = ("task", "seed", "phase", "updates")  # of what a test states


def rows_of(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns label -> the row of every method under every change, in the order of the test; NaN
    where all agents failed.
    """
    found = {}
    for change in summary.values():
        found[change["label"]] = _with_nan(change[LOSS])
        for name, row in change.items():
            if name in LABELS:
                found[f"{change['label']}: {LABELS[name]}"] = _with_nan(row)
    return found


def _with_nan(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a row whose numbers may come from JSON, which has None for NaN."""
    mean, *ends = (np.nan if x is None else x for x in (row["mean"], *row["ci95"]))
    return {**row, "mean": mean, "ci95": ends}


def table(summary: Mapping[str, Any]) -> str:
    """Returns a line for each row: mean, 95 % interval, lives, failures."""
    return intervals_table(rows_of(summary))


def read_known(
    folder: files.PathLike, changes: Sequence[Change], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns what an earlier test left in `folder`, as of `summarize_robustness`, for a test that
    goes on with it; {} where it left nothing.

    Args:
      folder: Exists.
      changes: Of the test that goes on.
      about: What it tests and how, as for `write_robustness`.

    Raises:
      RecordError: The folder has files but no `robustness.json`, or this is damaged, or of a test
        of other tasks, lives or changes.
    """
    path = Path(folder) / SUMMARY_FILE
    files.remove_unfinished(folder, OWN)
    if not path.exists():
        if {each.name for each in Path(folder).iterdir()} - {*OWN}:
            raise RecordError(
                f"{Path(folder)}: there is no {SUMMARY_FILE} to go on with, and the folder is not "
                "empty; choose another folder"
            )
        return {}
    try:
        earlier = files.read_json(path, "results of a test of robustness")
    except RecordError as error:
        raise _no_use(folder, str(error)) from error
    known, its = earlier.get("changes"), earlier.get("about")
    if not isinstance(known, dict) or not isinstance(its, dict):
        raise _no_use(folder, "it has no changes, or does not state what was tested")
    for name in _SAME:
        if its.get(name) != (mine := files.plain(about[name])):
            raise _no_use(folder, f"it is of {name}={its.get(name)!r}, and this test of {mine!r}")
    facts = {change.name: files.plain(change.facts()) for change in changes}
    for name, row in known.items():
        _check_change(folder, name, row, facts)
    if known and UNCHANGED not in known:
        raise _no_use(folder, "it has no lives without a change")
    return known


def _no_use(folder: files.PathLike, why: str) -> RecordError:
    return refusal(folder, SUMMARY_FILE, why)


def _check_change(folder: files.PathLike, name: str, row: Any, facts: Mapping[str, Any]) -> None:
    """Refuses what is not the result of the change of that name."""
    if name not in facts:
        raise _no_use(folder, f"this test has no change {name!r}")
    if not isinstance(row, dict) or not _is_row(row.get(LOSS)):
        raise _no_use(folder, f"the change {name!r} has no returns of the loss")
    if not all(_is_row(row[method]) for method in LABELS if method in row):
        raise _no_use(folder, f"returns of a fixed policy under the change {name!r} are damaged")
    for fact, mine in facts[name].items():
        its = row.get(fact)
        if fact == "policy" and isinstance(its, dict):  # a test may be older than a setting
            its = {**files.plain(dataclasses.asdict(PolicyConfig())), **its}
        if its != mine:
            raise _no_use(folder, f"the change {name!r} has {fact}={its!r} there, {mine!r} here")


def _is_row(row: Any) -> bool:
    """Returns whether this has the numbers of `statistics.interval_row`; those of returns are None
    where all agents failed.
    """
    if not isinstance(row, dict) or not isinstance(row.get("ci95"), list) or "mean" not in row:
        return False
    if any(type(row.get(name)) is not int for name in ("lives", "failed_lives")):
        return False
    kinds = {type(number) for number in (row["mean"], *row["ci95"])}
    return len(row["ci95"]) == 2 and kinds in ({float}, {type(None)})


def join_changes(
    folder: files.PathLike,
    known: Mapping[str, Any],
    measured: Mapping[str, Any],
    changes: Sequence[Change],
) -> dict[str, Any]:
    """Returns what an earlier test found with what was measured now, in the order of `changes`.

    Args:
      folder: Of the earlier test.
      known: From `read_known`; may be empty.
      measured: From `summarize_robustness`; is kept where both have a change.
      changes: All of them.

    Raises:
      RecordError: Lives without a change have other returns in the two.
    """
    if known and files.plain(measured[UNCHANGED]) != known[UNCHANGED]:
        now, before = (each[UNCHANGED][LOSS] for each in (measured, known))
        raise _no_use(
            folder,
            f"{before['lives']} lives without a change have the mean {before['mean']} there and "
            f"{now['lives']} have {now['mean']} here, or fixed policies differ, so it is of "
            "another loss, other lives, other fixed policies or another machine",
        )
    both = {**known, **measured}
    return {change.name: both[change.name] for change in changes if change.name in both}


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
    files.write_json(folder / SUMMARY_FILE, {"changes": summary, "about": about})
    ends = {label: (row["mean"], *row["ci95"]) for label, row in rows.items()}
    write_png(interval_picture(ends, title, colours), folder / PICTURE_FILE)
    return folder / PICTURE_FILE
