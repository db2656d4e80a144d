"""Tests epg_tf.tasks.walker2d: RandomWalker by literal values and against bodies compiled by
MuJoCo.

Walker2d itself is held against Gymnasium's in test_gymnasium_oracle.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from epg_tf.tasks.quantities import Task
from epg_tf.tasks.walker2d import RandomWalker, Walker2d
from tests.tasks.compiled_bodies import assert_same_motion, assert_same_numbers, states

BOTH = pytest.mark.parametrize(
    "family", [Walker2d(4, 100), RandomWalker(4, 100)], ids=lambda family: family.name
)


def compiled(family: RandomWalker, task: Task) -> mujoco.MjModel:
    """Returns the body of `task` as MuJoCo's compiler makes it, inertia and all, from radii and
    masses.
    """
    spec = mujoco.MjSpec.from_file(str(family.model_file))
    spec.option.gravity = [0, 0, task["gravity"]]
    for geom in spec.geoms:
        number = family.model.geom(geom.name).id
        geom.friction = np.array(geom.friction) * task["friction"][number]
        if number:
            geom.mass = family.model.body_mass[number] * task["mass"][number - 1]
            geom.size = [geom.size[0] * task["radius"][number - 1], geom.size[1], 0.0]
    return spec.compile()


@pytest.mark.parametrize("task_range", ["training", "out_of_distribution"])
def test_every_number_of_a_random_walker_is_the_compilers(task_range):
    assert_same_numbers(RandomWalker(4, 100, task_range), compiled, list(range(4)))


def test_a_random_walker_moves_like_the_same_body_freshly_compiled():
    assert_same_motion(RandomWalker(4, 10**6), compiled, list(range(6)), "ncon")


def test_seven_links_and_the_floor_are_drawn():
    task = RandomWalker(4, 100).sample_task(np.random.default_rng(0))
    assert {name: np.size(value) for name, value in task.items()} == {
        "mass": 7,
        "friction": 8,
        "radius": 7,
        "gravity": 1,
    }


@BOTH
def test_an_episode_ends_when_the_torso_is_low_or_high_or_tilted(family):
    up, down = np.nextafter(0.8, 1), np.nextafter(2.0, 0)
    upright = np.nextafter(1.0, 0)
    rows = [
        [1.25, 0],
        [0.8, 0],
        [up, 0],
        [2.0, 0],
        [down, 0],
        [1.25, 1.0],
        [1.25, upright],
        [1.25, -1.0],
        [1.25, -upright],
        [np.nan, 0],
    ]
    ended = family.terminated(states([[5.0, height, tilt, *[9.0] * 6] for height, tilt in rows]))
    assert ended.tolist() == [False, True, False, True, False, True, False, True, False, True]


def test_reward_is_forward_velocity_alone():
    before = states([[1.0, 1.25, *[0] * 7]] * 3)  # 4 * 0.002 s per env step
    after = states([[1.02, 1.25, *[9] * 7], [0.98, 0.1, *[0] * 7], [1.0, 1.25, *[0] * 7]])
    found = RandomWalker(4, 100).reward(before, after, np.ones((3, 6)))
    np.testing.assert_allclose(found, [2.5, -2.5, 0.0], rtol=1e-12)


@BOTH
def test_observation_leaves_out_the_forward_position_and_clips_velocities(family):
    state = states([[7.0, 1, 2, 3, 4, 5, 6, 7, 8]], [[-11.0, 11, 10, -10, 0.5, 1e6, 0, 1, 2]])
    np.testing.assert_array_equal(
        family.observe(state), [[1, 2, 3, 4, 5, 6, 7, 8, -10, 10, 10, -10, 0.5, 10, 0, 1, 2]]
    )
