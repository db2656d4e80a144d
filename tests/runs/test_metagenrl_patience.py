"""Tests that a run of MetaGenRL ends once tests of its objective find nothing better."""

from __future__ import annotations

import contextlib
import itertools

import pytest

import epg_tf
from epg_tf.core.errors import ConfigError
from epg_tf.metagenrl import validation
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.metagenrl.validation import best_round
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.metagenrl import MetaGenRLSystem, meta_learn_in_folder
from epg_tf.runs.session import Session
from tests.runs.test_metagenrl import TINY
from tests.thread_ranks import on_ranks

ROUNDS = 8
PLACE = "validation_return/point_goal@5"
VALIDATION = {"period": 1, "agents": 2, "env_steps": 24, "episodes": 1}


def with_patience(patience: int):
    return MetaGenRLExperiment.from_mapping(
        {**TINY, "steps_per_agent": 12 * ROUNDS, "validation": {**VALIDATION, "patience": patience}}
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run to the end, and after which round one with patience 2 ends."""
    rounds = list(
        meta_learn_in_folder(with_patience(0), 0, tmp_path_factory.mktemp("whole") / "run")
    )
    rows = [result.metrics for result in rounds]
    end = next(
        n for n in range(1, ROUNDS) if validation.tests_since_best(with_patience(0), rows[:n]) == 2
    )
    return rounds, end


def test_tests_are_counted_from_that_of_the_best_objective():
    def rows(*returns):
        return [{"epoch": float(n), PLACE: value} for n, value in enumerate(returns, 1)]

    for returns, count in (
        ((), 0),
        ((-5.0,), 0),
        ((-5.0, -4.0), 0),
        ((-5.0, -4.0, -4.5, -4.0), 2),  # the earlier of two equal ones is the best
        ((-5.0, -4.0, -4.5, -3.0), 0),
    ):
        assert validation.tests_since_best(with_patience(0), rows(*returns)) == count
    every_other = MetaGenRLExperiment.from_mapping(
        {**TINY, "validation": {**VALIDATION, "period": 2}}
    )
    assert validation.tests_since_best(every_other, rows(0.0, -4.0, 0.0, -5.0, 0.0)) == 1


@pytest.mark.slow
def test_a_run_ends_after_as_many_tests_and_says_so(whole, tmp_path):
    """With the bits of the longer run until then; best/ is that of the best test."""
    rounds, end = whole
    lines = []
    ended = list(meta_learn_in_folder(with_patience(2), 0, tmp_path / "run", write=lines.append))
    assert len(ended) == end < ROUNDS
    assert ended[-1].state.parameters.tobytes() == rounds[end - 1].state.parameters.tobytes()
    assert f"ended after round {end} of {ROUNDS}: no better objective in 2 tests" in lines[-2]
    record = epg_tf.read_run(tmp_path / "run")
    rows = [result.metrics for result in rounds[:end]]
    assert record.finished and record.summary["rounds"] == end
    assert record.summary["best"]["round"] == best_round(with_patience(0), rows)["epoch"] == end - 2


@pytest.mark.slow
def test_stops_do_not_change_where_it_ends(whole, tmp_path):
    _, end = whole
    rounds = meta_learn_in_folder(with_patience(2), 0, tmp_path / "run")
    taken = len(list(itertools.islice(rounds, end - 1)))
    rounds.close()
    resumed = list(meta_learn_in_folder(with_patience(2), 0, tmp_path / "run", resume=True))
    assert taken + len(resumed) == end
    lines = []
    again = meta_learn_in_folder(
        with_patience(2), 0, tmp_path / "run", resume=True, write=lines.append
    )
    assert list(again) == [] and lines[0].startswith(f"all {end} rounds are done")


@pytest.mark.slow
def test_a_run_that_has_ended_goes_on_with_more_patience(whole, tmp_path):
    """To the bits of the run without any."""
    rounds, end = whole
    assert len(list(meta_learn_in_folder(with_patience(2), 0, tmp_path / "run"))) == end
    rest = list(meta_learn_in_folder(with_patience(0), 0, tmp_path / "run", resume=True))
    assert len(rest) == ROUNDS - end
    assert rest[-1].state.parameters.tobytes() == rounds[-1].state.parameters.tobytes()


@pytest.mark.slow
def test_ranks_end_together(whole, tmp_path):
    def work(rank):
        session = Session(MetaGenRLSystem(with_patience(2), 0, rank), RunTarget(tmp_path / "run"))
        with contextlib.closing(session):
            return len(list(session.steps()))

    assert on_ranks(2, work) == [whole[1]] * 2


def test_patience_needs_tests():
    with pytest.raises(ConfigError, match=r"config.validation.patience=2 counts tests, and there"):
        MetaGenRLExperiment.from_mapping({**TINY, "validation": {"patience": 2}})
