"""Makes the page of a run or a test, or of several of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.evaluation.results import RESULTS_FILE
from epg_tf.reports import html_page
from epg_tf.reports.html_page import Block, Picture, Section, Table, Text
from epg_tf.reports.objective_plots import column_panels
from epg_tf.reports.plots import column, svg
from epg_tf.reports.table_pictures import interval_picture
from epg_tf.reports.tables import label
from epg_tf.runs import page_tables, study_entry
from epg_tf.runs.folder import CONFIG
from epg_tf.runs.page_entry import Entry
from epg_tf.runs.results_entry import results_entry
from epg_tf.runs.run_entry import run_entry

_COLUMNS = {
    "validation_return_mean": "validation return (mean)",
    "fitness_mean": "mean fitness",
    "alpha": "alpha: share of the surrogate loss",
    "seconds": "seconds",
}
_RETURNS = "training_return/"  # start of MetaGenRL's columns of returns


def make_page(folders: Sequence[files.PathLike], film: bool = True) -> str:
    """Returns the page of some folders, as HTML; changes nothing in them.

    Args:
      folders: One or more, each of a run or a test.
      film: Whether to draw film strips, each of which takes a life.

    Raises:
      RecordError: A folder is none of these, or is damaged; one line that begins with the folder.
    """
    entries = [read_entry(folder, film) for folder in folders]
    if len(entries) == 1:
        (entry,) = entries
        return html_page.page(f"{entry.path.name}: {entry.what}", entry.sections)
    short = [entry.path.name for entry in entries]
    names = short if len(set(short)) == len(short) else [str(entry.path) for entry in entries]
    named = dict(zip(names, entries, strict=True))
    sections = [Section("Side by side", _side_by_side(named))]
    for name, entry in named.items():
        sections += [Section(f"{name}: {one.title}", one.blocks) for one in entry.sections]
    return html_page.page(f"Side by side: {', '.join(names)}", sections)


def read_entry(folder: files.PathLike, film: bool = False) -> Entry:
    """Returns what a page shows of one folder; arguments and errors as of `make_page`."""
    path = Path(folder)
    if (path / CONFIG).is_file():
        return run_entry(path, film)
    if (path / RESULTS_FILE).is_file():
        return results_entry(path, film)
    if any((path / name).is_file() for name in study_entry.FILES):
        return study_entry.study_entry(path)
    raise RecordError(
        f"{path}: this is no run or test (it has neither {CONFIG} nor {RESULTS_FILE}); name the "
        "folder of one"
    )


def _side_by_side(entries: dict[str, Entry]) -> list[Block]:
    table = [(name, entry.what, str(entry.path)) for name, entry in entries.items()]
    blocks: list[Block] = [Table(("", "what", "folder"), table)]
    runs = {name: entry.rows for name, entry in entries.items() if entry.rows}
    known = {
        _COLUMNS.get(name, name): name
        for name in dict.fromkeys(key for rows in runs.values() for key in rows[0])
        if (name in _COLUMNS or name.startswith(_RETURNS))
        and any(np.nan_to_num(column(rows, name)).any() for rows in runs.values())  # alpha may be 0
    }
    if len(runs) > 1 and known:
        figure = column_panels(runs, known, "Meta-training")
        blocks.append(Picture(svg(figure), "Meta-training of all runs"))
    ends = {
        f"{name}: {label(method)}": (row.final_return_mean, *row.ci95)
        for name, entry in entries.items()
        for method, row in entry.summaries.items()
    }
    if sum(bool(entry.summaries) for entry in entries.values()) > 1:
        blocks.append(Picture(svg(interval_picture(ends, "Final returns")), "Final returns"))
    settings = {name: entry.settings for name, entry in entries.items() if entry.settings}
    if len(settings) > 1 and (differing := page_tables.flat_differences(settings)) is not None:
        blocks += [Text("Settings that differ:"), differing]
    return blocks
