"""Tests epg_tf.tasks.hidden_goal: what pays, what is hidden, and what agents can and cannot get."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from epg_tf.tasks.bodies import State
from epg_tf.tasks.episodes import play_episodes
from epg_tf.tasks.hidden_goal import HiddenGoal
from epg_tf.tasks.physics import BodySimulation

LIVES = 128


def generators(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


def around() -> tuple[BodySimulation, np.ndarray]:
    """Returns lives with random bodies whose goals lie evenly around, and the goals [P, 2]."""
    family, angles = HiddenGoal(4, 25), 2 * np.pi * np.arange(LIVES) / LIVES
    tasks = [family.sample_task(generator) for generator in generators(LIVES)]
    simulation = BodySimulation(family, LIVES)
    simulation.set_tasks(
        [{**task, "direction": angle} for task, angle in zip(tasks, angles, strict=True)]
    )
    return simulation, 0.8 * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def mean_return(act: Callable[[np.ndarray], np.ndarray]) -> float:
    played = play_episodes(around()[0], act, generators(LIVES), 2)
    return float(played.mean_return.mean())


def steer(observation: np.ndarray, goals: np.ndarray) -> np.ndarray:
    return 10.0 * (goals - observation[:, :2]) - observation[:, 2:]


@pytest.mark.parametrize(
    ("direction", "reward"),
    [
        (0.0, 1.25),  # 0.1 m nearer in 0.08 s
        (np.pi, -1.25),
        (np.pi / 2, -0.07782218537),  # (0.8 - sqrt(0.65)) / 0.08
    ],
)
def test_the_reward_is_the_velocity_towards_the_goal(direction, reward):
    task = {"direction": np.array([direction])}
    before, after = (
        State(np.array([[x, 0.0]]), np.full((1, 2), 9.0), np.zeros((1, 0)), task)
        for x in (0.0, 0.1)
    )
    found = HiddenGoal(4, 25).reward(before, after, np.ones((1, 2)))
    np.testing.assert_allclose(found, [reward], rtol=1e-9)


def test_observations_do_not_depend_on_the_goal_but_rewards_do():
    family = HiddenGoal(4, 25)
    task = family.sample_task(np.random.default_rng(1))
    simulation = BodySimulation(family, 2)
    simulation.set_tasks([{**task, "direction": np.array(angle)} for angle in (0.3, 2.5)])
    resets = [np.random.default_rng(5), np.random.default_rng(5)]
    seen = simulation.reset(np.arange(2), resets)
    assert seen.shape == (2, 4) and simulation.state.goal.shape == (2, 0)
    for action in np.random.default_rng(6).uniform(-1, 1, (60, 2)):
        np.testing.assert_array_equal(seen[0], seen[1])
        result = simulation.step(np.tile(action, (2, 1)))
        assert abs(result.reward[0] - result.reward[1]) > 1e-6
        seen, ended = result.observation, np.flatnonzero(result.truncated)
        if ended.size:
            assert ended.size == 2
            seen = simulation.next_episode(ended, resets)


@pytest.mark.parametrize(
    "act",
    [
        lambda observation: np.zeros((len(observation), 2)),
        lambda observation: np.broadcast_to([1.0, 0.0], (len(observation), 2)),
        lambda observation: steer(observation, np.array([0.5, -0.5])),
        lambda observation: 5.0 * observation[:, :2],  # away from the centre
        lambda observation: np.stack([1.0 + observation[:, 3], -observation[:, 2]], axis=1),
    ],
    ids=["still", "right", "to_a_place", "outwards", "circles"],
)
def test_no_fixed_policy_is_better_than_standing_still(act):
    assert mean_return(act) < 0.05


def test_who_knows_the_goal_gets_nearly_all_and_who_knows_another_loses():
    goals = around()[1]
    assert mean_return(lambda observation: steer(observation, goals)) > 9.9  # of 10
    wrong = np.roll(goals, LIVES // 2, axis=0)
    assert mean_return(lambda observation: steer(observation, wrong)) < -9.5
    beside = np.roll(goals, LIVES // 4, axis=0)
    assert -4.5 < mean_return(lambda observation: steer(observation, beside)) < -3.5
