"""Tests epg_tf.tasks.point_goal against closed forms and against mj_step."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from epg_tf.tasks.bodies import State
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.point_goal import ARENA, PointGoal
from epg_tf.tasks.quantities import Task


def generators(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


def body(mass: float, damping: float, gains: tuple[float, float]) -> Task:
    """Returns the task of a body with these factors."""
    return {"mass": np.array(mass), "damping": np.array(damping), "gain": np.array(gains)}


def place(simulation: BodySimulation, qpos: list[float]) -> None:
    count = simulation.population
    simulation.reset(np.arange(count), generators(count))
    simulation.state.qpos[:] = qpos


def test_random_bodies_move_like_the_same_bodies_freshly_compiled():
    """Two axes, walls, frame skip and derived constants, against MuJoCo's compiler and mj_step."""
    family, count = PointGoal(3, 10**6), 8
    tasks = [family.sample_task(generator) for generator in generators(count)]
    simulation = BodySimulation(family, count)
    simulation.set_tasks(tasks)
    simulation.reset(np.arange(count), generators(count))
    models, datas = [], []
    for row, task in enumerate(map(family.fields, tasks)):
        spec = mujoco.MjSpec.from_file(str(family.model_file))
        spec.geom("body").mass = task["body_mass"][1]
        for axis, joint in enumerate(spec.joints):
            joint.damping = np.where(
                np.arange(np.size(joint.damping)) == 0, task["dof_damping"][axis], 0.0
            )
        for axis, actuator in enumerate(spec.actuators):
            actuator.gear = task["actuator_gear"][axis]
        models.append(spec.compile())
        np.testing.assert_allclose(models[row].body_inertia, task["body_inertia"], rtol=1e-12)
        datas.append(mujoco.MjData(models[row]))
        datas[row].qpos, datas[row].qvel = simulation.state.qpos[row], simulation.state.qvel[row]
    at_wall, action = 0, None
    generator = np.random.default_rng(9)
    for step in range(200):
        if step % 10 == 0:
            action = generator.uniform(-1.5, 1.5, (count, 2))
        simulation.step(action)
        for row, (model, data) in enumerate(zip(models, datas, strict=True)):
            data.ctrl = action[row]
            mujoco.mj_step(model, data, nstep=3)
            at_wall += data.nefc > 0
            np.testing.assert_allclose(simulation.state.qpos[row], data.qpos, rtol=0, atol=1e-9)
            np.testing.assert_allclose(simulation.state.qvel[row], data.qvel, rtol=0, atol=1e-9)
    assert at_wall > 50


def test_success_is_to_be_near_the_goal_and_ends_nothing():
    state = State(np.array([[0.06, 0.07], [0.06, 0.09]]), np.zeros((2, 2)), np.zeros((2, 2)))
    assert PointGoal(2, 50).succeeded(state).tolist() == [True, False]
    assert not PointGoal(2, 50).terminated(state).any()


@pytest.mark.parametrize("direction", [(1, 1), (-1, 1), (-1, -1), (1, -1)])
def test_walls_stop_the_body(direction):
    """The hardest case: lightest body, least damping, strongest motors, from wall to wall."""
    family = PointGoal(2, 10**6)
    simulation = BodySimulation(family, 1)
    simulation.set_tasks([body(0.5, 0.5, (2.0, 2.0))])
    place(simulation, [-ARENA * side for side in direction])
    deepest = 0.0
    for _ in range(200):
        simulation.step(np.array([direction], float))
        deepest = max(deepest, np.abs(simulation.state.qpos).max())
    assert deepest < 1.15 * ARENA  # limits are soft: measured 1.117
    np.testing.assert_allclose(simulation.state.qpos[0], np.array(direction) * ARENA, atol=0.01)
    np.testing.assert_allclose(simulation.state.qvel[0], 0.0, atol=1e-6)


def test_reward_is_minus_the_distance_after_the_step():
    family = PointGoal(2, 50)
    before = State(np.full((3, 2), 9.0), np.full((3, 2), 9.0), np.full((3, 2), 7.0))
    after = State(
        np.array([[0.0, 0.0], [0.3, 0.4], [-0.5, 1.0]]),
        np.full((3, 2), 9.0),
        np.array([[0.3, -0.4], [0.3, 0.4], [0.0, -0.2]]),
    )
    np.testing.assert_allclose(
        family.reward(before, after, np.ones((3, 2))), [-0.5, 0.0, -1.3], rtol=0, atol=1e-12
    )
    assert not family.terminated(after).any()


def test_observation_is_way_to_the_goal_position_and_velocity():
    state = State(np.array([[0.25, -0.5]]), np.array([[3.0, -4.0]]), np.array([[1.0, 0.5]]))
    np.testing.assert_array_equal(
        PointGoal(2, 50).observe(state), [[0.75, 1.0, 0.25, -0.5, 3.0, -4.0]]
    )


def test_every_episode_draws_body_and_goal_in_the_arena_at_rest():
    family = PointGoal(2, 50)
    simulation = BodySimulation(family, 2)
    simulation.set_tasks([family.sample_task(generator) for generator in generators(2)])
    resets, goals, places = generators(2), [], []
    for _ in range(300):
        observation = simulation.reset(np.arange(2), resets)
        goals.append(simulation.state.goal.copy())
        places.append(simulation.state.qpos.copy())
        np.testing.assert_array_equal(
            observation, family.observe(simulation.state).astype(np.float32)
        )
        np.testing.assert_array_equal(simulation.state.qvel, 0.0)
        simulation.step(np.ones((2, 2)))
        np.testing.assert_array_equal(
            simulation.state.goal, goals[-1]
        )  # stands still within the episode
    for drawn in (np.stack(goals), np.stack(places)):  # [episode, P, 2]
        assert len(np.unique(drawn)) == drawn.size
        assert np.abs(drawn).max() <= ARENA
        assert (drawn.min(axis=0) < -0.95).all() and (drawn.max(axis=0) > 0.95).all()
        np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=0.15)  # 4.5 deviations
    between = np.corrcoef(np.stack(goals)[:, 0].T, np.stack(places)[:, 0].T)
    assert np.abs(between - np.eye(4)).max() < 0.3
