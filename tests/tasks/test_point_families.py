"""Tests PointGoal, HiddenGoal and TurnedMotors: what pays, what is seen, and what agents can and
cannot get. The body itself is held against MuJoCo's compiler in test_bodies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from epg_tf.tasks.bodies import State
from epg_tf.tasks.episodes import play_episodes
from epg_tf.tasks.hidden_goal import HiddenGoal
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.point_goal import ARENA, PointGoal
from epg_tf.tasks.turned_motors import TurnedMotors
from tests.tasks.compiled_bodies import states

LIVES = 256
ANGLES = 2 * np.pi * np.arange(LIVES) / LIVES
DIRECTIONS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


def generators(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


def at(places: object, goals: object, velocity: float = 9.0) -> State:
    """Returns states at places [P, 2], with goals [P, 2]."""
    places = np.array(places, float)
    return State(places, np.full(places.shape, velocity), np.array(goals, float))


def test_success_is_to_be_near_the_goal_and_ends_nothing():
    state = at([[0.06, 0.07], [0.06, 0.09]], np.zeros((2, 2)))
    assert PointGoal(2, 50).succeeded(state).tolist() == [True, False]
    assert not PointGoal(2, 50).terminated(state).any()


@pytest.mark.parametrize("direction", [(1, 1), (-1, 1), (-1, -1), (1, -1)])
def test_walls_stop_the_body(direction):
    """The hardest case: lightest body, least damping, strongest motors, from wall to wall."""
    family = PointGoal(2, 10**6)
    simulation = BodySimulation(family, 1)
    simulation.set_tasks([family.complete_task({"mass": 0.5, "damping": 0.5, "gain": 2.0})])
    simulation.reset(np.arange(1), generators(1))
    simulation.state.qpos[:] = [-ARENA * side for side in direction]
    deepest = 0.0
    for _ in range(200):
        simulation.step(np.array([direction], float))
        deepest = max(deepest, np.abs(simulation.state.qpos).max())
    assert deepest < 1.15 * ARENA  # limits are soft: measured 1.117
    np.testing.assert_allclose(simulation.state.qpos[0], np.array(direction) * ARENA, atol=0.01)
    np.testing.assert_allclose(simulation.state.qvel[0], 0.0, atol=1e-6)


def test_reward_of_point_goal_is_minus_the_distance_after_the_step():
    before = at(np.full((3, 2), 9.0), np.full((3, 2), 7.0))
    after = at([[0.0, 0.0], [0.3, 0.4], [-0.5, 1.0]], [[0.3, -0.4], [0.3, 0.4], [0.0, -0.2]])
    found = PointGoal(2, 50).reward(before, after, np.ones((3, 2)))
    np.testing.assert_allclose(found, [-0.5, 0.0, -1.3], rtol=0, atol=1e-12)


def test_observation_is_way_to_the_goal_position_and_velocity():
    state = State(np.array([[0.25, -0.5]]), np.array([[3.0, -4.0]]), np.array([[1.0, 0.5]]))
    wanted = [[0.75, 1.0, 0.25, -0.5, 3.0, -4.0]]
    np.testing.assert_array_equal(PointGoal(2, 50).observe(state), wanted)


def test_every_episode_draws_body_and_goal_in_the_arena_at_rest():
    family = PointGoal(2, 50)
    simulation = BodySimulation(family, 2)
    simulation.set_tasks([family.sample_task(generator) for generator in generators(2)])
    resets, goals, places = generators(2), [], []
    for _ in range(300):
        simulation.reset(np.arange(2), resets)
        goals.append(simulation.state.goal.copy())
        places.append(simulation.state.qpos.copy())
        np.testing.assert_array_equal(simulation.state.qvel, 0.0)
        simulation.step(np.ones((2, 2)))
        np.testing.assert_array_equal(simulation.state.goal, goals[-1])  # stands still
    for drawn in (np.stack(goals), np.stack(places)):  # [episode, P, 2]
        assert len(np.unique(drawn)) == drawn.size
        assert np.abs(drawn).max() <= ARENA
        assert (drawn.min(axis=0) < -0.95).all() and (drawn.max(axis=0) > 0.95).all()
        np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=0.15)  # 4.5 deviations
    between = np.corrcoef(np.stack(goals)[:, 0].T, np.stack(places)[:, 0].T)
    assert np.abs(between - np.eye(4)).max() < 0.3


@pytest.mark.parametrize(
    ("direction", "reward"),
    [
        (0.0, 1.25),  # 0.1 m nearer in 0.08 s
        (np.pi, -1.25),
        (np.pi / 2, -0.07782218537),  # (0.8 - sqrt(0.65)) / 0.08
    ],
)
def test_reward_of_hidden_goal_is_the_velocity_towards_the_goal(direction, reward):
    task = {"direction": [direction]}
    before, after = (states([[x, 0.0]], 9.0, 2, task) for x in (0.0, 0.1))
    found = HiddenGoal(4, 25).reward(before, after, np.ones((1, 2)))
    np.testing.assert_allclose(found, [reward], rtol=1e-9)


def test_reward_of_turned_motors_is_the_velocity_towards_the_goal():
    goals = [[0.5, 0.0], [0.0, 0.4]]
    before, after = (at([[x, 0.0]] * 2, goals) for x in (0.0, 0.3))
    reward = TurnedMotors(4, 25).reward(before, after, np.ones((2, 2)))
    np.testing.assert_allclose(reward, [3.75, -1.25])  # 0.3 m nearer, 0.1 m farther, in 0.08 s


def test_observations_do_not_depend_on_a_hidden_goal_but_rewards_do():
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
        simulation.reset(np.arange(8), generators(8))
        for action in np.random.default_rng(0).uniform(-2, 2, (50, 8, 2)):
            observation = simulation.step(action).observation
        pair.append(observation)
    np.testing.assert_allclose(pair[0], pair[1], rtol=0, atol=1e-6)


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


Act = Callable[[np.ndarray], np.ndarray]


def mean_return(family: PointGoal, quantity: str, act: Act, episodes: int) -> float:
    """Returns the mean return over random bodies of which one quantity lies evenly around."""
    tasks = [family.sample_task(generator) for generator in generators(LIVES)]
    simulation = BodySimulation(family, LIVES)
    simulation.set_tasks(
        [{**task, quantity: angle} for task, angle in zip(tasks, ANGLES, strict=True)]
    )
    return float(play_episodes(simulation, act, generators(LIVES), episodes).mean_return.mean())


def hidden_return(act: Act) -> float:
    return mean_return(HiddenGoal(4, 25), "direction", act, 2)


def steer(observation: np.ndarray, goals: np.ndarray) -> np.ndarray:
    return 10.0 * (goals - observation[:, :2]) - observation[:, 2:]


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
def test_no_fixed_policy_is_better_than_standing_still_where_the_goal_is_hidden(act):
    assert hidden_return(act) < 0.05


def test_who_knows_the_goal_gets_nearly_all_and_who_knows_another_loses():
    for turn, low, high in ((0, 9.9, 10.1), (2, -11.0, -9.5), (4, -4.5, -3.5)):  # of 10
        goals = 0.8 * np.roll(DIRECTIONS, LIVES // turn if turn else 0, axis=0)
        assert low < hidden_return(lambda seen, goals=goals: steer(seen, goals)) < high


def turned_return(believed: np.ndarray) -> float:
    """Returns what steering gets that believes in angles [LIVES]."""

    def act(observation: np.ndarray) -> np.ndarray:
        push = 4.0 * observation[:, :2] - observation[:, 4:]
        numbers = (push[:, 0] + 1j * push[:, 1]) * np.exp(-1j * believed)
        return np.stack([numbers.real, numbers.imag], axis=1)

    return mean_return(TurnedMotors(4, 25), "turn", act, 4)


def test_who_knows_the_angle_arrives_and_who_does_not_gets_a_quarter():
    """Goals are 1.04 m away on average, so arriving is worth 13.0.

    With half of the angles steering arrives; with the others walls stop it. Measured over 256
    bodies: 13.3, -10.1 and 3.3.
    """
    assert turned_return(ANGLES) > 12.0
    assert turned_return(ANGLES + np.pi) < -8.0
    assert turned_return(np.zeros(LIVES)) < 5.0
