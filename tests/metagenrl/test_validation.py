"""Tests epg_tf.metagenrl.validation: objectives are tested along meta-training, and best/ is chosen
by the environments of meta-training alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import threading

import numpy as np
import pytest

import epg_tf
from epg_tf.artifacts.artifact import load_objective
from epg_tf.baselines.method import LossName
from epg_tf.core.errors import ConfigError, Interrupted, RecordError
from epg_tf.evaluation.objective_method import learned_objective
from epg_tf.evaluation.requests import objective_request
from epg_tf.metagenrl.population import Population, meta_learn
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.metagenrl.validation import best_round, validation_return
from epg_tf.runs.metagenrl import meta_learn_in_folder
from tests.metagenrl.test_population import TINY
from tests.thread_ranks import on_ranks

HELD_OUT = "gymnasium:InvertedPendulum-v5@6"
COLUMNS = [f"validation_return/{place}" for place in (*TINY["environments"], HELD_OUT)]
VALIDATION = {
    "period": 2,
    "environments": (HELD_OUT,),
    "agents": 3,
    "env_steps": 24,
    "episodes": 2,
}


@pytest.fixture(scope="module")
def tested():
    return MetaGenRLExperiment.from_mapping({**TINY, "validation": VALIDATION})


@pytest.fixture(scope="module")
def finished(tested, tmp_path_factory):
    folder = tmp_path_factory.mktemp("validated") / "run"
    return folder, list(meta_learn_in_folder(tested, 0, folder))


def numbers(result):
    return [result.metrics[name] for name in COLUMNS]


@pytest.mark.slow
def test_tests_are_due_every_period_and_change_no_bit_of_training(finished):
    """The same run without them ends with the same objective."""
    _, rounds = finished
    assert [np.isnan(numbers(result)).all() for result in rounds] == [True, False, True, False]
    assert np.isfinite(numbers(rounds[1])).all() and numbers(rounds[1])[2] > 0
    alone = list(meta_learn(MetaGenRLExperiment.from_mapping(TINY), 0))[-1]
    assert alone.state.parameters.tobytes() == rounds[-1].state.parameters.tobytes()
    assert not [name for name in alone.metrics if name.startswith("validation")]


@pytest.mark.slow
def test_a_test_is_what_tests_of_objectives_find_for_the_same_agents(tested, finished):
    """The method of meta-test, with the agents of validation."""
    state = finished[1][1].state
    baseline = dataclasses.replace(tested.baseline, update_period=12, minibatch=12)
    tested = dataclasses.replace(tested, baseline=baseline)
    for place, found in zip((*tested.environments, HELD_OUT), numbers(finished[1][1]), strict=True):
        request = objective_request(tested, place, 0, 3, 24, 2)
        request = dataclasses.replace(request, phase="objective_validation")
        agents = dataclasses.replace(tested, shard_agents=3)
        method = learned_objective(agents, state.parameters, LossName("run", 0))
        curves = method.train(request)
        assert found == pytest.approx(np.mean(curves.returns[:, -1]), rel=1e-5)


@pytest.mark.slow
def test_numbers_do_not_depend_on_ranks(tested, finished):
    ended = on_ranks(2, lambda rank: list(meta_learn(tested, 0, Population(tested, 0, rank))))
    for rank in ended:
        for mine, alone in zip(rank, finished[1], strict=True):
            assert np.array_equal(numbers(mine), numbers(alone), equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 3])
def test_a_resumed_run_has_the_same_rows_and_the_same_best(tested, finished, tmp_path, stop):
    rounds = meta_learn_in_folder(tested, 0, tmp_path / "run")
    assert len(list(itertools.islice(rounds, stop))) == stop
    rounds.close()
    shutil.rmtree(tmp_path / "run" / "best", ignore_errors=True)  # as if killed before it was there
    rest = list(meta_learn_in_folder(tested, 0, tmp_path / "run", resume=True))
    for result, alone in zip(rest, finished[1][stop:], strict=True):
        assert np.array_equal(numbers(result), numbers(alone), equal_nan=True)
    for name in ("best/loss.npz", "final/loss.npz"):
        assert (tmp_path / "run" / name).read_bytes() == (finished[0] / name).read_bytes()


@pytest.mark.slow
def test_a_best_objective_that_is_gone_is_named(tested, tmp_path):
    rounds = meta_learn_in_folder(tested, 0, tmp_path / "run")
    assert len(list(itertools.islice(rounds, 3))) == 3
    rounds.close()
    shutil.rmtree(tmp_path / "run" / "best")
    shutil.rmtree(tmp_path / "run" / "objectives")
    with pytest.raises(RecordError, match="round 2, the best in tests, cannot be read"):
        list(meta_learn_in_folder(tested, 0, tmp_path / "run", resume=True))


def test_without_tests_a_folder_named_best_is_left_alone(tmp_path):
    alone = MetaGenRLExperiment.from_mapping(TINY)
    rounds = meta_learn_in_folder(alone, 0, tmp_path / "run")
    next(rounds)
    (tmp_path / "run" / "best").mkdir()
    assert len(list(rounds)) == 3 and (tmp_path / "run" / "best").is_dir()


@pytest.mark.slow
def test_best_is_the_objective_of_the_best_round(tested, finished):
    folder, rounds = finished
    rows = [result.metrics for result in rounds]
    number = int(best_round(tested, rows)["epoch"])
    best = load_objective(folder / "best")
    assert best.facts["round"] == number
    assert best.phi.tobytes() == rounds[number - 1].state.parameters.tobytes()
    record = epg_tf.read_run(folder)
    assert record.best == folder / "best" and record.summary["best"]["round"] == number
    assert load_objective(folder).folder == folder / "best"


def test_ranks_in_environments_of_meta_training_decide(tested):
    """Returns differ in scale; the environment that was held out, and NaN, cannot win."""

    def row(epoch, *returns):
        return {"epoch": float(epoch), **dict(zip(COLUMNS, returns, strict=True))}

    nothing = row(1, np.nan, np.nan, np.nan)
    first, second = row(2, -1000.0, -9.0, 0.0), row(4, -200.0, -9.5, 900.0)
    third = row(6, -300.0, -8.0, -1.0)
    failed = row(8, np.nan, -7.0, 1e6)
    assert best_round(tested, [nothing]) is None
    assert best_round(tested, [nothing, first]) is first
    assert best_round(tested, [first, second]) is second  # 1 and 2 against 2 and 1: the later
    assert best_round(tested, [first, second, third]) is third
    assert best_round(tested, [first, second, third, failed]) is third


@pytest.mark.slow
def test_stopping_ends_a_test(tested, finished):
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(Interrupted):
        validation_return(tested, "point_goal@5", 0, finished[1][0].state.parameters, stopped)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env_steps": 25}, "config.validation.env_steps=25 is no multiple"),
        (
            {"env_steps": 12},
            "config.validation.env_steps=12 are 12 env steps, not more than config.agent.random",
        ),
        ({"environments": ("point_goal@5",)}, "or one of config.environments="),
        ({"agents": 0}, "config.validation.agents=0 must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        MetaGenRLExperiment.from_mapping({**TINY, "validation": {**VALIDATION, **changes}})
