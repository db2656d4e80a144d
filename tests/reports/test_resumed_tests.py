"""Tests epg_tf.reports.resumed_tests: what a stopped test leaves, and who may go on."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from epg_tf.baselines.method import LossName
from epg_tf.core.errors import RecordError
from epg_tf.evaluation.results import COLUMNS, Results
from epg_tf.reports.evaluation_report import write_report
from epg_tf.reports.resumed_tests import (
    UNFINISHED,
    read_found,
    remove_unfinished,
    write_unfinished,
)
from tests.evaluation.tables import NAN, table

ABOUT = {"seed": 4, "task": {"family": "x", "range": ("a", 1 / 3)}, "none": NAN}
EPG = table("epg", [5.0, 1 / 3, NAN], [[4.0]] * 3, loss=LossName("best", 3))
OTHER = table("epg", [1.0, 2.0, 3.0], [[4.0]] * 3, loss=LossName("other", 5))
PPO = table("ppo", [0.1, 0.2, 0.3], [[1e-7]] * 3)


def same(one: Results, other: Results) -> bool:
    return all(
        np.array_equal(
            getattr(one, name), getattr(other, name), equal_nan=name in ("returns", "kl")
        )
        for name in COLUMNS
        if name != "success"
    )


@pytest.mark.parametrize("finished", [False, True])
def test_rows_come_back_to_the_last_bit(tmp_path, finished):
    about = {**ABOUT, "made_with": {"commit": "a"}}
    results = Results.join([EPG, PPO, OTHER])
    if finished:
        write_report(tmp_path, results, about, "T")
    else:
        write_unfinished(tmp_path, results, about)
    found, made = read_found(tmp_path, ABOUT, 3)
    assert made == {"made_with": {"commit": "a"}}
    assert [*found] == [("epg", "best"), ("ppo", ""), ("epg", "other")]
    for known, mine in zip(found.values(), (EPG, PPO, OTHER), strict=True):
        assert same(known, mine)


def test_a_stopped_test_counts_more_than_the_finished_one_that_it_adds_to(tmp_path):
    write_report(tmp_path, EPG, ABOUT, "T")
    write_unfinished(tmp_path, Results.join([EPG, PPO]), ABOUT)
    assert len(read_found(tmp_path, ABOUT, 3)[0]) == 2
    remove_unfinished(tmp_path)
    remove_unfinished(tmp_path)  # there is nothing to remove
    assert len(read_found(tmp_path, ABOUT, 3)[0]) == 1


def test_an_empty_folder_has_nothing_and_a_foreign_one_is_refused(tmp_path):
    assert read_found(tmp_path, ABOUT, 3) == ({}, {})
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(RecordError, match="there is no summary.json or unfinished.json"):
        read_found(tmp_path, ABOUT, 3)


@pytest.mark.parametrize(
    "about, agents, part",
    [
        ({**ABOUT, "seed": 5}, 3, "it is of seed=4, and this test of 5"),
        ({**ABOUT, "task": {"family": "y", "range": ("a", 1 / 3)}}, 3, "task.family='x'"),
        ({**ABOUT, "alpha": 1.0}, 3, "it is of alpha=None, and this test of 1.0"),
        ({"seed": 4}, 3, "it is of task={"),
        (ABOUT, 4, "epg has 3 agents there, and this test has 4"),
    ],
)
def test_a_test_of_something_else_does_not_go_on_with_it(tmp_path, about, agents, part):
    write_unfinished(tmp_path, EPG, ABOUT)
    with pytest.raises(RecordError, match=re.escape(part)) as refused:
        read_found(tmp_path, about, agents)
    assert str(refused.value).startswith(f"{tmp_path}: a test cannot go on with unfinished.")
    assert "resume=True" in str(refused.value)


@pytest.mark.parametrize(
    "name, text",
    [
        ("unfinished.json", "{"),
        ("unfinished.json", json.dumps({"about": 3})),
        ("unfinished.csv", "a,b\n1,2\n"),
        ("unfinished.csv", None),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path, name, text):
    write_unfinished(tmp_path, EPG, ABOUT)
    assert {path.name for path in tmp_path.iterdir()} == {*UNFINISHED}
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    with pytest.raises(RecordError, match="cannot go on") as refused:
        read_found(tmp_path, ABOUT, 3)
    assert "\n" not in str(refused.value)


def test_rows_that_lack_the_final_one_of_an_agent_are_refused(tmp_path):
    last = (EPG.episodes == "final") & (EPG.agent == 1)
    write_unfinished(tmp_path, EPG.rows(~last), ABOUT)
    with pytest.raises(RecordError, match="epg has 2 agents there"):
        read_found(tmp_path, ABOUT, 3)
