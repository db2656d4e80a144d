"""Tests `policy.state_dependent_std`: policies, losses and lives whose deviations depend on the
state.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents.policies import StateGaussianPolicy, fresh_weights, policy_shapes
from epg_tf.agents.settings import PolicyConfig
from epg_tf.artifacts.saved_policy import TrainedPolicy
from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import EnvironmentSpec, LifeKey
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings
from epg_tf.epg.learner import make_agents
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.initial_parameters import initial_parameters
from epg_tf.losses.shared_conv import learned_loss
from epg_tf.losses.surrogates import SURROGATES
from epg_tf.tasks.registry import make_family
from tests import reference

P, O, A, N, M = 3, 5, 2, 32, 8  # noqa: E741 (the legend's letter)
SPEC = EnvironmentSpec(O, A)
STEPS = tf.constant([[7, 0, 3], [1, 2, 6], [5, 5, 4]])
KEYS = [LifeKey(1, "test", 0, index) for index in range(4)]


@pytest.fixture
def make_both(make_tiny, make_agent):
    """A function: settings of the loss -> experiment and agents as usual, and the same with
    networks that return the same deviations in all states.
    """

    def make(**loss):
        usual = make_tiny(loss=loss)
        by_state = make_tiny(loss=loss, policy={"state_dependent_std": True})
        agent, other = make_agent(usual, P, O, A), make_agents(P, SPEC, by_state)
        *layers, log_std = (v.numpy() for v in agent.policy.variables_in_order)
        kernel, bias = layers[-2:]
        layers[-2:] = (
            np.concatenate([kernel, np.zeros_like(kernel)], 2),
            np.concatenate([bias, log_std], 1),
        )
        for variable, values in zip(other.policy.variables_in_order, layers, strict=True):
            variable.assign(values)
        if agent.memory is not None:
            other.memory.kernel.assign(agent.memory.kernel)
        return (usual, agent), (by_state, other)

    return make


def test_distribution_and_acting_equal_the_reference():
    policy = StateGaussianPolicy(P, SPEC, PolicyConfig(hidden=(7,), state_dependent_std=True))
    generator = np.random.default_rng(0)
    for variable in policy.variables_in_order:
        variable.assign(0.6 * generator.standard_normal(variable.shape))
    observation = generator.standard_normal((P, 4, O)).astype(np.float32)
    action = generator.standard_normal((P, 4, A)).astype(np.float32)
    found = policy.distribution(observation).log_prob(action)
    parts = policy.log_prob_from(policy(observation), policy.shared_output, action)
    weights = [variable.numpy() for variable in policy.variables_in_order]
    acting = policy.acting_kind(weights, "tanh").act(observation[:, 0], action[:, 0])
    for life in range(P):
        output = reference.mlp([w[life] for w in weights], np.float64(observation[life]))
        means, log_stds = output[:, :A], output[:, A:]
        assert np.ptp(log_stds, axis=0).min() > 0.01
        rows = zip(action[life], means, log_stds, strict=True)
        expected = [reference.log_probability(*row) for row in rows]
        np.testing.assert_allclose(found[life], expected, rtol=1e-4)
        np.testing.assert_allclose(tf.reduce_sum(parts[life], axis=1), expected, rtol=1e-4)
        moved = means[0] + np.exp(log_stds[0]) * action[life, 0]
        np.testing.assert_allclose(acting[life], moved, rtol=1e-5, atol=1e-6)


def test_a_new_policy_begins_with_the_configured_deviation(make_tiny):
    config = make_tiny(policy={"state_dependent_std": True, "log_std": -0.7}).policy
    weights = fresh_weights(np.random.default_rng(0), SPEC, config)
    assert [w.shape for w in weights] == list(policy_shapes(SPEC, config).values())
    assert weights[-2].shape == (8, 2 * A)
    assert weights[-1].tolist() == pytest.approx([0, 0, -0.7, -0.7])


@pytest.mark.parametrize(
    "loss",
    [{}, {"products": 2, "reward": True}, {"memory_units": 0}, {"shared_over_actions": True}]
    + [{"shared_over_actions": True, "products": 2, "memory_units": 0}],
)
def test_the_same_deviations_give_the_same_learned_loss(make_both, make_experience, loss):
    """The parameters of both losses mean the same; the gradient reaches the deviations."""
    experience, found = make_experience(P, N, M, O, A), []
    for experiment, agent in make_both(**loss):
        by_state = experiment.policy.state_dependent_std
        channels = declared_channels(SPEC, experiment.loss, by_state)
        network = learned_loss(P, channels, experiment.loss, M)
        size = P, parameter_count(network.shapes)
        network.load(0.4 * np.random.default_rng(0).standard_normal(size).astype(np.float32))
        last = agent.policy.variables_in_order[-1]
        with tf.GradientTape() as tape:
            losses = network.minibatch_loss(agent, network.prepare(agent, experience), STEPS)
        found.append((losses.numpy(), tape.gradient(losses, last).numpy()[:, -A:]))
    (one, deviations), (other, biases) = found
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deviations, biases, rtol=1e-4, atol=1e-5)
    assert np.abs(biases).min() > 1e-6


@pytest.mark.parametrize("kind", sorted(SURROGATES))
def test_the_same_deviations_give_the_same_surrogate(make_both, make_experience, kind):
    experience, found = make_experience(P, N, M, O, A), []
    (usual, agent), (_, other) = make_both()
    other.value.load_members(
        [[v.numpy()[life] for v in agent.value.trainable_variables] for life in range(P)]
    )
    for each in (agent, other):
        surrogate = SURROGATES[kind](usual.surrogate)
        prepared = surrogate.prepare(each, experience)
        found.append(surrogate.minibatch_loss(each, prepared, STEPS))
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_a_centred_loss_holds_the_means_alone(make_tiny):
    experiment = make_tiny(policy={"state_dependent_std": True}, loss={"start": "centred"})
    usual, by_state = (
        initial_parameters(
            np.random.default_rng(0),
            declared_channels(SPEC, experiment.loss, each),
            experiment.loss,
        )
        for each in (False, True)
    )
    np.testing.assert_array_equal(usual, by_state)


def test_agents_learn_deviations_that_depend_on_the_state(make_tiny):
    """With a limit of the KL divergence; the saved policy acts as the agent does."""
    experiment = make_tiny(policy={"state_dependent_std": True}, inner={"kl_limit": 0.5})
    loop = InnerLoop(experiment, make_family(experiment.task), measure_kl=True)
    phi = np.stack([initial_phi(experiment, seed) for seed in range(4)])
    results = loop.run(KEYS, phi, InnerLoopSettings(0.0, 1e-2))
    assert not results.failed.any() and np.isfinite(results.kl).all()
    kernel = loop.learner.agent.policy.dense[-1].kernel.numpy()
    assert (np.abs(kernel[:, :, 2:]).max(axis=(1, 2)) > 0.01).all()
    shift, scale = (part[0] for part in loop.observation_scaling)
    weights = [weight[0] for weight in loop.learner.weights()]
    saved = TrainedPolicy(loop.family, weights, experiment.policy.activation, shift, scale)
    seen = np.random.default_rng(0).standard_normal((7, 6)).astype(np.float32)
    normalised = tf.constant((seen - shift) * scale)[None]
    expected = loop.learner.agent.policy.distribution(tf.repeat(normalised, 4, axis=0))
    step = saved.time_step_spec._replace(observation=tf.constant(seen))
    found = saved._distribution(step, ()).action
    np.testing.assert_allclose(found.stddev(), expected.stddev()[0], rtol=1e-5)
    np.testing.assert_allclose(found.mean(), expected.mean()[0], rtol=1e-4, atol=1e-6)


def test_discrete_actions_have_no_deviation(make_tiny):
    with pytest.raises(ConfigError, match="config.policy.state_dependent_std=True"):
        declared_channels(EnvironmentSpec(O, A, True), make_tiny().loss, True)
