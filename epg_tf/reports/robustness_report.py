"""Writes what a test of robustness leaves in its folder, numbers and a picture, and reads the
numbers for a test that goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.baselines.method import LABELS
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.reports.plots import write_png
from epg_tf.reports.resumed_tests import difference, refusal, refuse_foreign
from epg_tf.reports.table_pictures import interval_picture
from epg_tf.reports.tables import intervals_table
from epg_tf.studies.robustness import LOSS, Change
from epg_tf.studies.robustness import OWN as UNCHANGED

SUMMARY_FILE, PICTURE_FILE = "robustness.json", "robustness.png"
OWN = (SUMMARY_FILE, PICTURE_FILE)
_SAME = ("task", "seed", "phase", "updates")  # of what a test states


def rows_of(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns label -> the row of every method under every change, in the order of the test; NaN
    where all agents failed.
    """
    found = {}
    for change in summary.values():
        found[change["label"]] = _row(change[LOSS])
        for name, row in change.items():
            if name in LABELS:
                found[f"{change['label']}: {LABELS[name]}"] = _row(row)
    return found


def _row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the numbers of a row, which may come from JSON, where None is NaN."""
    mean, low, high = (np.nan if x is None else float(x) for x in (row["mean"], *row["ci95"]))
    counts = {name: int(row[name]) for name in ("lives", "failed_lives")}
    return {"mean": mean, "ci95": (low, high), **counts}


def table(summary: Mapping[str, Any]) -> str:
    """Returns a line for each row: mean, 95 % interval, lives, failures."""
    return intervals_table(rows_of(summary))


def read_known(
    folder: files.PathLike, changes: Sequence[Change], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns what an earlier test left in `folder`, as of `summarize_robustness`, for a test that
    goes on with it; {} where it left nothing.

    Raises:
      RecordError: The folder has files but no `robustness.json`, or this is damaged, or of a test
        of other tasks, lives or changes.
    """
    path = Path(folder) / SUMMARY_FILE
    files.remove_unfinished(folder, OWN)
    if not path.exists():
        refuse_foreign(folder, OWN, SUMMARY_FILE)
        return {}
    facts = {change.name: files.plain(change.facts()) for change in changes}
    try:
        earlier = files.read_json(path, "results of a test of robustness")
        known: dict[str, Any] = earlier["changes"]
        rows_of(known)  # has all numbers
        its = {name: earlier["about"].get(name) for name in _SAME}
        tested = {
            name: {fact: row.get(fact) for fact in facts.get(name, {})}
            for name, row in known.items()
        }
    except RecordError as error:
        raise _no_use(folder, str(error)) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _no_use(folder, f"it is damaged ({files.one_line(error)})") from error
    mine = {name: files.plain(about[name]) for name in _SAME}
    mine["changes"] = {name: facts[name] for name in known if name in facts}
    if (there := {**its, "changes": tested}) != mine:
        raise _no_use(folder, f"it is of {difference('', there, mine)}")
    if known and UNCHANGED not in known:
        raise _no_use(folder, "it has no lives without a change")
    return known


def _no_use(folder: files.PathLike, why: str) -> RecordError:
    return refusal(folder, SUMMARY_FILE, why)


def join_changes(
    folder: files.PathLike,
    known: Mapping[str, Any],
    measured: Mapping[str, Any],
    changes: Sequence[Change],
) -> dict[str, Any]:
    """Returns what an earlier test found with what was measured now, in the order of `changes`.

    Args:
      measured: From `summarize_robustness`; is kept where both have a change.

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
