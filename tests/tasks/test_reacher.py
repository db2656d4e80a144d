"""Tests epg_tf.tasks.reacher: RandomReacher by literal values and against arms compiled by MuJoCo.

Reacher itself is held against Gymnasium's in test_gymnasium_oracle.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.quantities import Task
from epg_tf.tasks.reacher import RandomReacher, Reacher
from tests.tasks.compiled_bodies import assert_same_motion, assert_same_numbers, simulate, states

LENGTHS = [[1.0, 1.0], [0.5, 2.0], [2.0, 2.0]]


def compiled(family: RandomReacher, task: Task) -> mujoco.MjModel:
    """Returns the arm of `task` as MuJoCo's compiler makes it, masses and all, from lengths;
    armature stays.
    """
    spec = mujoco.MjSpec.from_file(str(family.model_file))
    first, second = 0.1 * task["length"]
    spec.geom("link0").fromto = [0, 0, 0, first, 0, 0]
    spec.geom("link1").fromto = [0, 0, 0, second, 0, 0]
    spec.body("body1").pos = [first, 0, 0]
    spec.body("fingertip").pos = [second + 0.01, 0, 0]
    for name in ("target_x", "target_y"):
        spec.joint(name).range = [
            -max(first + second + 0.01, 0.27),
            max(first + second + 0.01, 0.27),
        ]
    return spec.compile()


@pytest.mark.parametrize("task_range", ["training", "out_of_distribution", "nominal"])
def test_every_number_of_a_random_arm_is_the_compilers(task_range):
    assert_same_numbers(RandomReacher(2, 50, task_range), compiled, list(range(4)))


def test_a_random_arm_moves_like_the_same_arm_freshly_compiled():
    assert_same_motion(RandomReacher(2, 10**6), compiled, list(range(6)), "nefc")


def test_tasks_are_lengths_and_draw_both():
    family = RandomReacher(2, 50)
    lengths = np.stack(
        [family.sample_task(np.random.default_rng(seed))["length"] for seed in range(200)]
    )
    assert lengths.shape == (200, 2) and 0.5 <= lengths.min() < 0.52 and 1.48 < lengths.max() <= 1.5
    assert abs(np.corrcoef(lengths.T)[0, 1]) < 0.25
    longer = RandomReacher(2, 50, "out_of_distribution").sample_task(np.random.default_rng(0))[
        "length"
    ]
    assert (longer >= 1.6).all() and (longer <= 2.0).all()


@pytest.mark.parametrize(
    ("angles", "length", "fingertip"),
    [
        ([0, 0], [1, 1], [0.21, 0]),
        ([0, np.pi / 2], [1, 1], [0.1, 0.11]),
        ([np.pi / 2, np.pi / 2], [2, 0.5], [-0.06, 0.2]),
        ([np.pi, -np.pi / 2], [0.5, 1.5], [-0.05, 0.16]),
    ],
)
def test_reward_is_minus_the_distance_in_the_plane(angles, length, fingertip):
    """And nothing else: no effort. Also: what is observed, literally."""
    family = RandomReacher(2, 50)
    target = np.add(fingertip, [0.03, -0.04])
    state = states([[*angles, *target]], [[5, -6, 0, 0]], task={"length": [length]})
    np.testing.assert_allclose(family.reward(state, state, np.ones((1, 2))), [-0.05], rtol=1e-12)
    wanted = [*np.cos(angles), *np.sin(angles), *target, 5, -6, -0.03, 0.04]
    np.testing.assert_allclose(family.observe(state), [wanted], rtol=0, atol=1e-12)


def test_near_is_within_two_centimetres():
    family = RandomReacher(2, 50)
    gaps = 0.0, 0.0199, 0.0201, -0.0199, -0.0201
    state = states([[0, 0, 0.21 + gap, 0] for gap in gaps], task={"length": [[1.0, 1.0]] * 5})
    assert family.succeeded(state).tolist() == [True, True, False, True, False]
    assert family.goal_reaching and not family.terminated(state).any()


def test_the_fingertip_is_where_mujoco_has_it_in_the_state_reached():
    """Not one physics step behind, as Gymnasium's is."""
    simulation, _ = simulate(RandomReacher(2, 50), list(range(5)))
    for action in np.random.default_rng(1).uniform(-1, 1, (30, 5, 2)):
        result = simulation.step(action)
        for row in range(5):
            model = simulation.model(row)
            data = mujoco.MjData(model)
            data.qpos = simulation.state.qpos[row]
            mujoco.mj_kinematics(model, data)
            offset = (data.body("fingertip").xpos - data.body("target").xpos)[:2]
            np.testing.assert_allclose(result.observation[row, 8:], offset, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(result.reward[row], -np.linalg.norm(offset), rtol=1e-6)
    assert (np.abs(simulation.state.qpos[:, :2]).max(axis=1) > 1.0).all()  # they have moved


@pytest.mark.parametrize("length", LENGTHS)
def test_targets_are_uniform_over_the_disc_the_arm_can_reach(length):
    family, generator = RandomReacher(2, 50), np.random.default_rng(0)
    reach = 0.1 * sum(length) + 0.01
    starts = [family.start(generator, {"length": np.array(length)}) for _ in range(4000)]
    targets = np.stack([start[0][2:] for start in starts])
    radius = np.linalg.norm(targets, axis=1)
    assert 0.995 * reach < radius.max() <= reach
    shares = (
        np.histogram((radius / reach) ** 2, bins=5, range=(0, 1))[0] / 4000
    )  # squares of radii are uniform
    np.testing.assert_allclose(shares, 0.2, atol=0.025)
    quadrants = np.histogram(np.arctan2(*targets.T), bins=4, range=(-np.pi, np.pi))[0] / 4000
    np.testing.assert_allclose(quadrants, 0.25, atol=0.03)


def test_a_target_is_new_every_episode_and_stays_where_it_is_even_far_out():
    """In Gymnasium's model a limit at 0.27 m would push it back."""
    family = RandomReacher(2, 50)
    simulation = BodySimulation(family, 1)
    simulation.set_tasks([family.complete_task({"length": [2.0, 2.0]})])
    generators, one = [np.random.default_rng(3)], np.array([0])
    simulation.reset(one, generators)
    first = simulation.state.qpos[0, 2:].copy()
    simulation.next_episode(one, generators)
    assert (simulation.state.qpos[0, 2:] != first).all()
    simulation.state.qpos[0, 2:] = 0.4, 0.0
    for action in np.random.default_rng(0).uniform(-1, 1, (50, 1, 2)):
        simulation.step(action)
    np.testing.assert_array_equal(simulation.state.qpos[0, 2:], [0.4, 0.0])


def test_gymnasiums_distance_has_three_dimensions_and_its_observation_two():
    """They are of equal height in its arena, so Gymnasium's own environment cannot tell."""
    family = Reacher(2, 50)
    places = np.zeros((1, 5, 3))
    places[0, 3], places[0, 4] = [0.3, 0.6, 0.7], [0.1, 0.3, 0.1]  # fingertip, target
    state = states([[0, 0, 0.1, 0.3]], sensed={"xpos": places})
    np.testing.assert_allclose(
        family.reward(state, state, np.array([[1.0, 0.5]])), [-0.7 - 1.25], rtol=1e-12
    )
    np.testing.assert_allclose(family.observe(state)[0, 8:], [0.2, 0.3], rtol=1e-12)
