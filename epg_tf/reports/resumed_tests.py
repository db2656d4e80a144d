"""Keeps what a test of fresh agents has found so far, so that a stopped test can go on."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.baselines import kept_shards
from epg_tf.baselines.method import LABELS, Request
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.evaluation.results import (
    FINAL,
    RESULTS_FILE,
    MethodKey,
    Results,
    read_results,
    task_name,
)
from epg_tf.reports.evaluation_report import OWN, SUMMARY_FILE

TABLE_FILE = "unfinished.csv"
ABOUT_FILE = "unfinished.json"
UNFINISHED = (kept_shards.FOLDER, ABOUT_FILE, TABLE_FILE)
"""What a stopped test leaves, in the order in which it is removed."""
GOES_NOT_ON = "a test cannot go on with"
"""Words of the error where what is there is of another test."""
_MADE_WITH = ("command", "made_with", "continued_with")


def refusal(folder: files.PathLike, file: str, why: str) -> RecordError:
    """Returns the error of a test that cannot go on with a file of an earlier one."""
    return RecordError(
        f"{Path(folder)}: {GOES_NOT_ON} {file} there: {why}; choose another folder, or "
        "pass overwrite=True instead of resume=True"
    )


def refuse_foreign(folder: files.PathLike, own: Sequence[str], wanted: str) -> None:
    """Refuses a folder with files of something else than a test.

    Raises:
      RecordError: There are others.
    """
    if {path.name for path in Path(folder).iterdir()} - set(own):
        raise RecordError(
            f"{Path(folder)}: there is no {wanted} to go on with, and the folder is not empty; "
            "choose another folder"
        )


def write_unfinished(folder: files.PathLike, results: Results, about: Mapping[str, Any]) -> None:
    """Writes what is found so far, and what is tested.

    The table counts only beside the second file, which is written after it and removed before it.

    Args:
      results: Of the methods that are done; may be empty.
      about: What is tested and how; the same in all calls for a test.

    Raises:
      OSError: A file cannot be written.
    """
    results.write(Path(folder) / TABLE_FILE)
    files.write_json(Path(folder) / ABOUT_FILE, {"about": about})


def discard_unfinished(folder: files.PathLike) -> None:
    """Removes what `write_unfinished` wrote; the test has ended."""
    for name in (ABOUT_FILE, TABLE_FILE):
        (Path(folder) / name).unlink(missing_ok=True)


def read_found(
    folder: files.PathLike, about: Mapping[str, Any], request: Request
) -> tuple[dict[MethodKey, Results], dict[str, Any] | None]:
    """Reads what an earlier test found, stopped or at its end, for a test that goes on with it.

    Args:
      folder: May be missing; files that a killed test left half-written are removed.

    Returns:
      The rows of each method and loss that are there; and what the earlier test was made with, as
      far as it states that, None where there is no test.

    Raises:
      RecordError: The folder has files but none of a test, or these are damaged, or of a test of
        something else.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return {}, None
    files.remove_unfinished(folder, (*OWN, *UNFINISHED))
    stopped = (folder / ABOUT_FILE).exists()
    about_file = ABOUT_FILE if stopped else SUMMARY_FILE
    table_file = TABLE_FILE if stopped else RESULTS_FILE
    if not (folder / about_file).exists():
        refuse_foreign(folder, (*OWN, *UNFINISHED), f"{SUMMARY_FILE} or {ABOUT_FILE}")
        return {}, None
    try:
        its = files.read_json(folder / about_file, "what a test tested").get("about")
    except RecordError as error:
        raise refusal(folder, about_file, str(error)) from error
    if not isinstance(its, dict):
        raise refusal(folder, about_file, "it does not state what was tested")
    other = {name: value for name, value in its.items() if name not in _MADE_WITH}
    if (mine := files.plain(about)) != other:
        raise refusal(folder, about_file, f"it is of {difference('', other, mine)}")
    try:
        tables = read_results(folder / table_file).by_method()
    except RecordError as error:
        raise refusal(folder, table_file, f"it is missing or damaged ({error})") from error
    for (method, _), table in tables.items():
        if not _is_of(table, request):
            why = f"its rows of {method!r} are not those of {request.agents} agents in this task"
            raise refusal(folder, table_file, why)
    return tables, {name: its[name] for name in _MADE_WITH if name in its}


def lacks_fixed_policies(folder: files.PathLike) -> bool:
    """Returns whether a folder holds a test that has no fixed policies."""
    for name in (ABOUT_FILE, SUMMARY_FILE):
        with contextlib.suppress(RecordError):
            about = files.read_json(Path(folder) / name, "what a test tested").get("about")
            return isinstance(about, dict) and not about.get("zero_shot_facts")
    return False


def _is_of(table: Results, request: Request) -> bool:
    """Returns whether a table of one method has the same points of each agent of a request."""
    last, agents = table.select(episodes=FINAL).agent, np.arange(request.agents)
    numbers, points = np.unique(table.agent, return_counts=True)
    return (
        str(table.method[0]) in LABELS
        and {*table.task} == {task_name(request.task)}
        and np.array_equal(np.sort(last), agents)
        and np.array_equal(numbers, agents)
        and len({*points.tolist()}) == 1
    )


def difference(name: str, there: Any, here: Any) -> str:
    """Returns the name of the first value that differs in two of JSON, and both values."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in {**there, **here}:
            inner = f"{name}.{key}" if name else key
            if key not in here:
                return f"{inner}={there[key]!r}, which this test does not have"
            if key not in there:
                return f"no {inner}, and this test of {here[key]!r}"
            if there[key] != here[key]:
                return difference(inner, there[key], here[key])
    return f"{name}={there!r}, and this test of {here!r}"
