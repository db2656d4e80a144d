"""Tests that in epg_tf.tasks.physics one simulation that fails affects no other."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from mujoco.batch import Batch, SimulationError

from epg_tf.tasks import physics
from epg_tf.tasks.base import StepResult
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.registry import FAMILIES
from tests.tasks.families import shared_family

POPULATION, BAD, OTHERS = 4, 1, [0, 2, 3]


@pytest.fixture(autouse=True, scope="module")
def _quiet_mujoco():
    """Keeps MuJoCo's warnings off the terminal and its log file out of the working directory."""
    before, quiet = mujoco.MjLogConfig.get(), mujoco.MjLogConfig.get()
    quiet.logto_console = quiet.logto_file = False
    quiet.set()
    yield
    before.set()


@pytest.fixture(params=sorted(FAMILIES))
def family(request) -> BodyFamily:
    return shared_family(request.param)


def generators(offset: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng(seed + offset) for seed in range(POPULATION)]


def simulate(family: BodyFamily, threads: int = 1) -> BodySimulation:
    """Returns simulations that have taken three steps."""
    simulation = BodySimulation(family, POPULATION, threads)
    simulation.set_tasks([family.sample_task(generator) for generator in generators()])
    simulation.reset(np.arange(POPULATION), generators(100))
    for action in actions(family, 3):
        simulation.step(action)
    return simulation


def actions(family: BodyFamily, steps: int) -> np.ndarray:
    return np.random.default_rng(7).uniform(-1, 1, (steps, POPULATION, family.action_size))


def assert_isolated(result: StepResult, healthy: StepResult) -> None:
    """Checks that row BAD failed, and that the others are as in `healthy` to the bit."""
    assert result.diverged.tolist() == [row == BAD for row in range(POPULATION)]
    assert result.terminated[BAD] and not result.truncated[BAD]
    assert result.reward[BAD] == 0 and not result.observation[BAD].any()
    for part, wanted in zip(vars(result).values(), vars(healthy).values(), strict=True):
        np.testing.assert_array_equal(part[OTHERS], wanted[OTHERS])


def assert_same_rows(first: BodySimulation, second: BodySimulation, rows: list[int]) -> None:
    for name in ("qpos", "qvel", "goal"):
        np.testing.assert_array_equal(
            getattr(first.state, name)[rows], getattr(second.state, name)[rows]
        )


def test_steps_of_all_and_of_some_agree_in_the_task_that_a_simulation_begins_with(family):
    """Rewards are of the goal that its first episode drew, before any task is set."""
    simulations = [BodySimulation(family, POPULATION) for _ in range(2)]
    for simulation in simulations:
        simulation.reset(np.arange(POPULATION), generators(100))
    (action,) = actions(family, 1)
    every, some = simulations[0].step(action), simulations[1].step(action, np.arange(POPULATION))
    np.testing.assert_array_equal(every.reward, some.reward)


@pytest.mark.parametrize("field", ["qpos", "qvel"])
def test_a_state_that_diverges_ends_only_its_own_episode(family, field):
    healthy, steps = simulate(family), actions(family, 4)
    wanted = [healthy.step(action) for action in steps]
    for value, threads in ((np.nan, 1), (np.inf, 1), (-np.inf, 2), (1e12, 2)):
        sick = simulate(family, threads)
        getattr(sick.state, field)[BAD, -1] = value
        for action, result in zip(steps, wanted, strict=True):  # it stays so until its reset
            assert_isolated(sick.step(action), result)
        assert_same_rows(sick, healthy, OTHERS)


def test_advancing_names_a_diverged_simulation_among_the_ended(family):
    simulation = simulate(family)
    simulation.state.qvel[BAD] = np.nan
    assert simulation.advance(np.zeros((POPULATION, family.action_size))).tolist() == [BAD]


@pytest.mark.parametrize("entry", [0, -1])
def test_an_action_that_is_not_a_number_fails_its_own_row_alone(family, entry):
    healthy, sick = simulate(family), simulate(family)
    action = actions(family, 1)[0]
    spoilt = action.copy()
    spoilt[BAD, entry] = np.nan
    assert_isolated(sick.step(spoilt), healthy.step(action))
    assert_same_rows(sick, healthy, OTHERS)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e30])
def test_an_infinite_action_acts_clipped(family, value):
    infinite, clipped = simulate(family), simulate(family)
    action = actions(family, 1)[0]
    action[BAD, 0] = value
    result = infinite.step(action)
    action[BAD, 0] = family.action_bounds[int(value > 0)][0]
    for part, wanted in zip(
        vars(result).values(), vars(clipped.step(action)).values(), strict=True
    ):
        np.testing.assert_array_equal(part, wanted)
    assert not result.diverged.any()


@pytest.mark.parametrize("how", ["state", "action"])
def test_a_reset_heals(family, how):
    """After its reset the row lives on like one that never failed, to the bit."""
    healthy, sick = simulate(family), simulate(family)
    action = actions(family, 1)[0]
    spoilt = action.copy()
    if how == "state":
        sick.state.qvel[BAD] = np.nan
    else:
        spoilt[BAD] = np.nan
    assert sick.step(spoilt).diverged[BAD]
    healthy.step(action)
    for simulation in (healthy, sick):
        simulation.reset(np.array([BAD]), generators(200))
    for action in actions(family, 15):
        result, wanted = sick.step(action), healthy.step(action)
        assert not result.diverged.any()
        for part, other in zip(vars(result).values(), vars(wanted).values(), strict=True):
            np.testing.assert_array_equal(part, other)
    assert_same_rows(sick, healthy, list(range(POPULATION)))


def test_divergence_is_reported_at_its_place_among_the_stepped(family):
    simulation = simulate(family)
    simulation.state.qvel[2] = np.nan
    action = actions(family, 1)[0]
    assert not simulation.step(action[[0, 1]], np.array([0, 1])).diverged.any()
    result = simulation.step(action[[1, 2]], np.array([1, 2]))
    assert result.diverged.tolist() == result.terminated.tolist() == [False, True]
    assert simulation.step(action[[2]], np.array([2])).diverged.tolist() == [True]


def test_divergence_in_an_early_substep_counts(family):
    """MuJoCo resets an exploded state by itself; what follows in the same env step looks sound and
    is not.
    """
    family.physics_steps = 10
    simulation = simulate(family)
    simulation.state.qvel[BAD] = 1e15
    result = simulation.step(np.zeros((POPULATION, family.action_size)))
    assert np.isfinite(simulation.state.qvel).all()
    assert result.diverged.tolist() == [row == BAD for row in range(POPULATION)]


def test_divergence_at_the_time_limit_is_a_termination(family):
    family.episode_limit = 4
    simulation = simulate(family)  # three steps old
    simulation.state.qvel[BAD] = np.nan
    result = simulation.step(np.zeros((POPULATION, family.action_size)))
    assert result.terminated.tolist() == [row == BAD for row in range(POPULATION)]
    assert result.truncated.tolist() == [row != BAD for row in range(POPULATION)]


def test_termination_at_the_time_limit_is_not_a_truncation(family, monkeypatch):
    family.episode_limit = 4
    monkeypatch.setattr(family, "terminated", lambda state: np.arange(len(state.qpos)) == BAD)
    result = simulate(family).step(np.zeros((POPULATION, family.action_size)))
    assert result.terminated.tolist() == [row == BAD for row in range(POPULATION)]
    assert result.truncated.tolist() == [row != BAD for row in range(POPULATION)]


@pytest.mark.parametrize("method", ["observe", "reward"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_observation_or_reward_that_is_not_finite_fails_its_row(
    family, monkeypatch, method, value
):
    healthy, sick = simulate(family), simulate(family)
    original = getattr(family, method)
    action = actions(family, 1)[0]
    wanted = healthy.step(action)

    def spoilt(*arguments):
        answer = original(*arguments)
        answer[BAD, ...] = value
        return answer

    monkeypatch.setattr(family, method, spoilt)
    assert_isolated(sick.step(action), wanted)


def test_a_simulation_in_which_mujoco_raises_fails_alone(family, monkeypatch):
    healthy, sick = simulate(family), simulate(family)
    step = Batch.step

    def raising(batch, ids=None, nstep=1):
        step(batch, ids, nstep=nstep)
        raise SimulationError(np.array([BAD]), "stack overflow")

    action = actions(family, 1)[0]
    wanted = healthy.step(action)
    monkeypatch.setattr(physics.Batch, "step", raising)
    assert_isolated(sick.step(action), wanted)
    some = sick.step(action[[BAD, 3]], np.array([BAD, 3]))
    assert some.diverged.tolist() == [True, False]


def test_every_simulation_may_fail_at_once(family):
    simulation = simulate(family)
    simulation.state.qpos[:] = np.nan
    result = simulation.step(np.full((POPULATION, family.action_size), np.nan))
    assert result.diverged.all() and result.terminated.all() and not result.truncated.any()
    assert not result.observation.any() and not result.reward.any()
