"""Tests lives that get another life's task or experience."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.core.types import LifeKey
from epg_tf.epg.conditions import Condition
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.quantities import Quantity

P = 4
KEYS = [LifeKey(1, "test", 0, index) for index in range(P)]
NEXT = (1, 2, 3, 0)
LEARNING = InnerLoopSettings(0.0, 1e-2)


class Paid(PointGoal):
    """Every step pays what the task says, whatever an agent does."""

    name = "paid"
    quantities = (*PointGoal.quantities, Quantity("wage", "reward of a step", (0.0, 1.0)))

    def reward(self, before, after, action):
        """Returns the wage."""
        return np.ravel(after.task["wage"])


@pytest.fixture(scope="module")
def paid(tiny):
    return InnerLoop(tiny, Paid(2, 6))


@pytest.fixture(scope="module")
def walking(tiny):
    return InnerLoop(tiny, PointGoal(2, 6))


def phi_of(loop):
    return np.stack([initial_phi(loop.experiment, 0)] * P)


def run(loop, keys=KEYS, **changes):
    return loop.run(keys, phi_of(loop), dataclasses.replace(LEARNING, **changes))


def wages(loop):
    """Returns what each life earns in an episode of its own task."""
    return run(loop).final_return


@pytest.mark.parametrize(
    ("indices", "others"), [(range(P), NEXT), ((0, 2, 0, 2), (3, 0, 1, 0))], ids=str
)
def test_transfer_pays_the_others_wage(paid, indices, others):
    """Only keys say who the others are: they may be in another shard."""
    own = wages(paid)
    assert len(set(own.round(6))) == P
    keys = [LifeKey(1, "test", 0, index) for index in indices]
    found = run(paid, keys=keys, condition=Condition("transfer", others))
    expected = own[[others[index] for index in indices]]
    np.testing.assert_allclose(found.final_return, expected, rtol=1e-6)


def test_transfer_leaves_learning_alone(paid):
    """Policies are those of ordinary lives to the bit; only the final episodes differ."""
    ordinary, found = run(paid), run(paid, condition=Condition("transfer", NEXT))
    np.testing.assert_array_equal(found.policy_hash, ordinary.policy_hash)
    np.testing.assert_array_equal(found.episode_return, ordinary.episode_return)


def test_a_switch_pays_the_others_wage_from_then_on(paid):
    """Updates of 8 steps, episodes of 6: before update 1 the own wage, afterwards the other's."""
    own = wages(paid)
    found = run(paid, condition=Condition("switch", NEXT, 1))
    np.testing.assert_allclose(found.episode_return[:, 0], own, rtol=1e-6)
    np.testing.assert_allclose(found.episode_return[:, 1], own[list(NEXT)], rtol=1e-6)
    np.testing.assert_allclose(found.final_return, own[list(NEXT)], rtol=1e-6)


def test_the_cut_episode_is_marked(walking):
    marks = []

    def watch(simulation, result):
        del simulation, result
        marks.append(walking._buffer.truncated[:, -9].copy())

    walking.run(
        KEYS,
        phi_of(walking),
        dataclasses.replace(LEARNING, condition=Condition("switch", NEXT, 1), updates=2),
        watch,
    )
    # The step before the newest 8 of the second update is the last one before the switch.
    assert (marks[8] == 1.0).all()
    before = list(marks)
    marks.clear()
    walking.run(KEYS, phi_of(walking), dataclasses.replace(LEARNING, updates=2), watch)
    assert (marks[8] == 0.0).all() and len(before) == len(marks)


def test_yoked_to_itself_is_an_ordinary_life(walking):
    ordinary = run(walking)
    found = run(walking, condition=Condition("yoked", (0, 1, 2, 3)))
    np.testing.assert_array_equal(found.policy_hash, ordinary.policy_hash)
    np.testing.assert_array_equal(found.final_return, ordinary.final_return)


def test_yoked_agents_live_in_their_own_task_at_last(paid):
    found = run(paid, condition=Condition("yoked", NEXT))
    np.testing.assert_allclose(found.final_return, wages(paid), rtol=1e-6)
    np.testing.assert_allclose(  # while the other's agent earned the other's wage
        found.episode_return[:, 1], wages(paid)[list(NEXT)], rtol=1e-6
    )


def test_the_others_life_is_an_ordinary_one(walking):
    """What is watched of a yoked life is the other's: its curve is that of the other's own life."""
    ordinary = run(walking)
    found = run(walking, condition=Condition("yoked", NEXT))
    np.testing.assert_array_equal(found.episode_return, ordinary.episode_return[list(NEXT)])
    assert not set(found.policy_hash) & set(ordinary.policy_hash)


def test_ordinary_lives_are_as_before_afterwards(walking):
    before = run(walking)
    for kind in ("transfer", "yoked", "switch"):
        run(walking, condition=Condition(kind, NEXT, 1))
    after = run(walking)
    np.testing.assert_array_equal(before.policy_hash, after.policy_hash)
    np.testing.assert_array_equal(before.final_return, after.final_return)
