"""Tests epg_tf.baselines.parallel_agents: P agents of TF-Agents learn as each would alone."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.baselines.parallel_agents import ParallelAgents
from epg_tf.core.types import EnvironmentSpec
from epg_tf.epg.baseline_settings import SACConfig, TD3Config

SPEC = EnvironmentSpec(3, 2)
KINDS = [SACConfig, TD3Config]
BATCH, UPDATES = 8, 4


def streams(members, offset):
    return [np.random.default_rng(offset + member) for member in members]


def trained(settings, members, updates=UPDATES):
    """Returns agents `members` after updates with their own data, and observations to act at."""
    agents = ParallelAgents(settings, SPEC, (streams(members, 0), streams(members, 50)))
    data = streams(members, 100)

    def draw(*shape):
        return np.stack([stream.standard_normal(shape) for stream in data], axis=-2).astype("f4")

    for _ in range(updates):
        reward, ends = draw(BATCH, 1)[..., 0], (draw(BATCH, 1)[..., 0] > 1.0).astype("f4")
        batch = (draw(BATCH, 3), np.tanh(draw(BATCH, 2)), reward, ends, draw(BATCH, 3))
        agents.train(batch, draw(agents.noises, BATCH, 2))
    return agents, draw(1, 3)[0]


def of_adam(agent):
    """Returns name -> moments of the weights of policy and critics."""
    optimizers = (agent._critic_optimizer, agent._actor_optimizer)
    return {each.name: each.numpy() for adam in optimizers for each in adam.variables()[1:]}


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_learns_as_it_would_alone(kind):
    """Losses of other agents neither reach it nor change the scale of its gradient: Adam is blind
    to the scale, its moments are not.
    """
    settings = kind(hidden=(5,), learning_rate=1e-2, batch=BATCH)
    (three, seen), (one, alone) = trained(settings, [4, 5, 6]), trained(settings, [5])
    np.testing.assert_array_equal(seen[1:2], alone)
    still = np.zeros((3, 2), "f4")
    together = three.act(seen, still)[1]
    np.testing.assert_allclose(together, one.act(alone, still[:1])[0], rtol=1e-3)
    moments, own = (of_adam(each._agent) for each in (three, one))
    assert len(own) == 24 and moments.keys() == own.keys()
    for name, value in moments.items():
        np.testing.assert_allclose(value[1], own[name][0], rtol=1e-2, atol=1e-6)
    fresh = trained(settings, [5], updates=0)[0].act(alone, still[:1])[0]
    assert np.abs(together - fresh).min() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_drawn_from_generators_that_agents_share(kind):
    settings = kind(hidden=(5,), batch=BATCH)
    found = []
    for seed in (1, 2):
        tf.random.set_seed(seed)
        agents, seen = trained(settings, [0, 1])
        found.append(agents.act(seen, np.ones((2, 2), "f4")))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", KINDS)
def test_actions_stay_within_bounds_and_noise_moves_them(kind):
    agents, seen = trained(kind(hidden=(5,), batch=BATCH), [0, 1], updates=1)
    still, noisy = (agents.act(seen, np.full((2, 2), z, "f4")) for z in (0.0, 30.0))
    assert (noisy == 1.0).all() and (np.abs(still) < 1.0).all()


def test_an_infinite_loss_stops_the_update():
    agents, _ = trained(SACConfig(hidden=(5,), batch=BATCH), [0], updates=0)
    batch = [np.zeros((BATCH, 1, *shape), "f4") for shape in ((3,), (2,), (), (), (3,))]
    batch[2][:] = np.inf
    with pytest.raises(tf.errors.InvalidArgumentError):
        agents.train(tuple(batch), np.zeros((3, BATCH, 1, 2), "f4"))


@pytest.mark.slow
def test_the_temperature_follows_the_target_entropy_of_each_agent():
    """An entropy above its target lowers the temperature, one below raises it."""
    for target, sign in ((-50.0, -1), (50.0, 1)):
        settings = SACConfig(hidden=(5,), batch=BATCH, target_entropy=target, temperature=0.5)
        agents, _ = trained(settings, [0, 1])
        moved = np.asarray(agents._agent._log_alpha) - np.log(0.5)
        assert moved.shape == (2,) and (np.sign(moved) == sign).all()
