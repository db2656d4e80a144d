"""Keeps what a test of fresh agents has found so far, so that a stopped test can go on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.evaluation.results import FINAL, RESULTS_FILE, MethodKey, Results, read_results
from epg_tf.reports.evaluation_report import SUMMARY_FILE

TABLE_FILE, ABOUT_FILE = "unfinished.csv", "unfinished.json"
UNFINISHED = (TABLE_FILE, ABOUT_FILE)
_MADE_WITH = ("made_with", "continued_with")


def refusal(folder: files.PathLike, file: str, why: str) -> RecordError:
    """Returns the error of a test that cannot go on with a file of an earlier one."""
    return RecordError(
        f"{Path(folder)}: a test cannot go on with {file} there: {why}; choose another folder, or "
        "pass overwrite=True instead of resume=True"
    )


def write_unfinished(folder: files.PathLike, results: Results, about: Mapping[str, Any]) -> None:
    """Writes what is found so far, and what is tested.

    Args:
      folder: Exists.
      results: Of the methods that are done.
      about: What is tested and how; the same in all calls for a test.

    Raises:
      OSError: A file cannot be written.
    """
    files.write_json(Path(folder) / ABOUT_FILE, {"about": about})
    results.write(Path(folder) / TABLE_FILE)


def remove_unfinished(folder: files.PathLike) -> None:
    """Removes what `write_unfinished` wrote; the test has ended."""
    for name in UNFINISHED:
        (Path(folder) / name).unlink(missing_ok=True)


def read_found(
    folder: files.PathLike, about: Mapping[str, Any], agents: int
) -> tuple[dict[MethodKey, Results], dict[str, Any]]:
    """Reads what an earlier test found, stopped or at its end, for a test that goes on with it.

    Args:
      folder: Exists.
      about: What the test that goes on tests and how.
      agents: Its number of agents per method.

    Returns:
      The rows of each method and loss that are there, and what the earlier test was made with;
      nothing where the folder is empty.

    Raises:
      RecordError: The folder has files but none of a test, or these are damaged, or of a test of
        something else.
    """
    folder = Path(folder)
    stopped = (folder / ABOUT_FILE).exists()
    about_file = ABOUT_FILE if stopped else SUMMARY_FILE
    table_file = TABLE_FILE if stopped else RESULTS_FILE
    if not (folder / about_file).exists():
        if any(folder.iterdir()):
            raise RecordError(
                f"{folder}: there is no {SUMMARY_FILE} or {ABOUT_FILE} to go on with, and the "
                "folder is not empty; choose another folder"
            )
        return {}, {}
    try:
        its = files.read_json(folder / about_file, "what a test tested").get("about")
        found = read_results(folder / table_file)
    except RecordError as error:
        raise refusal(folder, about_file, str(error)) from error
    if not isinstance(its, dict):
        raise refusal(folder, about_file, "it does not state what was tested")
    made = {name: its[name] for name in _MADE_WITH if name in its}
    other = {name: value for name, value in its.items() if name not in _MADE_WITH}
    if (mine := files.plain(about)) != other:
        name, there, here = _difference("", other, mine)
        raise refusal(folder, about_file, f"it is of {name}={there!r}, and this test of {here!r}")
    tables = found.by_method()
    for (method, _), table in tables.items():
        numbers = np.sort(table.select(episodes=FINAL).agent)
        if not np.array_equal(numbers, np.arange(agents)):
            why = f"{method} has {len(numbers)} agents there, and this test has {agents}"
            raise refusal(folder, table_file, why)
    return tables, made


def _difference(name: str, there: Any, here: Any) -> tuple[str, Any, Any]:
    """Returns the name of the first value that differs in two of JSON, and both values."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in {**there, **here}:
            if there.get(key) != here.get(key):
                return _difference(f"{name}.{key}" if name else key, there.get(key), here.get(key))
    return name, there, here
