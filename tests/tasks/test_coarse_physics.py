"""Coarse physics: an env step lasts as long as in exact physics, bodies move and fare much alike,
and nothing diverges that did not.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.tasks.bodies import CoarsePhysics
from epg_tf.tasks.registry import FAMILIES, make_family, simulate
from epg_tf.tasks.settings import TaskConfig

IMPLICIT = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
P = 32

# family: frame_skip, episode limit, physics steps of an env step in coarse physics; then by how
# much the mean length of an episode may differ.
DECLARED = {
    "random_hopper": (4, 250, 1, 0.1),
    "random_walker": (4, 250, 2, 0.1),
    "random_reacher": (2, 50, 1, 0.0),
    "directional_half_cheetah": (5, 100, 3, 0.0),
    "goal_ant": (5, 100, 5, 0.3),
    "fetch": (20, 25, 5, 0.0),
}


def family_in(physics, name, limit=None):
    frame_skip, usual, *_ = DECLARED[name]
    return make_family(TaskConfig(name, frame_skip, limit or usual, physics=physics))


def simulation_of(family):
    """P simulations at the start of their first episodes, and the streams of later starts."""
    keys = [LifeKey(0, "benchmark", 0, index) for index in range(P)]
    simulation = simulate(family, P)
    simulation.set_tasks([family.sample_task(life_generator(key, "task")) for key in keys])
    resets = [life_generator(key, "reset") for key in keys]
    return simulation, resets, simulation.reset(np.arange(P), resets)


def test_every_mujoco_family_of_the_papers_declares_coarse_physics():
    declared = {name for name, kind in FAMILIES.items() if getattr(kind, "coarse", None)}
    own = {"point_goal", "hidden_goal", "turned_motors"}
    assert declared == set(FAMILIES) - own


@pytest.mark.parametrize("name", DECLARED)
def test_an_env_step_lasts_as_long_in_fewer_physics_steps(name):
    frame_skip, _, steps, *_ = DECLARED[name]
    exact, coarse = family_in("exact", name), family_in("coarse", name)
    assert (exact.physics_steps, coarse.physics_steps) == (frame_skip, steps)
    assert coarse.seconds_per_step == pytest.approx(exact.seconds_per_step, rel=1e-12)
    assert coarse.model.opt.integrator == IMPLICIT


@pytest.mark.parametrize("frame_skip, steps", [(1, 1), (5, 2), (8, 2), (9, 3)])
def test_the_fewest_steps_within_the_longest_timestep_are_taken(frame_skip, steps):
    """Hopper allows four times its own timestep."""
    family = make_family(TaskConfig("random_hopper", frame_skip, 250, physics="coarse"))
    assert family.physics_steps == steps
    assert family.model.opt.timestep == pytest.approx(0.002 * frame_skip / steps)


@pytest.mark.parametrize("factor", [0.5, float("nan")])
def test_coarse_timesteps_are_not_shorter(factor):
    with pytest.raises(ConfigError, match="timestep_factor=.*at least 1"):
        CoarsePhysics(timestep_factor=factor)


@pytest.mark.parametrize("name", ["point_goal", "gymnasium:Pendulum-v1"])
def test_a_family_without_coarse_physics_says_so(name):
    with pytest.raises(ConfigError, match=r"config.task.physics='coarse': .*use 'exact'"):
        make_family(TaskConfig(name, 1, 50, physics="coarse"))
    assert not make_family(TaskConfig(name, 1, 50)).has_coarse_physics


@pytest.mark.parametrize("name", DECLARED)
def test_episodes_of_random_policies_fare_alike_and_nothing_diverges(name):
    returns, lengths = {}, {}
    for physics in ("exact", "coarse"):
        family = family_in(physics, name)
        simulation, resets, observation = simulation_of(family)
        generator = np.random.default_rng(2)
        shape = (P, family.observation_size, family.action_size)
        weights = 0.5 * generator.standard_normal(shape) / np.sqrt(family.observation_size)
        totals, counts, ended = np.zeros(P), np.zeros(P), []
        for _ in range(min(200, 2 * family.episode_limit)):
            noise = 0.5 * generator.standard_normal((P, family.action_size))
            action = np.tanh(np.einsum("po,poa->pa", observation, weights)) + noise
            result = simulation.step(action)
            assert not result.diverged.any()
            totals += result.reward
            counts += 1
            observation = result.observation.copy()
            over = np.flatnonzero(result.terminated | result.truncated)
            ended += zip(totals[over], counts[over], strict=True)
            totals[over], counts[over] = 0.0, 0.0
            if over.size:
                observation[over] = simulation.next_episode(over, resets)
        returns[physics], lengths[physics] = np.array(ended).T
    errors = [np.std(found) / np.sqrt(len(found)) for found in returns.values()]
    apart = abs(returns["exact"].mean() - returns["coarse"].mean())
    assert apart < 3 * np.hypot(*errors)
    allowed = DECLARED[name][3] * lengths["exact"].mean()
    assert abs(lengths["exact"].mean() - lengths["coarse"].mean()) <= allowed
