"""Tests the papers' MuJoCo bodies: against bodies compiled by MuJoCo, and by literal values.

Plain families are held against Gymnasium's in test_gymnasium_oracle.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from epg_tf.tasks.half_cheetah import DirectionalHalfCheetah, HalfCheetah
from epg_tf.tasks.hopper import DirectionalHopper, Hopper, RandomHopper
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.reacher import RandomReacher, Reacher
from epg_tf.tasks.walker2d import RandomWalker, Walker2d
from tests.tasks import compiled_bodies
from tests.tasks.compiled_bodies import assert_same_motion, assert_same_numbers, simulate, states

pytestmark = pytest.mark.filterwarnings(
    "ignore:compiler attribute 'settotalmass'"
)  # said by MjSpec in Python

COMPILED = {
    RandomHopper: compiled_bodies.walker,
    RandomWalker: compiled_bodies.walker,
    DirectionalHalfCheetah: compiled_bodies.cheetah,
    RandomReacher: compiled_bodies.arm,
    PointGoal: compiled_bodies.point,
}


@pytest.mark.parametrize("task_range", ["training", "out_of_distribution"])
@pytest.mark.parametrize("kind", COMPILED)
def test_every_number_of_a_random_body_is_the_compilers(kind, task_range):
    """Inertia, bounding radius and all constants that are derived from them."""
    assert_same_numbers(kind(4, 100, task_range), COMPILED[kind], list(range(4)))


@pytest.mark.parametrize(
    ("family", "active", "steps"),
    [
        (RandomHopper(4, 10**6), "ncon", 200),
        (RandomHopper(1, 10**6, "nominal"), "ncon", 400),  # frame skip counts physics steps
        (RandomWalker(4, 10**6), "ncon", 200),
        (RandomReacher(2, 10**6), "nefc", 200),
        (DirectionalHalfCheetah(5, 10**6, "out_of_distribution"), "ncon", 50),  # rounding grows
        (PointGoal(3, 10**6), "nefc", 200),
    ],
)
def test_a_random_body_moves_like_the_same_body_freshly_compiled(family, active, steps):
    held = 10 if type(family) is PointGoal else 1  # so that it comes to the walls
    assert_same_motion(family, COMPILED[type(family)], active, steps, held)


UP, DOWN, UPRIGHT, TILTED = (
    np.nextafter(*pair) for pair in ((0.7, 1), (2.0, 0), (1.0, 0), (0.5, 0))
)
ENDS = {  # family: (height, tilt), whether an episode ends there
    RandomHopper: [
        *[(1.25, 0.0, False), (0.7, 0.0, True), (UP, 0.0, False), (1.25, 0.5, True)],
        *[(1.25, TILTED, False), (1.25, -0.5, True), (1.25, -TILTED, False)],
    ],
    DirectionalHopper: [(1.25, 3.0, False), (0.7, 0.0, True)],
    Hopper: [(101.0, 0.0, False), (1.0, 0.2, True)],  # any height is healthy
    RandomWalker: [
        *[(1.25, 0.0, False), (0.8, 0.0, True), (np.nextafter(0.8, 1), 0.0, False)],
        *[(2.0, 0.0, True), (DOWN, 0.0, False), (1.25, 1.0, True), (1.25, UPRIGHT, False)],
        *[(1.25, -1.0, True), (1.25, -UPRIGHT, False), (np.nan, 0.0, True)],
    ],
    DirectionalHalfCheetah: [(-5.0, np.pi, False)],
}
ENDS[Walker2d] = ENDS[RandomWalker]


@pytest.mark.parametrize("kind", ENDS)
def test_an_episode_ends_when_the_torso_is_low_high_or_tilted(kind):
    family = kind(4, 100)
    rest = [9.0] * (family.model.nq - 3)
    qpos = [[5.0, height, tilt, *rest] for height, tilt, _ in ENDS[kind]]
    ended = family.terminated(states(qpos, 9.0, family.model.nv))
    assert ended.tolist() == [end for *_, end in ENDS[kind]]


def test_a_healthy_hopper_has_no_joint_or_velocity_out_of_range():
    qvel = np.zeros((2, 6))
    qvel[1, 5] = -100.0
    state = states([[0, 1, 0, 0, 100.0, 0], [0, 1, 0, 0, 0, 0]], qvel)
    assert Hopper(4, 1000).terminated(state).tolist() == [True, True]


EFFORT = [[1.0] * 6, [1.0] * 6, [0.5, 0, 0, 0, 0, -0.5]]


@pytest.mark.parametrize(
    ("family", "task", "moved", "rewards"),
    [
        (RandomHopper(2, 100), {}, [0.02, -0.02, 0.0], [5.0, -5.0, 0.0]),  # in 0.004 s
        (DirectionalHopper(2, 100), {"direction": [1, -1, -1]}, [0.02] * 3, [5.0, -5.0, -5.0]),
        (RandomWalker(4, 100), {}, [0.02, -0.02, 0.0], [2.5, -2.5, 0.0]),  # in 0.008 s
        (HalfCheetah(5, 100), {}, [0.1] * 3, [1.4, 1.4, 1.95]),  # in 0.05 s, less effort
        (
            DirectionalHalfCheetah(5, 100),
            {"direction": [1, -1, -1]},
            [0.1] * 3,
            [1.7, -2.3, -2.025],
        ),
    ],
)
def test_reward_is_velocity_in_the_tasks_direction(family, task, moved, rewards):
    rest = [0.0] * (family.model.nq - 1)
    before = states([[1.0, *rest]] * 3)
    after = states([[1.0 + way, *np.add(rest, 9.0)] for way in moved], 9.0, family.model.nv, task)
    action = np.array(EFFORT)[:, : family.action_size]
    np.testing.assert_allclose(family.reward(before, after, action), rewards, atol=1e-9)


@pytest.mark.parametrize("kind", [RandomHopper, Walker2d, RandomWalker, DirectionalHalfCheetah])
def test_observation_leaves_out_the_forward_position_and_walkers_clip_velocities(kind):
    family = kind(4, 100)
    qpos, qvel = np.arange(7.0, 7.0 + family.model.nq), np.linspace(-11.0, 12.0, family.model.nv)
    seen = qvel if kind is DirectionalHalfCheetah else np.clip(qvel, -10.0, 10.0)
    np.testing.assert_array_equal(family.observe(states([qpos], [qvel])), [[*qpos[1:], *seen]])


def test_a_directional_body_is_gymnasiums_unless_asked_otherwise():
    for task_range, same in (
        ("training", True),
        ("mass=0.5:2,gravity=-20:-2", False),
        ("out_of_distribution", False),
    ):
        family = DirectionalHopper(2, 1000, task_range)
        task = family.sample_task(np.random.default_rng(0))
        given = family.fields(task)["body_mass"]
        assert np.array_equal(given, family.model.body_mass) == same, task_range
    tasks = [
        DirectionalHalfCheetah(5, 100).sample_task(np.random.default_rng(seed))
        for seed in range(40)
    ]
    assert {(float(task["mass"]), float(task["friction"])) for task in tasks} == {(1.0, 1.0)}


def test_gymnasiums_file_is_loaded_without_a_word_and_a_broken_one_is_refused(
    capfd, tmp_path, monkeypatch
):
    """MuJoCo would call an attribute deprecated, on the terminal and in a file."""
    monkeypatch.chdir(tmp_path)
    HalfCheetah(5, 100)
    assert capfd.readouterr() == ("", "") and not list(tmp_path.iterdir())

    class Broken(HalfCheetah):
        """Its file is none."""

        model_file = tmp_path / "broken.xml"

    Broken.model_file.write_text('<mujoco><worldbody><geom size="-1"/></worldbody></mujoco>')
    with pytest.raises(ValueError, match="size 0 must be positive"):
        Broken(5, 100)


@pytest.mark.parametrize(
    ("angles", "length", "fingertip"),
    [
        ([0, 0], [1, 1], [0.21, 0]),
        ([0, np.pi / 2], [1, 1], [0.1, 0.11]),
        ([np.pi / 2, np.pi / 2], [2, 0.5], [-0.06, 0.2]),
        ([np.pi, -np.pi / 2], [0.5, 1.5], [-0.05, 0.16]),
    ],
)
def test_an_arms_reward_is_minus_the_distance_in_the_plane(angles, length, fingertip):
    """And nothing else: no effort. Also: what is observed, literally."""
    family = RandomReacher(2, 50)
    target = np.add(fingertip, [0.03, -0.04])
    state = states([[*angles, *target]], [[5, -6, 0, 0]], task={"length": [length]})
    np.testing.assert_allclose(family.reward(state, state, np.ones((1, 2))), [-0.05], rtol=1e-12)
    wanted = [*np.cos(angles), *np.sin(angles), *target, 5, -6, -0.03, 0.04]
    np.testing.assert_allclose(family.observe(state), [wanted], rtol=0, atol=1e-12)


def test_an_arm_is_near_within_two_centimetres():
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


@pytest.mark.parametrize("length", [[1.0, 1.0], [0.5, 2.0], [2.0, 2.0]])
def test_targets_are_uniform_over_the_disc_the_arm_can_reach(length):
    family, generator = RandomReacher(2, 50), np.random.default_rng(0)
    reach = 0.1 * sum(length) + 0.01
    starts = [family.start(generator, {"length": np.array(length)}) for _ in range(4000)]
    targets = np.stack([start[0][2:] for start in starts])
    radius = np.linalg.norm(targets, axis=1)
    assert 0.995 * reach < radius.max() <= reach
    squares = np.histogram((radius / reach) ** 2, bins=5, range=(0, 1))[0] / 4000  # are uniform
    np.testing.assert_allclose(squares, 0.2, atol=0.025)
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
    reward = family.reward(state, state, np.array([[1.0, 0.5]]))
    np.testing.assert_allclose(reward, [-0.7 - 1.25], rtol=1e-12)
    np.testing.assert_allclose(family.observe(state)[0, 8:], [0.2, 0.3], rtol=1e-12)
