"""Tests epg_tf.agents.policies, critics and agent."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents.agent import Agent
from epg_tf.agents.critics import ValueNetwork
from epg_tf.agents.policies import ActingPolicy, GaussianPolicy, initial_policy
from epg_tf.config import PolicyConfig
from epg_tf.parallel_layers import initial_mlp
from epg_tf.random_keys import life_generator
from epg_tf.types import LifeKey
from tests import reference

P, O, A = 3, 5, 2  # noqa: E741 (the legend's letter)
HIDDEN = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "elu": lambda x: np.where(x > 0, x, np.expm1(x))}
KEYS = [LifeKey(3, "test", 0, index) for index in range(P)]


def random_policy(activation="tanh", hidden=(7, 6)):
    """Returns P policies with random weights everywhere."""
    policy = GaussianPolicy(P, O, A, PolicyConfig(hidden=hidden, activation=activation))
    generator = np.random.default_rng(0)
    for variable in policy.variables_in_order:
        variable.assign(0.6 * generator.standard_normal(variable.shape))
    return policy


@pytest.mark.parametrize("activation", sorted(HIDDEN))
@pytest.mark.parametrize("hidden", [(7,), (7, 6), (4, 4, 4, 4)])
def test_mean_equals_the_reference(activation, hidden):
    policy = random_policy(activation, hidden)
    observation = np.random.default_rng(1).standard_normal((P, 9, O)).astype(np.float32)
    expected = [reference.mlp([np.float64(v[life]) for v in policy.variables_in_order[:-1]],
                              np.float64(observation[life]), HIDDEN[activation]) for life in range(P)]
    for mean in (policy(observation), tf.function(policy)(observation)):
        np.testing.assert_allclose(mean, expected, rtol=1e-5, atol=1e-6)


def test_distribution_equals_the_reference_density():
    policy = random_policy()
    generator = np.random.default_rng(2)
    observation, action = generator.standard_normal((P, 4, O)), generator.standard_normal((P, 4, A))
    found = policy.distribution(tf.constant(observation, tf.float32)).log_prob(tf.constant(action, tf.float32)).numpy()
    assert found.shape == (P, 4)
    for life in range(P):
        weights = [np.float64(v[life]) for v in policy.variables_in_order]
        means = reference.mlp(weights[:-1], observation[life])
        expected = [reference.log_probability(a, m, weights[-1]) for a, m in zip(action[life], means, strict=True)]
        np.testing.assert_allclose(found[life], expected, rtol=1e-4)


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu"])
def test_acting_copy_equals_mean_plus_deviation_times_noise(activation):
    policy = random_policy(activation)
    generator = np.random.default_rng(3)
    observation, noise = (generator.standard_normal((P, size)).astype(np.float32) for size in (O, A))
    acting = ActingPolicy([variable.numpy() for variable in policy.variables_in_order], activation)
    expected = policy(observation[:, None])[:, 0] + tf.exp(policy.log_deviation) * noise
    found = acting.act(observation, noise)
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=1e-6)
    assert found.dtype == np.float32 and found.shape == (P, A)


def test_acting_copy_is_a_copy():
    """Updates do not move it, and acting does not move the policy or its inputs."""
    policy = random_policy()
    weights = [variable.numpy() for variable in policy.variables_in_order]
    acting, observation, noise = ActingPolicy(weights, "tanh"), np.ones((P, O), np.float32), np.ones((P, A), np.float32)
    before = [weight.copy() for weight in weights]
    first = acting.act(observation, noise)
    for variable in policy.variables_in_order:
        variable.assign_add(tf.ones_like(variable))
    np.testing.assert_array_equal(acting.act(observation, noise), first)
    assert all((a == b).all() for a, b in zip(weights, before, strict=True)) and (observation == 1).all()


def test_initial_weights_have_columns_of_the_documented_norm():
    sizes, config = (O, 64, 32, A), PolicyConfig(output_scale=0.01, log_deviation=-0.7)
    weights = initial_policy(np.random.default_rng(0), sizes, config)
    assert [w.shape for w in weights] == [(O, 64), (64,), (64, 32), (32,), (32, A), (A,), (A,)]
    assert all(w.dtype == np.float32 for w in weights) and not any(b.any() for b in weights[1:-1:2])
    for kernel, norm in zip(weights[:-1:2], (1.0, 1.0, 0.01), strict=True):
        np.testing.assert_allclose(np.linalg.norm(kernel, axis=0), norm, rtol=1e-5)
    np.testing.assert_allclose(weights[-1], -0.7)


def test_value_network_equals_the_reference():
    value = ValueNetwork(P, O, (6, 4))
    members = [initial_mlp(np.random.default_rng(life), value.sizes, 1.0) for life in range(P)]
    value.load(members)
    observation = np.random.default_rng(9).standard_normal((P, 8, O)).astype(np.float32)
    found = value(tf.constant(observation)).numpy()
    assert found.shape == (P, 8)
    for life in range(P):
        expected = reference.mlp([np.float64(w) for w in members[life]], np.float64(observation[life]))[:, 0]
        np.testing.assert_allclose(found[life], expected, rtol=1e-5, atol=1e-6)


def test_agents_are_born_from_their_own_keys(tiny):
    """Weights depend on the key alone: not on the position in the shard, nor on who was there before."""
    agent = Agent(P, O, A, False, tiny)
    agent.be_born(KEYS)
    first = [variable.numpy() for variable in agent.moved_by(True, True)]
    for variable in agent.moved_by(True, True):
        variable.assign_add(tf.ones_like(variable))
    agent.be_born(KEYS[::-1])
    for before, variable in zip(first, agent.moved_by(True, True), strict=True):
        np.testing.assert_array_equal(variable.numpy()[::-1], before)
    assert not agent.memory.kernel.numpy().any()
    kernel = agent.policy.network.dense[0].kernel.numpy()
    assert not np.array_equal(kernel[0], kernel[1])
    expected = initial_policy(life_generator(KEYS[2], "policy"), agent.policy.sizes, tiny.policy)
    np.testing.assert_array_equal(first[0][2], expected[0])


def test_agent_without_memory(make_tiny):
    agent = Agent(P, O, A, False, make_tiny(loss={"memory_units": 0}))
    agent.be_born(KEYS)
    assert agent.memory is None and agent.memory_output() is None
    assert len(agent.moved_by(True, False)) == len(agent.policy.variables_in_order)
