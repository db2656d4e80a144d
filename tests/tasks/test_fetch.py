"""Tests epg_tf.tasks.fetch against Gymnasium-Robotics' FetchReach."""

from __future__ import annotations

import importlib.util
import itertools
import types

import mujoco
import numpy as np
import pytest
from mujoco.batch import Batch, SimulationError

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoop, Teaching
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.tasks.fetch import FetchReach
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

STEP = 0.04  # s, of 20 physics steps
FINGERS = [13, 14]  # in qpos


def generators(count: int, offset: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng(seed + offset) for seed in range(count)]


def simulate(family: FetchReach, count: int, threads: int = 1) -> BodySimulation:
    """Returns simulations in their first episodes."""
    simulation = BodySimulation(family, count, threads)
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


def test_the_fourth_action_does_nothing(family):
    one, other = simulate(family, 2), simulate(family, 2)
    for action in random_actions(5, 2):
        one.step(action)
        other.step(action * [1, 1, 1, 0])
    np.testing.assert_array_equal(one.state.qpos, other.state.qpos)
    np.testing.assert_array_equal(one.state.qpos[:, FINGERS], 0.0)


def test_success_is_strictly_within_five_centimetres(family):
    simulation = simulate(family, 3)
    simulation.state.goal[:] = family.gripper(simulation.state) + np.array(
        [[0.0499], [0.0501], [0.0]]
    ) * [0.6, 0, 0.8]
    assert family.succeeded(simulation.state).tolist() == [True, False, True]
    assert not family.terminated(simulation.state).any()


def test_no_observation_entry_is_constant(family):
    simulation = simulate(family, 3)
    seen = np.concatenate([simulation.step(action).observation for action in random_actions(15, 3)])
    assert (seen.std(axis=0) > 1e-3).all()


def trajectory(
    simulation: BodySimulation, actions: np.ndarray, ids: np.ndarray | None = None
) -> list[np.ndarray]:
    """Returns qpos, qvel, observations and rewards of the stepped, [steps, K, ...]."""
    rows, path = slice(None) if ids is None else ids, []
    for action in actions:
        result = simulation.step(action, ids)
        path.append(
            (
                simulation.state.qpos[rows].copy(),
                simulation.state.qvel[rows].copy(),
                result.observation,
                result.reward,
            )
        )
    return [np.stack(part) for part in zip(*path, strict=True)]


def test_neighbours_subsets_and_threads_change_nothing(family):
    """To the bit."""
    actions = random_actions(30, 5)
    together = trajectory(simulate(family, 5), actions)
    fewer = trajectory(simulate(family, 2), actions[:, :2])
    threaded = trajectory(simulate(family, 5, threads=2), actions)
    parts, ids, rest = simulate(family, 5), np.array([0, 3]), np.array([1, 2, 4])
    chosen = trajectory(parts, actions[:, ids], ids)
    others = trajectory(parts, actions[:, rest], rest)
    for number, whole in enumerate(together):
        np.testing.assert_array_equal(fewer[number], whole[:, :2])
        np.testing.assert_array_equal(threaded[number], whole)
        np.testing.assert_array_equal(chosen[number], whole[:, ids])
        np.testing.assert_array_equal(others[number], whole[:, rest])


def _spoil_state(simulation: BodySimulation, action: np.ndarray, patch: pytest.MonkeyPatch) -> None:
    simulation.state.qvel[1] = np.nan


def _spoil_move(simulation: BodySimulation, action: np.ndarray, patch: pytest.MonkeyPatch) -> None:
    action[1, 0] = np.nan


def _spoil_blocked_action(
    simulation: BodySimulation, action: np.ndarray, patch: pytest.MonkeyPatch
) -> None:
    action[1, 3] = np.nan


def _spoil_engine(
    simulation: BodySimulation, action: np.ndarray, patch: pytest.MonkeyPatch
) -> None:
    step = Batch.step

    def raising(batch, ids=None, nstep=1):
        step(batch, ids, nstep=nstep)
        raise SimulationError(np.array([1]), "stack overflow")

    patch.setattr(Batch, "step", raising)


@pytest.mark.parametrize("spoil", [_spoil_state, _spoil_move, _spoil_blocked_action, _spoil_engine])
def test_what_goes_wrong_in_one_row_stays_there(family, monkeypatch, spoil):
    """The others go on as if nothing had happened, fingers closed and derived fields included; a
    reset heals.
    """
    healthy, sick = simulate(family, 3), simulate(family, 3)
    given = random_actions(8, 3)
    wanted, action = healthy.step(given[0]), given[0].copy()
    with monkeypatch.context() as patch:
        spoil(sick, action, patch)
        result = sick.step(action)
    assert result.diverged.tolist() == result.terminated.tolist() == [False, True, False]
    assert not result.observation[1].any() and result.reward[1] == 0
    for part, other in zip(vars(result).values(), vars(wanted).values(), strict=True):
        np.testing.assert_array_equal(part[[0, 2]], other[[0, 2]])
    for simulation in (healthy, sick):
        simulation.reset(np.array([1]), generators(3, 400))
    for one, other in zip(trajectory(sick, given[1:]), trajectory(healthy, given[1:]), strict=True):
        np.testing.assert_array_equal(one, other)


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


@pytest.mark.slow
def test_an_agent_lives_a_life(make_tiny):
    experiment = make_tiny(task={"family": "fetch", "frame_skip": 2})
    keys = [LifeKey(0, "evolution", 0, index) for index in range(4)]
    phi = np.repeat(initial_phi(experiment, 0)[None], 4, axis=0)
    results = InnerLoop(experiment, make_family(experiment.task)).run(
        keys, phi, Teaching(0.0, 1e-3)
    )
    assert not results.failed.any()
    assert results.env_steps.tolist() == [3 * 8 + 3 * 6] * 4
    assert (results.final_return < 0).all() and (results.final_return > -6 * 0.5).all()
    assert len(set(results.final_return)) == len(set(results.policy_hash)) == 4


def test_a_missing_model_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match="config.task.family='fetch' needs .* gymnasium-robotics.*pip install"
    ):
        make_family(TaskConfig(family="fetch"))
