"""Tests epg_tf.losses.shared_conv: one loss for any body."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import EnvironmentSpec
from epg_tf.epg.meta_parameters import initial_phi, vector_shapes
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.initial_parameters import initial_parameters
from epg_tf.losses.settings import LossConfig
from epg_tf.losses.shared_conv import SharedConvLoss, learned_loss
from epg_tf.losses.temporal_conv import TemporalConvLoss, parameter_shapes
from epg_tf.tasks.settings import TaskConfig
from tests import reference
from tests.losses.policy_gradient import assert_is_reinforce

P, O, A, M, N = 3, 4, 3, 8, 32  # noqa: E741 (the legend's letter)
STEPS = np.array([[7, 0, 3], [1, 2, 6], [5, 5, 4]], np.int32)
SHARED = {"shared_over_actions": True, "features": 4}
LIMITS = {"mean_limit": 0.1, "log_std_limits": (-3.0, -2.0)}
EVERYTHING = {"products": 2, "reward": True, "channels": ("future_reward",)}


def make_loss(experiment, start=False, sizes=(O, A)):
    """Returns P losses of fresh (or quite random) phi, and these, [P, D]."""
    channels = declared_channels(EnvironmentSpec(*sizes), experiment.loss)
    loss = learned_loss(P, channels, experiment.loss, M)
    assert isinstance(loss, SharedConvLoss)
    generators = [np.random.default_rng(life) for life in range(P)]
    if start:
        phi = [initial_parameters(one, channels, experiment.loss) for one in generators]
    else:
        size = parameter_count(loss.shapes)
        phi = [0.4 * one.standard_normal(size).astype(np.float32) for one in generators]
    loss.load(np.stack(phi))
    return loss, np.stack(phi)


def with_future(experience):
    """Returns the experience with a further channel, zero in the padding."""
    drawn = np.random.default_rng(4).standard_normal((P, N, 1)).astype(np.float32)
    lived = np.abs(experience.observation.numpy()).sum(axis=2, keepdims=True) > 0
    return experience._replace(extra={"future_reward": tf.constant(drawn * lived)})


def scored(loss, agent, experience):
    """Returns the losses [P] of the minibatch."""
    return loss.minibatch_loss(agent, loss.prepare(agent, experience), tf.constant(STEPS))


def reference_losses(life, experiment, phi, experience, agent):
    """The losses of the newest M steps of one life, in float64, one component after another."""
    config = experiment.loss
    observation, action, reward, termination, raw_action = (
        np.float64(part[life]) for part in experience[:5]
    )
    *weights, log_std = (np.float64(v[life]) for v in agent.policy.variables_in_order)
    means = reference.mlp(weights, observation)
    rest, kernel, bias = np.split(np.float64(phi[life]), [-2 * config.features, -config.features])
    features = np.zeros((len(observation), config.features))
    for step, row in enumerate(observation):
        for k in range(config.features):
            values = [kernel[k] * number + bias[k] for number in row]
            features[step, k] = sum(reference.leaky_relu(np.array(values), 0.2)) / len(row)
    total = 0.0
    for d in range(len(log_std)):
        one = slice(d, d + 1)
        log_prob = [
            [reference.log_probability(a[one], m[one], log_std[one])]
            for a, m in zip(raw_action, means[-M:], strict=True)
        ]
        memory = agent.memory
        total = total + reference.loss_network(
            rest,
            config,
            M,
            features,
            action[:, one],
            reward[:, 0] if config.reward else None,
            termination[:, 0],
            means[:, one],
            log_std[one],
            None if memory is None else reference.memory_output(np.float64(memory.kernel[life])),
            [np.float64(experience.extra[name][life]) for name in config.channels],
            np.array(log_prob),
        )
    return total


@pytest.mark.parametrize("changes", [{}, EVERYTHING, {**LIMITS, "pooling": "mean"}])
def test_values_equal_the_reference(make_tiny, make_agent, make_experience, changes):
    experiment = make_tiny(loss={**SHARED, **changes})
    agent = make_agent(experiment, P, O, A)
    loss, phi = make_loss(experiment)
    experience = with_future(make_experience(P, N, M, O, A))
    expected = [
        reference_losses(life, experiment, phi, experience, agent)[steps].mean()
        for life, steps in enumerate(STEPS)
    ]
    found = scored(loss, agent, experience).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
    assert np.std(found) > 1e-2


def test_phi_fits_every_body(make_tiny):
    """Sizes, and every number of a fresh phi, are the same; alone among the bodies' losses."""
    for changes in ({}, EVERYTHING, {**EVERYTHING, "start": "policy_gradient", "products": 1}):
        for shared in (True, False):
            settings = {**changes, "shared_over_actions": shared}
            if not shared and "start" in settings:
                settings["products"] = 6
            found = []
            for task in (TaskConfig("hidden_goal"), TaskConfig("directional_half_cheetah", 5)):
                experiment = dataclasses.replace(make_tiny(loss=settings), task=task)
                found.append((vector_shapes(experiment), initial_phi(experiment, 3)))
            (first, phi), (second, other) = found
            assert (first == second) == shared and len(phi) == parameter_count(first)
            assert (phi.tobytes() == other.tobytes()) == shared


def permuted(experience, dimensions, components):
    """Returns the same steps with dimensions and components in another order."""
    return experience._replace(
        observation=tf.gather(experience.observation, dimensions, axis=2),
        action=tf.gather(experience.action, components, axis=2),
        raw_action=tf.gather(experience.raw_action, components, axis=2),
    )


@pytest.mark.parametrize("changes", [{}, EVERYTHING])
def test_order_means_nothing(make_tiny, make_agent, make_experience, changes):
    """The loss of an agent whose weights are permuted in the same way is the same; its gradients
    are permuted.
    """
    experiment = make_tiny(loss={**SHARED, **changes})
    dimensions, components = [2, 0, 3, 1], [1, 2, 0]
    experience = with_future(make_experience(P, N, M, O, A))
    agent, other = (make_agent(experiment, P, O, A) for _ in range(2))
    loss, _ = make_loss(experiment)

    def moved(values):
        first, *between, kernel, bias, log_std = values
        return [
            tf.gather(first, dimensions, axis=1),
            *between,
            tf.gather(kernel, components, axis=2),
            *(tf.gather(part, components, axis=1) for part in (bias, log_std)),
        ]

    variables = agent.policy.variables_in_order
    for variable, value in zip(other.policy.variables_in_order, moved(variables), strict=True):
        variable.assign(value)
    with tf.GradientTape(persistent=True) as tape:
        losses = scored(loss, agent, experience)
        again = scored(loss, other, permuted(experience, dimensions, components))
    np.testing.assert_allclose(again, losses, rtol=1e-6, atol=1e-6)
    only_actions = permuted(experience, range(O), components)
    assert np.abs(scored(loss, agent, only_actions) - losses).max() > 1e-2
    expected = moved(tape.gradient(losses, variables))
    found = tape.gradient(again, other.policy.variables_in_order)
    for one, gradient in zip(found, expected, strict=True):
        scale = np.abs(gradient).max()
        assert scale > 1e-3
        np.testing.assert_allclose(one, gradient, rtol=1e-5, atol=2e-6 * scale)


@pytest.mark.parametrize("changes", [{"reward": True}, {"channels": ("future_reward",)}])
def test_a_fresh_loss_is_reinforce(make_tiny, make_agent, make_experience, changes):
    """With one product unit, whatever A is: value and gradients of all policy weights are those of
    -mean(A log pi(a | s)).
    """
    start = {"products": 1, "start": "policy_gradient"}
    experiment = make_tiny(loss={**SHARED, **start, **changes})
    agent = make_agent(experiment, P, O, A)
    agent.policy.log_std.assign(np.linspace(-0.2, 0.8, P * A).reshape(P, A))
    loss, _ = make_loss(experiment, start=True)
    experience = with_future(make_experience(P, N, M, O, A))
    name = "reward" if experiment.loss.reward else "future_reward"
    assert_is_reinforce(lambda: scored(loss, agent, experience), agent, experience, name, STEPS)


def test_a_centred_loss_is_a_valley_in_every_component(make_tiny, make_agent, make_experience):
    """Two hidden units for the mean of each component: their share is the sum of |mean|."""
    experiment = make_tiny(loss={**SHARED, "start": "centred", "head": 2, "leaky_slope": 0.0})
    agent = make_agent(experiment, P, O, A)
    loss, _ = make_loss(experiment, start=True)
    experience = make_experience(P, N, M, O, A)
    observation = tf.gather(experience.observation[:, -M:], STEPS, batch_dims=1)
    expected = tf.reduce_mean(tf.reduce_sum(tf.abs(agent.policy(observation)), axis=2), axis=1)
    np.testing.assert_allclose(scored(loss, agent, experience), expected, rtol=1e-5)


def test_lives_side_by_side_equal_lives_alone(make_tiny, make_agent, make_experience):
    experiment = make_tiny(loss={**SHARED, **EVERYTHING})
    agent = make_agent(experiment, P, O, A)
    loss, phi = make_loss(experiment)
    experience = with_future(make_experience(P, N, M, O, A))
    together = scored(loss, agent, experience).numpy()
    for life in range(P):
        row = slice(life, life + 1)
        alone = make_agent(experiment, 1, O, A)
        for one, many in zip(alone.moved_by(True, True), agent.moved_by(True, True), strict=True):
            one.assign(many[row])
        mine = learned_loss(1, loss.network.channels, experiment.loss, M)
        mine.load(phi[row])
        *fields, extra = experience
        extra = {name: values[row] for name, values in extra.items()}
        its = type(experience)(*(field[row] for field in fields), extra)
        prepared = mine.prepare(alone, its)
        found = mine.minibatch_loss(alone, prepared, tf.constant(STEPS[row]))
        np.testing.assert_allclose(found, together[row], rtol=1e-5, atol=1e-6)
    poison = np.ones((P, 1, 1), np.float32)
    poison[1] = np.nan
    ill = scored(loss, agent, experience._replace(raw_action=experience.raw_action * poison))
    assert np.isnan(ill[1]) and ill.numpy()[[0, 2]].tobytes() == together[[0, 2]].tobytes()


def test_it_is_off_by_default(make_tiny):
    """Then features change nothing, and the loss is the one that knows its body."""
    channels = declared_channels(EnvironmentSpec(O, A), LossConfig())
    shapes = parameter_shapes(channels, LossConfig())
    assert shapes == parameter_shapes(channels, LossConfig(features=3)) and len(shapes) == 10
    assert type(learned_loss(P, channels, make_tiny().loss, M)) is TemporalConvLoss


def test_layers_have_names_and_come_back_from_their_config(make_tiny):
    experiment = make_tiny(loss={**SHARED, **EVERYTHING})
    loss, _ = make_loss(experiment)
    assert [layer.name for layer in loss.layers][-3:] == ["products", "output", "features"]
    inputs = 4 + 1 + 1 + 1 + 1 + 1 + 3 + 1  # features ... memory, future reward
    assert loss.shapes["convolution_1/kernel"] == (4, inputs, 3)
    assert loss.shapes["products/kernel"] == (inputs + 5 + 1, 6)
    assert math.prod(loss.shapes["features/kernel"]) == 4
    again = SharedConvLoss.from_config(loss.get_config())
    assert again.network == loss.network and again.shapes == loss.shapes


def test_what_it_cannot_serve_is_refused(make_tiny):
    config = make_tiny(loss=SHARED).loss
    with pytest.raises(ConfigError, match=r"config.loss.shared_over_actions=True .* discrete"):
        declared_channels(EnvironmentSpec(O, A, True), config)
    with pytest.raises(ConfigError, match=r"'correlating' .*shared_over_actions=True"):
        make_tiny(loss={**SHARED, "reward": True, "start": "correlating"})
