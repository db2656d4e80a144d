"""Tests epg_tf.runs.rl2: what a run costs; test_session.py runs it."""

from __future__ import annotations

import numpy as np
import pytest

import epg_tf
from epg_tf.baselines import rl2
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import ConfigError, RunFailed
from epg_tf.runs.checkpoints import Checkpoint
from epg_tf.runs.config_files import load_experiment
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.rl2 import RL2System
from epg_tf.runs.session import run_in_folder
from epg_tf.tasks.hidden_goal import HiddenGoal
from tests.baselines.test_rl2 import TINY


def test_the_cost_is_stated():
    experiment = load_experiment("rl2_half_cheetah")
    assert RL2System.purpose(experiment).endswith("by RL² for directional_half_cheetah")
    (cost,) = RL2System.costs(experiment, 100)
    assert cost == (
        "cost: 50 iterations x 64 trials x 200 env steps = 640 k env steps; 16 updates by PPO in "
        "an iteration; validation 25.6 k env steps more"
    )
    explores = RL2Experiment.from_mapping({"trial": {"exploratory_episodes": 1}})
    assert "by E-RL² for point_goal" in RL2System.purpose(explores)


def test_env_steps_count_validation_as_those_of_other_methods_do():
    tiny = RL2Experiment.from_mapping(TINY)
    found = [tiny.env_steps_after(iterations) for iterations in range(6)]
    assert found == [0, 48, 96 + 24, 144 + 24, 192 + 48, 240 + 48]


def test_settings_that_need_too_much_memory_are_refused():
    huge = RL2Experiment.from_mapping({"trials": 1_000_000, "task": {"episode_limit": 100_000}})
    with pytest.raises(ConfigError, match="config.trials=1000000"):
        RL2System(huge, 0)


@pytest.fixture(scope="module")
def system():
    """Of all tests that play trials: its agent is traced once."""
    return RL2System(RL2Experiment.from_mapping(TINY), 0)


def test_trials_that_all_fail_end_the_run(system, tmp_path, monkeypatch):
    monkeypatch.setattr(
        HiddenGoal, "reward", lambda self, before, after, action: np.full(len(action), np.nan)
    )
    with pytest.raises(
        RunFailed, match="^all 4 trials of iteration 1 failed: the reward was not finite; correct"
    ):
        list(run_in_folder(system, RunTarget(tmp_path / "run")))
    assert not epg_tf.read_run(tmp_path / "run").finished


@pytest.mark.slow
def test_trials_that_fail_in_validation_are_counted_and_said(system, tmp_path, monkeypatch):
    """Iteration 2 of 3 has one."""
    play = rl2.play_trials

    def failing(environment, agent, keys):
        trials = play(environment, agent, keys)
        trials.diverged[0] |= len(keys) == 2
        return trials

    monkeypatch.setattr(rl2, "play_trials", failing)
    lines = []
    results = list(run_in_folder(system, RunTarget(tmp_path / "run"), lines.append))
    found = [result.metrics["failed_validation_trials"] for result in results]
    np.testing.assert_array_equal(found, [np.nan, 1.0, np.nan])
    assert "iteration 2: 1 of 2 validation trials failed" in lines
    assert lines[-1].endswith(", 1 failed trials")
    assert epg_tf.read_run(tmp_path / "run").summary["failed_trials"] == 1


def test_a_resumed_run_goes_on_with_the_best_return_so_far(system):
    """A later validation that is worse writes no `best/`."""
    tiny = RL2Experiment.from_mapping(TINY)
    arrays, facts = system.arrays()
    done = tiny.validation_period - 1
    system.load(Checkpoint(done, arrays, {**facts, "best_return": 1e9}))
    result = next(system.steps(lambda lives: None))
    assert result.iteration == tiny.validation_period
    assert (result.best_return, result.is_best) == (1e9, False)
    assert set(system.arrays()[0]) == set(arrays)
