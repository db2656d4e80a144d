"""Tests epg_tf.tasks.fetch against Gymnasium-Robotics' FetchReach."""

from __future__ import annotations

import importlib.util
import itertools
import types

import mujoco
import numpy as np
import pytest
from mujoco.batch import Batch

from epg_tf.core.errors import ConfigError
from epg_tf.tasks.fetch import FetchReach
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

STEP = 0.04  # s, of 20 physics steps


def generators(count: int, offset: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng(seed + offset) for seed in range(count)]


def simulate(family: FetchReach, count: int) -> BodySimulation:
    """Returns simulations in their first episodes."""
    simulation = BodySimulation(family, count)
    simulation.set_tasks([family.sample_task(generator) for generator in generators(count)])
    simulation.reset(np.arange(count), generators(count, 100))
    return simulation


def random_actions(steps: int, count: int) -> np.ndarray:
    """Returns [steps, count, 4]; those of a simulation do not depend on how many there are."""
    return np.stack(
        [generator.uniform(-1.3, 1.3, (steps, 4)) for generator in generators(count, 200)], axis=1
    )


@pytest.fixture(scope="module")
def family() -> FetchReach:
    return FetchReach(20, 50)


@pytest.fixture
def fetch_reach(monkeypatch):
    """Gymnasium-Robotics' own environment, without its time limit.

    It asks whether a joint's type is in a tuple of enum members, which since MuJoCo 3.17 integers
    never are; so it is shown enums of integers.
    """
    from gymnasium_robotics.envs.fetch.reach import MujocoFetchReachEnv
    from gymnasium_robotics.utils import mujoco_utils

    shown = types.ModuleType("mujoco")
    shown.__dict__.update(vars(mujoco))
    for name in ("mjtEq", "mjtJoint"):
        members = getattr(mujoco, name).__members__
        setattr(
            shown,
            name,
            types.SimpleNamespace(**{key: int(value) for key, value in members.items()}),
        )
    monkeypatch.setattr(mujoco_utils, "mujoco", shown)
    environment = MujocoFetchReachEnv(reward_type="dense")
    yield environment
    environment.close()


def test_it_is_fetch_reach_state_for_state(family, fetch_reach):
    """Two targets: 150 random actions, also out of bounds, then 50 to the target."""
    count = 2
    simulation, actions = simulate(family, count), random_actions(200, count)
    actions[100:130, :, 2] = -1.0  # onto the table
    for action in actions[:7]:
        simulation.step(action)
    first = simulation.reset(np.arange(count), generators(count, 300))
    path, observed = [], first
    for step, action in enumerate(actions):
        if step >= 150:
            action[:, :3] = observed[:, :3] / 0.05
        before = simulation.state.rows(np.arange(count))
        result = simulation.step(action)
        state = simulation.state
        observed = family.observe(state)
        path.append(
            (
                state.qpos.copy(),
                state.qvel.copy(),
                observed,
                family.reward(before, state, action),
                result.reward,
                result.success,
            )
        )
    on_table = reached = 0
    for row in range(count):
        observation, _ = fetch_reach.reset(seed=0)
        fetch_reach.goal = simulation.state.goal[row].copy()
        np.testing.assert_allclose(first[row, 3:6], observation["observation"][:3], rtol=1e-6)
        for step, action in enumerate(actions[:, row]):
            observation, reward, terminated, _, info = fetch_reach.step(action)
            qpos, qvel, observed, exact, rounded, success = (part[row] for part in path[step])
            gripper, velocity = (
                observation["observation"][:3],
                observation["observation"][5:8] / STEP,
            )
            for ours, theirs in (
                (qpos, fetch_reach.data.qpos),
                (qvel, fetch_reach.data.qvel),
                (exact, reward),
                (observed, np.concatenate([fetch_reach.goal - gripper, gripper, velocity])),
            ):
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
            assert rounded == np.float32(exact) and success == info["is_success"] and not terminated
            on_table += fetch_reach.data.ncon > 4  # four are the robot's feet
            reached += success
    assert on_table > 25 and 50 < reached < 200  # both cases occur


def test_the_start_is_fetch_reachs(family, fetch_reach):
    qpos, qvel, _ = family.start(np.random.default_rng(0), family.complete_task({}))
    np.testing.assert_array_equal(qpos, fetch_reach.initial_qpos)
    np.testing.assert_array_equal(qvel, fetch_reach.initial_qvel)
    np.testing.assert_array_equal(family.middle, fetch_reach.initial_gripper_xpos)
    np.testing.assert_array_equal(
        FetchReach(3, 50).start(np.random.default_rng(0), family.complete_task({}))[0], qpos
    )


@pytest.mark.parametrize(
    ("task_range", "nearest", "farthest", "edge"),
    [
        ("training", 0.0, 0.15, 0.15),
        ("nominal", 0.0, 0.15, 0.15),
        ("out_of_distribution", 0.15, 0.25, 0.2),
    ],
)
def test_every_episode_draws_a_target_in_the_region_of_its_task(
    task_range, nearest, farthest, edge
):
    family, goals = FetchReach(20, 50, task_range), []
    for generator in generators(40):
        task = family.sample_task(generator)
        goals.extend(family.start(generator, task)[2] - family.middle for _ in range(10))
    beside, above = np.abs(goals)[:, :2], np.array(goals)[:, 2]
    assert len(np.unique(goals)) == 1200
    assert (
        (beside >= nearest).all() and (beside <= farthest).all() and (np.abs(above) <= 0.15).all()
    )
    assert (beside.min(axis=0) < nearest + 0.02).all() and (beside.max(axis=0) > edge - 0.01).all()
    assert above.min() < -0.14 and above.max() > 0.14
    np.testing.assert_allclose(
        np.mean(goals, axis=0), 0.0, atol=0.04
    )  # all sides alike; 4 deviations


@pytest.mark.parametrize("reach", [0.15, 0.2, 0.25])
def test_the_arm_reaches_the_corners_of_training_and_other_regions(family, reach):
    """Proportional control. The lowest corners are inside the table, 3 cm from where the gripper
    can be.
    """
    corners = np.array(list(itertools.product((-1, 1), repeat=3))) * [reach, reach, 0.15]
    simulation = simulate(family, len(corners))
    simulation.state.goal[:] = family.middle + corners
    result = simulation.step(np.zeros((8, 4)))
    assert not result.success.any()
    for _ in range(30):
        result = simulation.step(np.pad(result.observation[:, :3] / 0.05, ((0, 0), (0, 1))))
    assert result.success.all()
    np.testing.assert_allclose(result.reward, 0.0, atol=0.04)


def test_the_familys_time_leaves_out_the_engine(family, monkeypatch):
    """Settling is the family's, refreshing derived fields after it is MuJoCo's."""
    simulation, clock = simulate(family, 1), [0.0]

    def lasting(seconds):
        return lambda *_, **__: clock.append(clock[-1] + seconds)

    monkeypatch.setattr(Batch, "step", lasting(1000.0))
    monkeypatch.setattr(FetchReach, "settle", lasting(1.0))
    monkeypatch.setattr(Batch, "forward", lasting(100.0))
    monkeypatch.setattr("epg_tf.tasks.physics.time.perf_counter", lambda: clock[-1])
    simulation.family_seconds = 0.0
    simulation.step(np.zeros((1, 4)))
    assert clock == [0, 1000, 1001, 1101] and simulation.family_seconds == 1.0


def test_a_missing_model_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match="config.task.family='fetch' needs .* gymnasium-robotics.*pip install"
    ):
        make_family(TaskConfig(family="fetch"))
