"""Tests epg_tf.tasks.ant: GoalAnt and its kin; Ant itself is held against Gymnasium's in
test_gymnasium_oracle.
"""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.tasks.ant import Ant, ForwardBackwardAnt, GoalAnt, GoalAntNoReset
from epg_tf.tasks.physics import BodySimulation
from tests.tasks.compiled_bodies import states

ONE = np.array([0])
ZEROS = [0.0] * 12


def at(
    *places: tuple[float, float], height: float = 0.75, bearing: float = 0.0, distance: float = 10.0
):
    """Returns states of ants standing at (x, y)."""
    task = {"bearing": np.full(len(places), bearing), "distance": np.full(len(places), distance)}
    return states([[x, y, height, *ZEROS] for x, y in places], 0.0, 14, task)


def simulation_of(family, task, seed=0):
    """Returns one simulation at the start of an episode."""
    simulation = BodySimulation(family, 1)
    simulation.set_tasks([family.complete_task(task)])
    simulation.reset(ONE, [np.random.default_rng(seed)])
    return simulation


def drawn(family, name, count=200):
    return np.array(
        [float(family.sample_task(np.random.default_rng(seed))[name]) for seed in range(count)]
    )


def test_goals_are_to_the_right_in_training_and_to_the_left_out_of_distribution():
    for task_range, sign in (("training", 1), ("out_of_distribution", -1)):
        family = GoalAnt(5, 100, task_range)
        bearing = drawn(family, "bearing")
        assert (
            (np.sign(np.cos(bearing)) == sign).all()
            and np.ptp(bearing) > 3.0
            and np.ptp(bearing) < np.pi
        )
        distance, rotation = drawn(family, "distance"), drawn(family, "rotation")
        assert 5 <= distance.min() < 5.1 and 9.9 < distance.max() <= 10
        assert -np.pi <= rotation.min() < -3 and 3 < rotation.max() <= np.pi


def test_forward_backward_goals_are_either():
    assert set(drawn(ForwardBackwardAnt(5, 100), "bearing")) == {0.0, np.pi}
    assert set(drawn(ForwardBackwardAnt(5, 100, "out_of_distribution"), "bearing")) == {
        -np.pi / 2,
        np.pi / 2,
    }
    assert np.ptp(drawn(ForwardBackwardAnt(5, 100), "rotation")) > 6  # the rest is GoalAnt's


@pytest.mark.parametrize(
    ("bearing", "distance", "start", "end", "reward"),
    [
        (0, 10, (0, 0), (0.1, 0), 2.0),  # 5 * 0.01 s per env step
        (np.pi, 10, (0, 0), (0.1, 0), -2.0),
        (np.pi / 2, 5, (0, 0), (0.1, 0.05), 1.0),
        (0, 10, (10, -3), (10.2, -2.9), 2.0),  # the goal is straight up from there
        (0, 10, (6, 3), (6.4, 2.7), 10.0),
        (0, 10, (12, 0), (12.1, 0), -2.0),
        (0, 10, (10, 0), (11, 0), 0.0),
    ],
)
def test_reward_is_velocity_towards_the_goal(bearing, distance, start, end, reward):
    """Whatever the height, the heading and the effort."""
    before, after = at(start, bearing=bearing, distance=distance), at(end, height=0.1)
    found = GoalAnt(5, 100).reward(before, after, np.ones((1, 8)))
    np.testing.assert_allclose(found, [reward], atol=1e-12)


def test_success_is_within_half_a_metre_and_place_is_on_the_ground():
    state = at((10, 0), (9.51, 0), (9.49, 0), (10, -0.49), (10.4, 0.4), (0, 0))
    for family in (GoalAnt(5, 100), GoalAntNoReset(5, 100)):
        assert family.succeeded(state).tolist() == [True, True, False, True, False, False]
        np.testing.assert_array_equal(family.place(state), state.qpos[:, :2])
        assert not np.shares_memory(family.place(state), state.qpos)
    assert not GoalAnt(5, 100).terminated(state).any()


def test_ants_end_when_low_or_high():
    heights = [0.2, np.nextafter(0.2, 0), 1.0, np.nextafter(1.0, 2), 0.75, np.nan]
    task = {"bearing": np.zeros(6), "distance": np.full(6, 9.0)}
    state = states([[0, 0, height, *ZEROS] for height in heights], 0.0, 14, task)
    for family in (Ant(5, 100), GoalAnt(5, 100), ForwardBackwardAnt(5, 100)):
        assert family.terminated(state).tolist() == [False, True, False, True, False, True]
    assert not GoalAntNoReset(5, 100).terminated(state).any()


def test_neither_goal_nor_place_is_observed():
    qpos, qvel = np.arange(15.0), np.arange(20.0, 34.0)
    for bearing, place in ((0.0, (0, 1)), (2.0, (5, 6))):
        state = states(
            [[*place, *qpos[2:]]], [qvel], task={"bearing": [bearing], "distance": [5.0]}
        )
        np.testing.assert_array_equal(GoalAnt(5, 100).observe(state), [[*qpos[2:], *qvel]])


def turned(angle, qpos, qvel):
    """Returns a state turned about the vertical axis through the origin: NumPy alone, quaternions
    as products.
    """
    c, s = np.cos(angle), np.sin(angle)
    w, x, y, z = qpos[3:7]
    half = np.cos(angle / 2), np.sin(angle / 2)
    quaternion = [
        half[0] * w - half[1] * z,
        half[0] * x - half[1] * y,
        half[0] * y + half[1] * x,
        half[0] * z + half[1] * w,
    ]
    return (
        np.array(
            [c * qpos[0] - s * qpos[1], s * qpos[0] + c * qpos[1], qpos[2], *quaternion, *qpos[7:]]
        ),
        np.array([c * qvel[0] - s * qvel[1], s * qvel[0] + c * qvel[1], *qvel[2:]]),
    )


def test_a_rotated_ant_moves_the_same_in_its_own_eyes():
    """A quarter turn, for MuJoCo's friction pyramids are no rounder than that."""
    plain, rotated = (
        simulation_of(GoalAnt(5, 1000), {"rotation": turn, "bearing": turn})
        for turn in (0.0, np.pi / 2)
    )
    lowest = 1.0
    for action in np.random.default_rng(1).uniform(-1, 1, (60, 1, 8)):
        results = [simulation.step(action) for simulation in (plain, rotated)]
        wanted = turned(np.pi / 2, plain.state.qpos[0], plain.state.qvel[0])
        np.testing.assert_allclose(rotated.state.qpos[0], wanted[0], rtol=0, atol=1e-6)
        np.testing.assert_allclose(rotated.state.qvel[0], wanted[1], rtol=0, atol=1e-5)
        np.testing.assert_allclose(
            results[0].reward, results[1].reward, rtol=0, atol=1e-5
        )  # goals are turned too
        lowest = min(lowest, plain.state.qpos[0, 2])
    assert lowest < 0.6 and np.abs(plain.state.qpos[0, :2]).max() > 0.1  # it has landed and moved


def test_without_resets_the_state_goes_on_to_the_bit_when_time_is_up():
    """Episodes of 7 steps are the same life as one without a limit; the observation is that of the
    state.
    """
    cut, whole = (
        simulation_of(GoalAntNoReset(5, limit), {"distance": 4.0}) for limit in (7, 10**6)
    )
    truncations = 0
    for action in np.random.default_rng(2).uniform(-1, 1, (50, 1, 8)):
        one, other = cut.step(action), whole.step(action)
        np.testing.assert_array_equal(one.observation, other.observation)
        assert (
            one.reward == other.reward
            and not (one.terminated | other.terminated | other.truncated).any()
        )
        if one.truncated[0]:
            truncations += 1
            np.testing.assert_array_equal(cut.next_episode(ONE, [None]), one.observation)
        for name in ("qpos", "qvel"):
            np.testing.assert_array_equal(getattr(cut.state, name), getattr(whole.state, name))
    assert truncations == 7


@pytest.mark.parametrize("family", [GoalAnt, GoalAntNoReset])
def test_reaching_the_goal_ends_an_episode_without_resets_alone_and_then_it_starts_afresh(family):
    simulation = simulation_of(family(5, 7), {"distance": 4.0})
    simulation.state.qpos[0, :2] = 3.8, 0.1
    result = simulation.step(np.zeros((1, 8)))
    assert (
        result.success[0]
        and result.terminated[0] == (family is GoalAntNoReset)
        and not result.truncated[0]
    )
    generator = np.random.default_rng(5)
    simulation.next_episode(ONE, [generator])
    start = simulation.family.start(
        np.random.default_rng(5), simulation.family.complete_task({"distance": 4.0})
    )
    np.testing.assert_array_equal(simulation.state.qpos[0], start[0])
    np.testing.assert_array_equal(simulation.state.qvel[0], start[1])
    assert np.abs(simulation.state.qpos[0, :2]).max() < 0.2
