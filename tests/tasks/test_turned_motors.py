"""Tests epg_tf.tasks.turned_motors: where turned motors push, what pays, and what agents can and
cannot get.
"""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.tasks.bodies import State
from epg_tf.tasks.episodes import play_episodes
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.turned_motors import TurnedMotors

LIVES = 256


def generators(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


def turned(vectors: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Returns [P, 2] vectors turned anticlockwise by angles [P]."""
    numbers = (vectors[:, 0] + 1j * vectors[:, 1]) * np.exp(1j * angle)
    return np.stack([numbers.real, numbers.imag], axis=1)


@pytest.mark.parametrize(
    ("turn", "gain", "action", "velocity"),
    [
        (0.0, (1.0, 1.0), (1.0, 0.0), (2.0 / 11.0, 0.0)),
        (np.pi / 2, (1.0, 1.0), (1.0, 0.0), (0.0, 2.0 / 11.0)),
        (np.pi / 2, (1.0, 1.0), (0.0, 1.0), (-2.0 / 11.0, 0.0)),
        (np.pi / 6, (1.0, 1.0), (1.0, 0.0), (0.15745916, 0.09090909)),
        (np.pi / 2, (2.0, 0.5), (1.0, 1.0), (-1.0 / 11.0, 4.0 / 11.0)),  # gains are the motors'
        (np.pi / 4, (1.0, 1.0), (1.0, 1.0), (0.0, 0.25712974)),  # more than one motor alone
        (np.pi / 2, (1.0, 1.0), (3.0, 0.0), (0.0, 2.0 / 11.0)),  # actions have limits
    ],
)
def test_a_push_moves_the_body_where_the_rotation_says(turn, gain, action, velocity):
    """One step of 0.02 s from rest: v = h F / (m + h d), F = 10 N, m = 1 kg, d = 5 N s/m."""
    family = TurnedMotors(1, 25)
    simulation = BodySimulation(family, 2)
    task = family.complete_task({"turn": turn, "gain": gain})
    simulation.set_tasks([family.complete_task({}), task])
    simulation.reset(np.arange(2), generators(2))
    simulation.state.qpos[:] = 0.0
    simulation.step(np.array([action]), np.array([1]))
    np.testing.assert_allclose(simulation.state.qvel[1], velocity, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(simulation.state.qvel[0], 0.0)


def test_motors_that_are_not_turned_are_those_of_point_goal():
    pair = []
    for family in (PointGoal(4, 25), TurnedMotors(4, 25, "turn=0:0")):
        simulation = BodySimulation(family, 8)
        simulation.set_tasks([PointGoal(4, 25).sample_task(each) for each in generators(8)])
        if isinstance(family, TurnedMotors):
            assert not simulation.state.task["turn"].any()
        simulation.reset(np.arange(8), generators(8))
        for action in np.random.default_rng(0).uniform(-2, 2, (50, 8, 2)):
            observation = simulation.step(action).observation
        pair.append(observation)
    np.testing.assert_allclose(pair[0], pair[1], rtol=0, atol=1e-6)


def test_the_reward_is_the_velocity_towards_the_goal():
    before, after = (
        State(np.array([[x, 0.0]] * 2), np.full((2, 2), 9.0), np.array([[0.5, 0.0], [0.0, 0.4]]))
        for x in (0.0, 0.3)
    )
    reward = TurnedMotors(4, 25).reward(before, after, np.ones((2, 2)))
    np.testing.assert_allclose(reward, [3.75, -1.25])  # 0.3 m nearer, 0.1 m farther, in 0.08 s


def test_an_observation_shows_the_angle_only_by_what_actions_did():
    family = TurnedMotors(4, 25)
    simulation = BodySimulation(family, 2)
    simulation.set_tasks([family.complete_task({"turn": angle}) for angle in (0.0, 2.0)])
    one, other = simulation.reset(np.arange(2), [np.random.default_rng(5) for _ in range(2)])
    np.testing.assert_array_equal(one, other)
    one, other = simulation.step(np.zeros((2, 2))).observation
    np.testing.assert_array_equal(one, other)
    one, other = simulation.step(np.ones((2, 2))).observation
    assert np.abs(one - other)[4:].min() > 0.1


def mean_return(error: float | None) -> float:
    """Returns what steering gets that is wrong about the angle by `error` (rad), or that takes it
    for 0, over bodies whose angles lie evenly around.
    """
    family, angles = TurnedMotors(4, 25), 2 * np.pi * np.arange(LIVES) / LIVES
    tasks = [family.sample_task(generator) for generator in generators(LIVES)]
    simulation = BodySimulation(family, LIVES)
    simulation.set_tasks(
        [{**task, "turn": angle} for task, angle in zip(tasks, angles, strict=True)]
    )
    believed = np.zeros(LIVES) if error is None else angles + error

    def act(observation: np.ndarray) -> np.ndarray:
        return turned(4.0 * observation[:, :2] - observation[:, 4:], -believed)

    return float(play_episodes(simulation, act, generators(LIVES), 4).mean_return.mean())


def test_who_knows_the_angle_arrives_and_who_does_not_gets_a_quarter():
    """Goals are 1.04 m away on average, so arriving is worth 13.0.

    With half of the angles steering arrives; with the others walls stop it. Measured over 256
    bodies: 13.3, -10.1 and 3.3.
    """
    assert mean_return(0.0) > 12.0
    assert mean_return(np.pi) < -8.0
    assert mean_return(None) < 5.0
