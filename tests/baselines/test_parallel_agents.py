"""Tests epg_tf.baselines.parallel_agents: P agents of TF-Agents learn as each would alone."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.baselines.parallel_agents import ParallelAgents
from epg_tf.core.types import EnvironmentSpec
from epg_tf.epg.baseline_settings import SACConfig, TD3Config

SPEC = EnvironmentSpec(3, 2)
KINDS = {"sac": SACConfig, "td3": TD3Config, "ddpg": TD3Config}
BATCH, UPDATES = 8, 4
REWARD, TERMINATED, NEXT = 5, 6, slice(7, 10)  # components of a step


def streams(members, offset):
    return [np.random.default_rng(offset + member) for member in members]


def trained(name, members, updates=UPDATES, **settings):
    """Returns agents `members` after updates, two at a time, with their own data, and observations
    to act at.
    """
    made = KINDS[name](hidden=(5,), batch=BATCH, **settings)
    agents = ParallelAgents(name, made, SPEC, (streams(members, 0), streams(members, 50)))
    data = streams(members, 100)

    def draw(*shape):
        return np.stack([stream.standard_normal(shape) for stream in data]).astype("f4")

    for _ in range(updates // 2):
        reward, ends = draw(2, BATCH, 1), (draw(2, BATCH, 1) > 1.0).astype("f4")
        action = np.tanh(draw(2, BATCH, 2))
        steps = [draw(2, BATCH, 3), action, reward, ends, draw(2, BATCH, 3)]
        agents.train(np.concatenate(steps, axis=-1), draw(2, agents.noises, BATCH, 2))
    return agents, draw(3)


def of_adam(agent):
    """Returns name -> moments of the weights of policy and critics."""
    optimizers = (agent._critic_optimizer, agent._actor_optimizer)
    return {each.name: each.numpy() for adam in optimizers for each in adam.variables()[1:]}


@pytest.mark.parametrize("name", KINDS)
def test_an_agent_learns_as_it_would_alone(name):
    """Losses of other agents neither reach it nor change the scale of its gradient: Adam is blind
    to the scale, its moments are not. Nor does anything come from TensorFlow's own generators,
    which agents share. Actions stay within bounds, and noise moves them.
    """
    found = []
    for members in ([4, 5, 6], [5]):
        tf.random.set_seed(len(members))
        found.append(trained(name, members, learning_rate=1e-2))
    (three, seen), (one, alone) = found
    np.testing.assert_array_equal(seen[1:2], alone)
    still = np.zeros((3, 2), "f4")
    assert (np.abs(three.act(seen, still)) < 1.0).all()
    assert (three.act(seen, np.full((3, 2), 30.0, "f4")) == 1.0).all()
    together = three.act(seen, still)[1]
    np.testing.assert_allclose(together, one.act(alone, still[:1])[0], rtol=1e-3)
    moments, own = (of_adam(each._agent) for each in (three, one))
    assert len(own) == (16 if name == "ddpg" else 24) and moments.keys() == own.keys()
    for variable, value in moments.items():
        np.testing.assert_allclose(value[1], own[variable][0], rtol=1e-2, atol=1e-6)
    fresh = trained(name, [5], updates=0)[0].act(alone, still[:1])[0]
    assert np.abs(together - fresh).min() > 1e-3


def test_the_temperature_follows_the_target_entropy_of_each_agent():
    """An entropy above its target lowers the temperature, one below raises it."""
    for target, sign in ((-50.0, -1), (50.0, 1)):
        agents, _ = trained("sac", [0, 1], target_entropy=target, temperature=0.5)
        moved = np.asarray(agents._agent._log_alpha) - np.log(0.5)
        assert moved.shape == (2, 1) and (np.sign(moved) == sign).all()


def test_a_termination_is_worth_its_reward_alone():
    """The critic of an agent whose every step ended learns the reward, whatever follows. An
    infinite reward, and so loss, stops the update.
    """
    steps = np.zeros((2, 1, BATCH, 10), "f4")
    steps[..., REWARD], steps[..., NEXT] = 1.0, 50.0
    steps[0, ..., TERMINATED] = 1.0
    noise = np.zeros((2, 1, 0, BATCH, 2), "f4")
    agents, _ = trained("ddpg", [0, 0], updates=0, learning_rate=0.05, discount=0.9)
    for _ in range(60):
        agents.train(steps, noise)
    value, _ = agents._agent._critic_network((steps[:, 0, :, :3], steps[:, 0, :, 3:5]))
    assert abs(float(value[0, 0]) - 1.0) < 0.05 < abs(float(value[1, 0]) - 1.0)
    steps[..., REWARD] = np.inf
    with pytest.raises(tf.errors.InvalidArgumentError):
        agents.train(steps, noise)
