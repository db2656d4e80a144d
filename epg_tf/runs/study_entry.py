"""Makes the entry of a page on a test of adaptation or of robustness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from epg_tf.baselines.method import LABELS
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.reports import adaptation_report, robustness_report, tables
from epg_tf.reports.html_page import Code, Picture, Section, Table, Text
from epg_tf.reports.plots import svg
from epg_tf.reports.table_pictures import interval_picture
from epg_tf.runs.page_entry import Entry

Rows = Mapping[str, Mapping[str, Any]]
_KINDS: dict[str, tuple[str, Callable[[Mapping[str, Any]], Rows]]] = {
    adaptation_report.SUMMARY_FILE: ("test of adaptation", adaptation_report.rows_of),
    robustness_report.SUMMARY_FILE: (
        "test of robustness",
        lambda summary: robustness_report.rows_of(summary["changes"]),
    ),
}
FILES = tuple(_KINDS)
"""One of these is in the folder of such a test."""
_HEADER = ("", "mean", "95 % interval", "agents", "failed")


def study_entry(path: Path) -> Entry:
    """Returns the entry of a test of adaptation or of robustness.

    Args:
      path: Folder of the test, with one of `FILES`.

    Raises:
      RecordError: The folder is damaged.
    """
    file = next(name for name in FILES if (path / name).is_file())
    what, rows_of = _KINDS[file]
    summary = files.read_json(path / file, f"the {what}")
    try:
        return Entry(path, what, _sections(what, rows_of(summary), summary["about"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RecordError(
            f"{path}: {file} is damaged, or of another version of epg_tf "
            f"({files.one_line(error)[:200]}); restore it or run the test again"
        ) from error


def _sections(what: str, rows: Rows, about: Mapping[str, Any]) -> list[Section]:
    cells = tables.interval_cells(rows)
    known = [cell for cell in cells if cell[1] != "-"]
    learned = [cell for cell in known if not cell[0].endswith(tuple(LABELS.values()))]
    first, last = learned[0], min(learned, key=lambda cell: float(cell[1]))
    outcome = (
        f"Agents end with a mean return of {first[1]} {first[2]} ({first[0]}); the lowest is "
        f"{last[1]} {last[2]} ({last[0]})."
    )
    ends = {name: (rows[name]["mean"], *rows[name]["ci95"]) for name, *_ in known}
    picture = Picture(svg(interval_picture(ends, "Final returns")), "Means and 95 % intervals")
    facts = [
        (name.replace("_", " "), str(value))
        for name, value in about.items()
        if isinstance(value, str | int | float) and name != "command"
    ]
    sections = [
        Section("Result", [Text(outcome), picture, Table(_HEADER, cells, numbers=True)]),
        Section(f"The {what}", [Table((), facts)]),
    ]
    if isinstance(about.get("command"), str):
        sections.append(Section("The command", [Code(about["command"])]))
    return sections
