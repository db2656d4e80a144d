"""Tests epg_tf.agents.policies, functional_policy, values, memory and agent."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents.functional_policy import FunctionalPolicy
from epg_tf.agents.memory import Memory
from epg_tf.agents.policies import CategoricalPolicy, GaussianPolicy, fresh_weights
from epg_tf.agents.settings import PolicyConfig
from epg_tf.core.parallel_layers import initial_mlp
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import EnvironmentSpec, LifeKey
from epg_tf.epg.learner import make_agents
from tests import reference

P, O, A = 3, 5, 2  # noqa: E741 (the legend's letter)
HIDDEN = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
}
KEYS = [LifeKey(3, "test", 0, index) for index in range(P)]


def random_policy(activation="tanh", hidden=(7, 6), kind=GaussianPolicy, action_size=A):
    """Returns P policies with random weights everywhere."""
    policy = kind(
        P, EnvironmentSpec(O, action_size), PolicyConfig(hidden=hidden, activation=activation)
    )
    generator = np.random.default_rng(0)
    for variable in policy.variables_in_order:
        variable.assign(0.6 * generator.standard_normal(variable.shape))
    return policy


def acting_copy(policy):
    """Returns the NumPy copy that acts."""
    return policy.acting_kind(
        [variable.numpy() for variable in policy.variables_in_order], policy.config.activation
    )


@pytest.mark.parametrize("activation", sorted(HIDDEN))
@pytest.mark.parametrize("hidden", [(7,), (4, 4, 4, 4)])
def test_mean_equals_the_reference(activation, hidden):
    policy = random_policy(activation, hidden)
    observation = np.random.default_rng(1).standard_normal((P, 9, O)).astype(np.float32)
    expected = [
        reference.mlp(
            [np.float64(v[life]) for v in policy.variables_in_order[:-1]],
            np.float64(observation[life]),
            HIDDEN[activation],
        )
        for life in range(P)
    ]
    for mean in (
        policy(observation),
        tf.function(policy)(observation),
        policy.loss_input(observation),
    ):
        np.testing.assert_allclose(mean, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hidden", [(), (7,)])
def test_policies_that_see_pairs_are_networks_of_a_longer_observation(hidden):
    """The same at updates, in functions of weights and in the copy that acts; the products are
    written out by hand.
    """
    spec, config = EnvironmentSpec(3, A), PolicyConfig(hidden=hidden, observation_pairs=True)
    policy = GaussianPolicy(P, spec, config)
    assert policy.sizes == (9, *hidden, A)
    generator = np.random.default_rng(0)
    for variable in policy.variables_in_order:
        variable.assign(generator.standard_normal(variable.shape))
    a, b, c = seen = generator.standard_normal((3, P, 4)).astype(np.float32)
    longer = np.stack([*seen, a * a, a * b, a * c, b * b, b * c, c * c], axis=2)
    weights = [variable.numpy() for variable in policy.variables_in_order]
    expected = np.stack(
        [
            reference.mlp([np.float64(w[life]) for w in weights[:-1]], longer[life], np.tanh)
            for life in range(P)
        ]
    )
    observation = np.stack(seen, axis=2)
    acting = acting_copy(policy)
    for found in (
        policy(observation),
        FunctionalPolicy(policy, weights)(tf.constant(observation)),
        np.stack([acting.policy_output(observation[:, step]) for step in range(4)], axis=1),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu"])
def test_acting_copy_equals_mean_plus_deviation_times_noise(activation):
    policy = random_policy(activation)
    generator = np.random.default_rng(3)
    observation, noise = (
        generator.standard_normal((P, size)).astype(np.float32) for size in (O, A)
    )
    acting = acting_copy(policy)
    expected = policy(observation[:, None])[:, 0] + tf.exp(policy.log_std) * noise
    found = acting.act(observation, noise)
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=1e-6)
    assert found.dtype == np.float32 and found.shape == (P, A)


@pytest.mark.parametrize("kind", [GaussianPolicy, CategoricalPolicy])
def test_acting_copy_is_a_copy(kind):
    """Updates do not move it, and acting does not move the policy or its inputs."""
    policy = random_policy(kind=kind)
    weights = [variable.numpy() for variable in policy.variables_in_order]
    acting = kind.acting_kind(weights, "tanh")
    observation, noise = np.ones((P, O), np.float32), np.ones((P, A), np.float32)
    before = [weight.copy() for weight in weights]
    first, answer = acting.act(observation, noise), acting.policy_output(observation)
    for variable in policy.variables_in_order:
        variable.assign_add(tf.random.stateless_normal(variable.shape, (1, 2)))
    np.testing.assert_array_equal(acting.act(observation, noise), first)
    np.testing.assert_array_equal(acting.policy_output(observation), answer)
    assert not (acting_copy(policy).policy_output(observation) == answer).any()
    assert (
        all((a == b).all() for a, b in zip(weights, before, strict=True))
        and (observation == 1).all()
    )


def test_gaussian_noise_is_single_precision_standard_normal():
    """To the bit: every Gaussian life of the past depends on this draw."""
    found = GaussianPolicy.acting_kind.draw_noise(np.random.default_rng(5), (8, A))
    assert (
        found.tobytes()
        == np.random.default_rng(5).standard_normal((8, A), dtype=np.float32).tobytes()
    )


def test_categorical_acting_copy_chooses_the_largest_of_logits_plus_noise():
    policy = random_policy(kind=CategoricalPolicy, action_size=4)
    generator, acting = np.random.default_rng(3), acting_copy(policy)
    for _ in range(20):
        observation, noise = (
            generator.standard_normal((P, O)).astype(np.float32),
            acting.draw_noise(generator, (P, 4)),
        )
        logits = policy(observation[:, None])[:, 0].numpy()
        np.testing.assert_allclose(acting.policy_output(observation), logits, atol=1e-6, rtol=1e-6)
        found = acting.act(observation, noise)
        assert found.dtype == noise.dtype == np.float32
        assert found.tolist() == [
            [float(i == np.argmax(row)) for i in range(4)] for row in logits + noise
        ]


def test_initial_weights_have_columns_of_the_documented_norm():
    config = PolicyConfig(hidden=(64, 32), output_scale=0.01, log_std=-0.7)
    weights = fresh_weights(np.random.default_rng(0), EnvironmentSpec(O, A), config)
    assert [w.shape for w in weights] == [(O, 64), (64,), (64, 32), (32,), (32, A), (A,), (A,)]
    assert all(w.dtype == np.float32 for w in weights) and not any(b.any() for b in weights[1:-1:2])
    for kernel, norm in zip(weights[:-1:2], (1.0, 1.0, 0.01), strict=True):
        np.testing.assert_allclose(np.linalg.norm(kernel, axis=0), norm, rtol=1e-5)
    np.testing.assert_allclose(weights[-1], -0.7)


def test_agents_are_born_from_their_own_keys(tiny):
    """Weights depend on the key alone: not on the position in the shard, nor on who was there
    before.
    """
    agent = make_agents(P, EnvironmentSpec(O, A), tiny)
    agent.initialize_agents(KEYS)
    first = [variable.numpy() for variable in agent.trainable_variables_of(True, True)]
    for variable in agent.trainable_variables_of(True, True):
        variable.assign_add(tf.ones_like(variable))
    agent.initialize_agents(KEYS[::-1])
    for before, variable in zip(first, agent.trainable_variables_of(True, True), strict=True):
        np.testing.assert_array_equal(variable.numpy()[::-1], before)
    assert not agent.memory.kernel.numpy().any()
    kernel = agent.policy.dense[0].kernel.numpy()
    assert not np.array_equal(kernel[0], kernel[1])
    expected = fresh_weights(life_generator(KEYS[2], "policy"), agent.policy.spec, tiny.policy)
    np.testing.assert_array_equal(first[0][2], expected[0])


def test_an_agent_with_discrete_actions_is_a_network_without_log_deviation(tiny):
    agent = make_agents(P, EnvironmentSpec(O, A, True), tiny)
    agent.initialize_agents(KEYS)
    assert isinstance(agent.policy, CategoricalPolicy)
    assert [v.shape[1:] for v in agent.policy.variables_in_order] == [(O, 8), (8,), (8, A), (A,)]
    expected = initial_mlp(life_generator(KEYS[2], "policy"), (O, 8, A), tiny.policy.output_scale)
    for variable, values in zip(agent.policy.variables_in_order, expected, strict=True):
        np.testing.assert_array_equal(variable[2], values)
    assert {v.ref() for v in agent.policy.variables_in_order} == {
        v.ref() for v in agent.policy.trainable_variables
    }


def test_agent_without_memory(make_tiny):
    agent = make_agents(P, EnvironmentSpec(O, A), make_tiny(loss={"memory_units": 0}))
    agent.initialize_agents(KEYS)
    assert agent.memory is None and agent.memory_output() is None
    assert len(agent.trainable_variables_of(True, False)) == len(agent.policy.variables_in_order)


def test_content_equals_a_tanh_layer_fed_with_ones():
    memory = Memory(P, 4, 5)
    memory.kernel.assign(np.random.default_rng(0).standard_normal((P, 4, 5)))
    expected = [reference.memory_output(np.float64(memory.kernel[life])) for life in range(P)]
    np.testing.assert_allclose(memory(None), expected, rtol=1e-5)
    np.testing.assert_allclose(tf.function(lambda: memory(None))(), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", [GaussianPolicy, CategoricalPolicy])
def test_equals_policies_of_the_same_weights(kind):
    policy = random_policy("elu", (7, 6), kind)
    weights = [variable.numpy() for variable in policy.variables_in_order]
    for variable in policy.variables_in_order:
        variable.assign(np.zeros(variable.shape))
    functional = FunctionalPolicy(policy, weights)
    observation = np.random.default_rng(1).standard_normal((P, 9, O)).astype(np.float32)
    output, shared = functional(observation), functional.shared_output
    action = functional.distribution(observation).sample(seed=0)
    seen = functional.loss_input(observation)
    log_prob = functional.log_prob_from(output, shared, action)
    for variable, values in zip(policy.variables_in_order, weights, strict=True):
        variable.assign(values)
    np.testing.assert_array_equal(output, policy(observation))
    np.testing.assert_array_equal(shared, policy.shared_output)
    np.testing.assert_array_equal(seen, policy.loss_input(observation))
    np.testing.assert_array_equal(log_prob, policy.log_prob_from(output, shared, action))
    np.testing.assert_allclose(
        functional.distribution(observation).log_prob(action),
        np.sum(log_prob, axis=2),
        rtol=1e-5,
        atol=1e-5,
    )
