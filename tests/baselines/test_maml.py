"""Tests epg_tf.baselines.maml, maml_lives and maml_method: lives that adapt, and meta-training."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from epg_tf.baselines.maml import COLUMNS, MetaTraining
from epg_tf.baselines.maml_lives import MAMLLives
from epg_tf.baselines.maml_method import MAMLMethod
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.maml_state import initial_state
from epg_tf.baselines.method import Request
from epg_tf.core.errors import Interrupted, RunFailed
from epg_tf.core.types import LifeKey
from epg_tf.tasks.hidden_goal import HiddenGoal
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

TASK = TaskConfig("hidden_goal", 4, 10)
TINY = MAMLExperiment.from_mapping(
    {
        "task": dataclasses.asdict(TASK),
        "policy": {"hidden": (4,)},
        "adaptation": {"env_steps": 24},
        "outer": {"iterations": 2, "tasks": 3, "validation_period": 2, "final_episodes": 1},
    }
)
START = initial_state(TINY, 0).start


def lived(keys, experiment=TINY):
    """Returns lives that have adapted once, and their samples before and after."""
    lives = MAMLLives(experiment, make_family(experiment.task), len(keys))
    lives.begin(keys, START)
    before = lives.sample(24, 8)
    lives.adapt(before)
    return lives, before, lives.sample(24, 24)


def key(number):
    return LifeKey(0, "test", 0, number)


def test_a_life_does_not_depend_on_its_neighbours():
    one, before, after = lived([key(0), key(1), key(2)])
    other, others_before, others_after = lived([key(0), key(8), key(9)])
    for mine, its in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(mine[0], its[0])
    for mine, its in ((before, others_before), (after, others_after)):
        np.testing.assert_array_equal(mine.targets.action[0], its.targets.action[0])
        assert (mine.targets.action[1] != its.targets.action[1]).any()


def test_samples_are_of_whole_episodes_and_one_policy():
    lives, before, after = lived([key(0), key(1)])
    assert before.curve.shape == (2, 3)
    assert np.isnan(before.curve[:, 0]).all() and np.isfinite(before.curve[:, 1:]).all()
    assert np.abs(before.observation[:, [0, 10, 20], :2]).max() <= 0.05  # where episodes start
    assert np.abs(after.observation[:, 0, :2]).max() <= 0.05
    first, again = (batch.observation[:, 0, :2] for batch in (before, after))
    assert (first != again).all()  # of other episodes
    # As the policies act: mean and deviation of the adapted ones.
    noise = (after.targets.action - after.targets.policy_output) / np.exp(
        after.targets.shared_output
    )[:, None]
    assert abs(noise.mean()) < 0.3 and 0.8 < noise.std() < 1.2
    assert not lives.failed.any()


def test_a_policy_that_a_gradient_makes_useless_stays_as_it_was():
    lives = MAMLLives(TINY, make_family(TASK), 2)
    lives.begin([key(0), key(1)], START)
    batch = lives.sample(24, 24)
    batch.targets.advantage[1] = np.nan
    lives.adapt(batch)
    np.testing.assert_array_equal(lives.failed, [False, True])
    for part, begun in zip(lives.weights, lives.repeated(START.weights), strict=True):
        np.testing.assert_array_equal(part[1], begun[1])
    assert any(
        (part[0] != begun[0]).any()
        for part, begun in zip(lives.weights, lives.repeated(START.weights), strict=True)
    )


def test_an_iteration_moves_the_initialisation_and_counts():
    results = list(MetaTraining(TINY, 0).iterations(initial_state(TINY, 0)))
    assert [result.state.iteration for result in results] == [1, 2]
    one, two = (result.state for result in results)
    assert tuple(results[0].metrics) == COLUMNS
    assert one.env_steps == TINY.iteration_steps == 2 * 3 * 24
    assert two.env_steps == 2 * one.env_steps + 3 * 24 + 3 * 10  # validation
    assert one.observed.steps == 2 * 3 * 24 and two.observed.steps == 4 * 3 * 24
    assert one.best_return == -np.inf
    assert two.best_return == results[1].metrics["validation_return_mean"]
    np.testing.assert_array_equal(two.best.weights, two.weights)
    assert (one.weights != START.weights).any() and (two.weights != one.weights).any()
    again = list(MetaTraining(TINY, 0).iterations(one))
    np.testing.assert_array_equal(again[0].state.weights, two.weights)  # from the state alone
    other = next(MetaTraining(TINY, 1).iterations(initial_state(TINY, 0)))
    assert (other.state.weights != one.weights).any()


def test_meta_training_ends_where_all_lives_fail_and_when_it_is_stopped(monkeypatch):
    stop = threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        next(MetaTraining(TINY, 0, stop).iterations(initial_state(TINY, 0)))
    nothing = lambda self, before, after, action: np.full(len(action), np.nan)  # noqa: E731
    monkeypatch.setattr(HiddenGoal, "reward", nothing)
    with pytest.raises(RunFailed, match="^all 3 lives of iteration 1 failed"):
        next(MetaTraining(TINY, 0).iterations(initial_state(TINY, 0)))


def trained(name, agents, env_steps=24):
    method = MAMLMethod(name, TINY, START, 2)
    return method.train(Request(TASK, 0, "test", agents, env_steps, 2))


def test_methods_adapt_in_one_and_in_ten_steps():
    one, ten = trained("maml", 4), trained("maml10", 4)
    np.testing.assert_array_equal(one.env_steps, [24])
    np.testing.assert_array_equal(ten.env_steps, 24 * np.arange(1, 11))
    assert one.returns.shape == (4, 1) and ten.returns.shape == (4, 10)
    np.testing.assert_array_equal(one.returns, ten.returns[:, :1])  # the same first samples
    assert np.isfinite(ten.returns).all() and np.isfinite(ten.final_return).all()
    assert (one.final_return != ten.final_return).all() and len(set(one.final_return)) == 4
    fewer = trained("maml", 2)
    np.testing.assert_array_equal(fewer.final_return, one.final_return[:2])
    np.testing.assert_array_equal(fewer.returns, one.returns[:2])
    unlearned = trained("maml", 2, 0)
    assert (
        unlearned.returns.shape == (2, 0) and (unlearned.final_return != fewer.final_return).all()
    )


@pytest.mark.slow
def test_meta_training_gains_from_its_step():
    """On hidden goals, where only the reward says which way to go: no fixed policy gets above 0.

    Validation is in tasks that meta-training never met.
    """
    experiment = MAMLExperiment.from_mapping(
        {
            "task": {"family": "hidden_goal", "frame_skip": 4, "episode_limit": 25},
            "policy": {"hidden": (32,), "log_std": -0.5},
            "adaptation": {"env_steps": 200, "discount": 0.95},
            "outer": {"iterations": 30, "learning_rate": 3e-3},
        }
    )
    rows = [r.metrics for r in MetaTraining(experiment, 0).iterations(initial_state(experiment, 0))]
    newest = rows[-10:]
    assert np.mean([row["return_before_mean"] for row in newest]) < 1.0
    assert np.mean([row["gain_mean"] for row in newest]) > 3.0
    assert rows[-1]["validation_return_mean"] > 3.0
