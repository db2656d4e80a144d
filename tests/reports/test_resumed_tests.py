"""Tests epg_tf.reports.resumed_tests: what a stopped test leaves, and which tests go on with it."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

from epg_tf.baselines.method import LossName, Request
from epg_tf.core.errors import RecordError
from epg_tf.evaluation.results import COLUMNS, Results
from epg_tf.reports.evaluation_report import write_report
from epg_tf.reports.resumed_tests import (
    ABOUT_FILE,
    TABLE_FILE,
    discard_unfinished,
    lacks_fixed_policies,
    read_found,
    write_unfinished,
)
from epg_tf.tasks.settings import TaskConfig
from tests.evaluation.tables import NAN, table

REQUEST = Request(TaskConfig(), 0, "test", 3, 10, 3)  # of the tables
ABOUT = {"seed": 4, "task": {"family": "x", "range": ("a", 1 / 3)}, "none": NAN}
EPG = table("epg", [5.0, 1 / 3, NAN], [[4.0]] * 3, loss=LossName("best", 3))
OTHER = table("epg", [1.0, 2.0, 3.0], [[4.0]] * 3, loss=LossName("other", 5))
PPO = table("ppo", [0.1, 0.2, 0.3], [[1e-7]] * 3)


def same(one: Results, other: Results) -> bool:
    for name in COLUMNS:
        numbers = getattr(one, name).dtype.kind == "f"
        if not np.array_equal(getattr(one, name), getattr(other, name), equal_nan=numbers):
            return False
    return True


@pytest.mark.parametrize("finished", [False, True])
def test_rows_come_back_to_the_last_bit(tmp_path, finished):
    about = {**ABOUT, "made_with": {"commit": "a"}}
    results = Results.join([EPG, PPO, OTHER])
    if finished:
        write_report(tmp_path, results, about, "T")
    else:
        write_unfinished(tmp_path, results, about)
    found, made = read_found(tmp_path, ABOUT, REQUEST)
    assert made == {"made_with": {"commit": "a"}}
    assert [*found] == [("epg", "best"), ("ppo", ""), ("epg", "other")]
    for known, mine in zip(found.values(), (EPG, PPO, OTHER), strict=True):
        assert same(known, mine)


def test_a_stopped_test_counts_more_than_the_finished_one_that_it_adds_to(tmp_path):
    write_report(tmp_path, EPG, ABOUT, "T")
    write_unfinished(tmp_path, Results.join([EPG, PPO]), ABOUT)
    assert len(read_found(tmp_path, ABOUT, REQUEST)[0]) == 2
    discard_unfinished(tmp_path)
    discard_unfinished(tmp_path)  # there is nothing to remove
    assert len(read_found(tmp_path, ABOUT, REQUEST)[0]) == 1


def test_a_kill_between_two_files_loses_nothing(tmp_path):
    """The table is written first and removed last, so it may be there alone."""
    assert read_found(tmp_path / "missing", ABOUT, REQUEST) == ({}, None)
    write_unfinished(tmp_path, EPG, ABOUT)
    (tmp_path / ABOUT_FILE).unlink()
    half_written = tmp_path / f".{ABOUT_FILE}.123.tmp"
    half_written.write_text("{")
    assert read_found(tmp_path, ABOUT, REQUEST) == ({}, None) and not half_written.exists()
    write_report(tmp_path, Results.join([EPG, PPO]), ABOUT, "T")
    assert len(read_found(tmp_path, ABOUT, REQUEST)[0]) == 2


def test_a_table_that_cannot_be_written_leaves_no_statement_beside_it(tmp_path, monkeypatch):
    def fail(self, path):
        raise OSError(28, "no space")

    monkeypatch.setattr(Results, "write", fail)
    with pytest.raises(OSError):
        write_unfinished(tmp_path, EPG, ABOUT)
    assert not (tmp_path / ABOUT_FILE).exists()


def test_an_empty_folder_has_nothing_and_a_foreign_one_is_refused(tmp_path):
    assert read_found(tmp_path, ABOUT, REQUEST) == ({}, None)
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(RecordError, match="there is no summary.json or unfinished.json"):
        read_found(tmp_path, ABOUT, REQUEST)
    assert (tmp_path / "mine.txt").exists()


def test_a_test_without_fixed_policies_is_known_by_what_it_states(tmp_path):
    """A stopped one counts more than the finished one that it adds to."""
    assert not lacks_fixed_policies(tmp_path)
    write_report(tmp_path, EPG, ABOUT, "T")
    assert lacks_fixed_policies(tmp_path)
    write_unfinished(tmp_path, EPG, {**ABOUT, "zero_shot_facts": {"zero_shot_linear": {}}})
    assert not lacks_fixed_policies(tmp_path)


@pytest.mark.parametrize(
    "about, part",
    [
        ({**ABOUT, "seed": 5}, "it is of seed=4, and this test of 5"),
        ({**ABOUT, "task": {"family": "y", "range": ("a", 1 / 3)}}, "task.family='x', and this"),
        ({**ABOUT, "alpha": None}, "it is of no alpha, and this test of None"),
        ({**ABOUT, "task": {"family": "x"}}, "task.range=['a', 0.3333333333333333], which this"),
        ({"seed": 4}, "it is of task={"),
    ],
)
def test_a_test_of_something_else_does_not_go_on_with_it(tmp_path, about, part):
    write_unfinished(tmp_path, EPG, ABOUT)
    with pytest.raises(RecordError, match=re.escape(part)) as refused:
        read_found(tmp_path, about, REQUEST)
    start = f"{tmp_path}: a test cannot go on with unfinished.json there: it is of "
    assert str(refused.value).startswith(start) and "resume=True" in str(refused.value)


@pytest.mark.parametrize("name, text", [
    (ABOUT_FILE, "{"), (ABOUT_FILE, json.dumps({"about": 3})), (TABLE_FILE, "a,b\n1,2\n"),
    (TABLE_FILE, None),
])  # fmt: skip
def test_damaged_files_are_refused_in_one_line(tmp_path, name, text):
    write_unfinished(tmp_path, EPG, ABOUT)
    assert {path.name for path in tmp_path.iterdir()} == {TABLE_FILE, ABOUT_FILE}
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    with pytest.raises(RecordError, match=f"cannot go on with {name} there") as refused:
        read_found(tmp_path, ABOUT, REQUEST)
    assert "\n" not in str(refused.value)


def _without(chosen) -> Results:
    return EPG.rows(~chosen)


@pytest.mark.parametrize(
    "rows, request_",
    [
        (_without((EPG.episodes == "final") & (EPG.agent == 1)), REQUEST),
        (_without((EPG.episodes != "final") & (EPG.agent == 1)), REQUEST),
        (_without(EPG.agent == 2), REQUEST),
        (
            dataclasses.replace(EPG, episodes=np.where(EPG.agent == 2, "learning", EPG.episodes)),
            dataclasses.replace(REQUEST, agents=2),
        ),
        (dataclasses.replace(EPG, agent=np.minimum(EPG.agent, 1)), REQUEST),
        (dataclasses.replace(EPG, agent=EPG.agent - 1), REQUEST),
        (dataclasses.replace(EPG, method=np.full(6, "foreign", object)), REQUEST),
        (EPG, dataclasses.replace(REQUEST, agents=4)),
        (EPG, dataclasses.replace(REQUEST, task=TaskConfig("random_hopper", 4, 99))),
    ],
)
def test_rows_of_other_agents_tasks_and_methods_are_refused(tmp_path, rows, request_):
    write_unfinished(tmp_path, rows, ABOUT)
    with pytest.raises(RecordError, match=f"are not those of {request_.agents} agents"):
        read_found(tmp_path, ABOUT, request_)
