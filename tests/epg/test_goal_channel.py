"""Tests the channel `goal`: losses that see where the goal is (EPG, section 4.2)."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.tasks.registry import make_family

KEYS = [LifeKey(1, "test", 0, index) for index in range(4)]
ANT = {"family": "goal_ant", "frame_skip": 5, "episode_limit": 6}
STEPS = 3 * 8  # env steps in a life; the buffer holds 32


def make_loop(experiment):
    return InnerLoop(experiment, make_family(experiment.task))


def live(loop):
    phi = np.stack([initial_phi(loop.experiment, 0)] * 4)
    return loop.run(KEYS, phi, InnerLoopSettings(0.0, 1e-2))


def test_the_loss_of_an_ant_sees_its_goal(make_tiny, monkeypatch):
    """At every step lived, in metres, and it makes a difference."""
    loop = make_loop(make_tiny(task=ANT, loss={"channels": ("goal",)}))
    before = live(loop).policy_hash
    for key, found in zip(KEYS, loop._buffer.goal, strict=True):
        task = loop.family.sample_task(life_generator(key, "task"))
        x, y = (task["distance"] * f(task["bearing"]) for f in (np.cos, np.sin))
        np.testing.assert_allclose(found[-STEPS:], [[x, y, 0.0]] * STEPS, atol=1e-5)
        assert not found[:-STEPS].any()
    goals = loop._simulation.goals
    monkeypatch.setattr(loop._simulation, "goals", lambda: goals() * [[1.0], [-1.0], [1.0], [1.0]])
    assert (live(loop).policy_hash == before).tolist() == [True, False, True, True]


def test_a_goal_of_each_episode_is_the_one_of_its_steps(make_tiny):
    """PointGoal draws one with every start."""
    loop = make_loop(make_tiny(loss={"channels": ("goal",)}))
    live(loop)
    for key, found in zip(KEYS, loop._buffer.goal, strict=True):
        resets = life_generator(key, "reset")
        drawn = [loop.family.start(resets, {})[2][:2] for _ in range(4)]
        np.testing.assert_allclose(found[-STEPS:, :2], np.repeat(drawn, 6, axis=0), atol=1e-5)


def test_a_family_without_a_known_goal_is_refused(make_tiny):
    task = {"family": "random_hopper", "frame_skip": 4, "episode_limit": 6}
    with pytest.raises(ConfigError, match="needs the goal, but where the goals of random_hopper"):
        make_loop(make_tiny(task=task, loss={"channels": ("goal",)}))


def test_nothing_is_recorded_for_losses_that_do_not_see_it(tiny):
    assert make_loop(tiny)._buffer.goal.size == 0
