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
IS_BAD = np.arange(POPULATION) == BAD


@pytest.fixture(autouse=True, scope="module")
def _quiet_mujoco():
    """Keeps MuJoCo's warnings off the terminal and its log file out of the working directory."""
    before, quiet = mujoco.MjLogConfig.get(), mujoco.MjLogConfig.get()
    quiet.logto_console = quiet.logto_file = False
    quiet.set()
    yield
    before.set()


# Contacts and fields of tasks, goals, what is sensed, endless episodes, states that are settled.
SEVERAL = ["random_hopper", "point_goal", "random_reacher", "goal_ant_no_reset", "fetch"]


@pytest.fixture(params=SEVERAL)
def family(request) -> BodyFamily:
    return shared_family(request.param)


def generators(offset: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng(seed + offset) for seed in range(POPULATION)]


def simulate(family: BodyFamily) -> BodySimulation:
    """Returns simulations that have taken three steps."""
    simulation = BodySimulation(family, POPULATION)
    simulation.set_tasks([family.sample_task(generator) for generator in generators()])
    simulation.reset(np.arange(POPULATION), generators(100))
    for action in actions(family, 3):
        simulation.step(action)
    return simulation


def actions(family: BodyFamily, steps: int) -> np.ndarray:
    return np.random.default_rng(7).uniform(-1, 1, (steps, POPULATION, family.action_size))


def assert_isolated(result: StepResult, healthy: StepResult) -> None:
    """Checks that row BAD failed, and that the others are as in `healthy` to the bit."""
    np.testing.assert_array_equal(result.diverged, IS_BAD)
    assert result.terminated[BAD] and not result.truncated[BAD]
    assert result.reward[BAD] == 0 and not result.observation[BAD].any()
    for part, wanted in zip(vars(result).values(), vars(healthy).values(), strict=True):
        np.testing.assert_array_equal(part[OTHERS], wanted[OTHERS])


def assert_same(result: StepResult, wanted: StepResult) -> None:
    for part, other in zip(vars(result).values(), vars(wanted).values(), strict=True):
        np.testing.assert_array_equal(part, other)


def state(field, value):
    def spoil(simulation, action, patch):
        getattr(simulation.state, field)[BAD, -1] = value

    return spoil


def action_entry(entry):
    def spoil(simulation, action, patch):
        action[BAD, entry] = np.nan

    return spoil


def answer(method, value):
    def spoil(simulation, action, patch):
        original = getattr(simulation.family, method)

        def spoilt(*arguments):
            found = original(*arguments)
            found[BAD, ...] = value
            return found

        patch.setattr(simulation.family, method, spoilt)

    return spoil


def engine(simulation, action, patch):
    step = Batch.step

    def raising(batch, ids=None, nstep=1):
        step(batch, ids, nstep=nstep)
        raise SimulationError(np.array([BAD]), "stack overflow")

    patch.setattr(physics.Batch, "step", raising)


SPOILT_STATES = {
    "position nan": state("qpos", np.nan),
    "velocity inf": state("qvel", -np.inf),
    "velocity 1e12": state("qvel", 1e12),
}
SPOILT = {
    **SPOILT_STATES,
    "first action": action_entry(0),
    "last action": action_entry(-1),
    "observation nan": answer("observe", np.nan),
    "reward inf": answer("reward", np.inf),
    "MuJoCo raises": engine,
}


@pytest.mark.parametrize(
    ("name", "fault"),
    [(name, fault) for fault in SPOILT_STATES for name in FAMILIES]
    + [(name, fault) for fault in SPOILT if fault not in SPOILT_STATES for name in SEVERAL],
)
def test_what_goes_wrong_in_one_row_stays_there_and_its_reset_heals(name, fault, monkeypatch):
    """To the bit. What a family computes of a state that is none is its own, in all of them."""
    family = shared_family(name)
    healthy, sick = simulate(family), simulate(family)
    given, *later = actions(family, 12)
    wanted, action = healthy.step(given), given.copy()
    with monkeypatch.context() as patch:
        SPOILT[fault](sick, action, patch)
        assert_isolated(sick.step(action), wanted)
    for simulation in (healthy, sick):
        simulation.reset(np.array([BAD]), generators(200))
    for action in later:
        assert_same(sick.step(action), healthy.step(action))


def test_a_diverged_state_ends_every_step_until_its_reset_wherever_it_is_stepped(family):
    simulation, still = simulate(family), np.zeros((POPULATION, family.action_size))
    simulation.state.qvel[BAD] = np.nan
    assert simulation.advance(still).tolist() == [BAD]
    assert not simulation.step(still[:2], np.array([0, 2])).diverged.any()
    result = simulation.step(still[:2], np.array([0, BAD]))
    assert result.diverged.tolist() == result.terminated.tolist() == [False, True]
    simulation.state.qpos[:] = np.nan
    result = simulation.step(still)
    assert result.diverged.all() and result.terminated.all() and not result.truncated.any()
    assert not result.observation.any() and not result.reward.any()


def test_steps_of_all_and_of_some_agree_in_the_task_that_a_simulation_begins_with(family):
    """Rewards are of the goal that its first episode drew, before any task is set."""
    simulations = [BodySimulation(family, POPULATION) for _ in range(2)]
    for simulation in simulations:
        simulation.reset(np.arange(POPULATION), generators(100))
    (action,) = actions(family, 1)
    every, some = simulations[0].step(action), simulations[1].step(action, np.arange(POPULATION))
    np.testing.assert_array_equal(every.reward, some.reward)


def test_divergence_in_an_early_substep_counts(family):
    """MuJoCo resets an exploded state by itself; what follows in the same env step looks sound and
    is not.
    """
    family.physics_steps = 10
    simulation = simulate(family)
    simulation.state.qvel[BAD] = 1e15
    result = simulation.step(np.zeros((POPULATION, family.action_size)))
    assert np.isfinite(simulation.state.qvel).all()
    np.testing.assert_array_equal(result.diverged, IS_BAD)


@pytest.mark.parametrize("cause", ["divergence", "the family"])
def test_termination_at_the_time_limit_is_not_a_truncation(family, monkeypatch, cause):
    family.episode_limit = 4
    simulation = simulate(family)  # three steps old
    if cause == "divergence":
        simulation.state.qvel[BAD] = np.nan
    else:
        monkeypatch.setattr(family, "terminated", lambda state: IS_BAD.copy())
    result = simulation.step(np.zeros((POPULATION, family.action_size)))
    np.testing.assert_array_equal(result.terminated, IS_BAD)
    np.testing.assert_array_equal(result.truncated, ~IS_BAD)
