"""Tests epg_tf.tasks.hopper against Gymnasium's Hopper-v5 and against bodies compiled by MuJoCo."""

from __future__ import annotations

import gymnasium
import mujoco
import numpy as np
import pytest
from mujoco.batch import Batch

from epg_tf.tasks.bodies import State
from epg_tf.tasks.hopper import DirectionalHopper, Hopper, RandomHopper
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.quantities import Task
from tests.tasks.compiled_bodies import simulate


def data_at(model: mujoco.MjModel, simulation: BodySimulation, row: int) -> mujoco.MjData:
    data = mujoco.MjData(model)
    data.qpos, data.qvel = simulation.state.qpos[row], simulation.state.qvel[row]
    return data


def compiled(family: RandomHopper, task: Task) -> mujoco.MjModel:
    """Returns the body of `task` as MuJoCo's compiler makes it, inertia and all, from radii and
    masses.
    """
    spec = mujoco.MjSpec.from_file(str(RandomHopper.model_file))
    task = family.fields(task)
    spec.option.gravity = task["opt.gravity"]
    for geom in spec.geoms:
        number = family.model.geom(geom.name).id
        geom.friction = task["geom_friction"][number]
        if geom.type == mujoco.mjtGeom.mjGEOM_CAPSULE:
            geom.size = [task["geom_size"][number, 0], geom.size[1], 0.0]
            geom.mass = task["body_mass"][family.model.geom_bodyid[number]]
    return spec.compile()


@pytest.fixture
def gymnasium_hopper():
    """Gymnasium's own environment, without its time limit."""
    environment = gymnasium.make("Hopper-v5").unwrapped
    yield environment
    environment.close()


def test_without_randomization_it_is_gymnasiums_hopper_state_for_state(gymnasium_hopper):
    gymnasium_hopper.reset(seed=0)
    family = RandomHopper(gymnasium_hopper.frame_skip, 10**6, "nominal")
    assert family.frame_skip == 4
    simulation, _ = simulate(family, [3])
    gymnasium_hopper.set_state(simulation.state.qpos[0].copy(), simulation.state.qvel[0].copy())
    touching = 0
    # Gymnasium leaves clipping to MuJoCo, which clamps controls; so actions beyond the range are
    # part of the test.
    for action in np.random.default_rng(0).uniform(-1.3, 1.3, (200, 3)):
        observation, _, _, _, info = gymnasium_hopper.step(action)
        result = simulation.step(action[None])
        np.testing.assert_allclose(
            simulation.state.qpos[0], gymnasium_hopper.data.qpos, rtol=0, atol=1e-9
        )
        np.testing.assert_allclose(
            simulation.state.qvel[0], gymnasium_hopper.data.qvel, rtol=0, atol=1e-9
        )
        np.testing.assert_array_equal(result.observation[0], observation.astype(np.float32))
        np.testing.assert_allclose(result.reward[0], info["reward_forward"], rtol=1e-6, atol=1e-9)
        touching += gymnasium_hopper.data.ncon > 0
    assert touching > 20  # else the comparison says nothing about contacts


@pytest.mark.parametrize("frame_skip", [1, 2])
def test_frame_skip_counts_physics_steps(frame_skip):
    simulation, _ = simulate(RandomHopper(frame_skip, 1000, "nominal"), [3])
    model = mujoco.MjModel.from_xml_path(str(RandomHopper.model_file))
    data = data_at(model, simulation, 0)
    for action in np.random.default_rng(1).uniform(-1, 1, (200, 3)):
        data.ctrl, start = action, data.qpos[0]
        for _ in range(frame_skip):
            mujoco.mj_step(model, data)
        result = simulation.step(action[None])
        np.testing.assert_allclose(simulation.state.qpos[0], data.qpos, rtol=0, atol=1e-9)
        np.testing.assert_allclose(simulation.state.qvel[0], data.qvel, rtol=0, atol=1e-9)
        velocity = (data.qpos[0] - start) / (0.002 * frame_skip)
        np.testing.assert_allclose(result.reward[0], velocity, rtol=1e-6, atol=1e-6)


def test_a_randomised_body_moves_like_the_same_body_freshly_compiled():
    """Holds our inertia, bounding radius and all constants derived from them against MuJoCo's
    compiler.
    """
    family, seeds = RandomHopper(4, 10**6), list(range(8))
    simulation, tasks = simulate(family, seeds)
    models = [compiled(family, task) for task in tasks]
    datas = [data_at(model, simulation, row) for row, model in enumerate(models)]
    touching = np.zeros(len(seeds), int)
    for action in np.random.default_rng(2).uniform(-1, 1, (200, len(seeds), 3)):
        simulation.step(action)
        for row, (model, data) in enumerate(zip(models, datas, strict=True)):
            data.ctrl = action[row]
            mujoco.mj_step(model, data, nstep=4)
            np.testing.assert_allclose(simulation.state.qpos[row], data.qpos, rtol=0, atol=1e-9)
            np.testing.assert_allclose(simulation.state.qvel[row], data.qvel, rtol=0, atol=1e-9)
            touching[row] += data.ncon > 0
    assert (touching > 20).all()


def test_every_number_of_a_randomised_model_is_the_compilers():
    family = RandomHopper(4, 1000)
    tasks = [family.sample_task(np.random.default_rng(seed)) for seed in range(8)]
    batch = Batch(family.model, len(tasks), 1)
    for field in family.expanded:
        batch.expand(field)[:] = [family.fields(task)[field] for task in tasks]
    batch.set_const()
    compared = 0
    for row, task in enumerate(tasks):
        ours, theirs = batch.get_model(row), compiled(family, task)
        for name in dir(theirs):
            wanted = getattr(theirs, name)
            if isinstance(wanted, np.ndarray) and not name.startswith("_"):
                np.testing.assert_allclose(
                    getattr(ours, name), wanted, rtol=1e-9, atol=1e-12, err_msg=name
                )
                compared += 1
        np.testing.assert_allclose(ours.opt.gravity, theirs.opt.gravity, rtol=0, atol=0)
    assert compared > 8 * 200


def test_new_thickness_changes_inertia():
    """A body of the compiler's that ignores the radius would pass nothing above; this says what the
    draw is for.
    """
    family = RandomHopper(4, 1000)
    task = family.fields(family.sample_task(np.random.default_rng(0)))
    mass = task["body_mass"][1:] / family.model.body_mass[1:]
    ratio = task["body_inertia"][1:] / family.model.body_inertia[1:]
    assert (np.abs(ratio / mass[:, None] - 1) > 1e-3).any(axis=1).all()
    assert ratio.min(axis=1) != pytest.approx(ratio.max(axis=1))  # across and along differ


def states(*rows: list[float]) -> State:
    return State(np.array(rows, float), np.full((len(rows), 6), 100.0), np.zeros((len(rows), 0)))


def test_episode_ends_when_the_torso_is_low_or_tilted():
    above, under = np.nextafter(0.7, 1), np.nextafter(0.5, 0)
    ended = RandomHopper(2, 1000).terminated(
        states(
            [0, 1.25, 0, 9, 9, 9],
            [0, 0.7, 0, 0, 0, 0],
            [0, above, 0, 0, 0, 0],
            [0, 0.1, 0, 0, 0, 0],
            [0, 1.25, 0.5, 0, 0, 0],
            [0, 1.25, under, 0, 0, 0],
            [0, 1.25, -0.5, 0, 0, 0],
            [0, 1.25, -under, 0, 0, 0],
        )
    )
    assert ended.tolist() == [False, True, False, True, True, False, True, False]


def test_reward_is_forward_velocity():
    family = RandomHopper(2, 1000)  # 0.004 s per env step
    before = states([1.0, 1, 0, 0, 0, 0], [1.0, 1, 0, 0, 0, 0])
    after = states([1.02, 9, 9, 9, 9, 9], [0.98, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(
        family.reward(before, after, np.ones((2, 3))), [5.0, -5.0], rtol=1e-12
    )


def test_observation_leaves_out_the_forward_position_and_clips_velocities():
    state = State(
        np.array([[7.0, 1, 2, 3, 4, 5]]),
        np.array([[-11.0, 11, 10, -10, 0.5, 1e6]]),
        np.zeros((1, 0)),
    )
    observed = RandomHopper(2, 1000).observe(state)
    np.testing.assert_array_equal(observed, [[1, 2, 3, 4, 5, -10, 10, 10, -10, 0.5, 10]])


def test_start_is_upright_with_gymnasiums_noise():
    family = RandomHopper(2, 1000)
    generator = np.random.default_rng(0)
    starts = [family.start(generator, {}) for _ in range(300)]
    for values, middle in (
        (np.stack([start[0] for start in starts]), [0, 1.25, 0, 0, 0, 0]),
        (np.stack([start[1] for start in starts]), np.zeros(6)),
    ):
        assert np.abs(values - middle).max() <= 0.005
        assert (values.min(axis=0) < np.add(middle, -0.0045)).all()
        assert (values.max(axis=0) > np.add(middle, 0.0045)).all()


def test_direction_turns_the_reward_round():
    family = DirectionalHopper(2, 1000)
    after = State(
        np.array([[1.02, 9, 9, 9, 9, 9]] * 2),
        np.zeros((2, 6)),
        np.zeros((2, 0)),
        {"direction": np.array([1.0, -1.0])},
    )
    before = states([1.0, 1, 0, 0, 0, 0], [1.0, 1, 0, 0, 0, 0])
    np.testing.assert_allclose(
        family.reward(before, after, np.ones((2, 3))), [5.0, -5.0], rtol=1e-12
    )
    tilted = states([0, 1.25, 3.0, 0, 0, 0], [0, 0.7, 0, 0, 0, 0])
    assert family.terminated(tilted).tolist() == [False, True]


def test_a_directional_body_is_gymnasiums_unless_asked_otherwise():
    for task_range, same in (
        ("training", True),
        ("mass=0.5:2,gravity=-20:-2", False),
        ("out_of_distribution", False),
    ):
        family = DirectionalHopper(2, 1000, task_range)
        task = family.sample_task(np.random.default_rng(0))
        assert np.array_equal(family.fields(task)["body_mass"], family.model.body_mass) == same, (
            task_range
        )
        assert abs(float(task["direction"])) == 1.0


def test_a_healthy_hopper_may_be_anywhere_high():
    """Gymnasium bounds angles, joints and velocities, not the height."""
    slow = np.zeros((4, 6))
    slow[3, 5] = -100.0
    qpos = np.array(
        [[0, 101.0, 0, 0, 0, 0], [500, 1, 0.2, 0, 0, 0], [0, 1, 0, 0, 100.0, 0], [0, 1, 0, 0, 0, 0]]
    )
    state = State(qpos, slow, np.zeros((4, 0)))
    assert Hopper(4, 1000).terminated(state).tolist() == [False, True, True, True]
