"""Makes the page of a run, a test or a study, or of several of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.evaluation.results import RESULTS_FILE
from epg_tf.reports import charts, html_page, run_charts
from epg_tf.reports.charts import View
from epg_tf.reports.html_page import Block, Chart, Section, Table, Text
from epg_tf.reports.tables import label
from epg_tf.runs import page_tables
from epg_tf.runs.folder import CONFIG
from epg_tf.runs.page_entry import Entry
from epg_tf.runs.results_entry import results_entry
from epg_tf.runs.run_entry import run_entry
from epg_tf.runs.study import STUDY
from epg_tf.runs.study_entry import study_entry

_COLUMNS = {  # of runs side by side: name of the view -> column
    "validation return": "validation_return_mean",
    "mean fitness": "fitness_mean",
    "alpha": "alpha",
    "seconds per epoch": "seconds",
}
_RETURNS = "training_return/"  # start of MetaGenRL's columns of returns


def make_page(folders: Sequence[files.PathLike], film: bool = True) -> str:
    """Returns the page of some folders, as HTML; changes nothing in them.

    Args:
      folders: One or more, each of a run, a test or a study.
      film: Whether to draw film strips, each of which takes a life.

    Raises:
      RecordError: A folder is none of these, or is damaged; one line that begins with the folder.
    """
    entries = [read_entry(folder, film) for folder in folders]
    if len(entries) == 1:
        (entry,) = entries
        return html_page.page(f"{entry.path.name}: {entry.what}", entry.sections)
    names = _names(entries)
    sections = [Section("Side by side", _side_by_side(dict(zip(names, entries, strict=True))))]
    for name, entry in zip(names, entries, strict=True):
        sections += [
            Section(f"{name}: {section.title}", section.blocks) for section in entry.sections
        ]
    return html_page.page(f"Side by side: {', '.join(names)}", sections)


def read_entry(folder: files.PathLike, film: bool = False) -> Entry:
    """Returns what a page shows of one folder; arguments and errors as of `make_page`."""
    path = Path(folder)
    if (path / STUDY).is_file():
        return study_entry(path)
    if (path / CONFIG).is_file():
        return run_entry(path, film)
    if (path / RESULTS_FILE).is_file():
        return results_entry(path, film)
    raise RecordError(
        f"{path}: this is no run, test or study (it has no {CONFIG}, {RESULTS_FILE} or {STUDY}); "
        "name the folder of one"
    )


def _names(entries: Sequence[Entry]) -> list[str]:
    """Returns short names: those of the folders, or their paths where names are the same."""
    short = [entry.path.name for entry in entries]
    return short if len(set(short)) == len(short) else [str(entry.path) for entry in entries]


def _side_by_side(entries: dict[str, Entry]) -> list[Block]:
    table = [(name, entry.what, str(entry.path)) for name, entry in entries.items()]
    blocks: list[Block] = [Table(("", "what", "folder"), table)]
    rows = {name: entry.rows for name, entry in entries.items() if entry.rows}
    if len(rows) > 1:
        names = dict.fromkeys(key for one in rows.values() for key in one[0])
        columns = _COLUMNS | {name: name for name in names if name.startswith(_RETURNS)}
        if any(name in names for name in columns.values()):
            blocks.append(Chart("Meta-training", run_charts.side_by_side(rows, columns)))
    if (compared := _tests(entries)) is not None:
        blocks.append(compared)
    settings = {name: entry.settings for name, entry in entries.items() if entry.settings}
    if len(settings) > 1 and (found := page_tables.flat_differences(settings)) is not None:
        blocks += [Text("Settings that differ:"), found]
    return blocks


def _tests(entries: dict[str, Entry]) -> Block | None:
    """Returns final returns of the methods of all tests; None where there are not two tests."""
    tests = {name: entry.summaries for name, entry in entries.items() if entry.summaries}
    if len(tests) < 2:
        return None
    ends = {
        f"{name}: {label(method)}": (row.final_return_mean, *row.ci95)
        for name, summaries in tests.items()
        for method, row in summaries.items()
    }
    title = "mean and 95 % interval"
    view = View("return", title, "", charts.intervals(ends), categories=True)
    return Chart("Final returns of all tests", charts.chart([view]))
