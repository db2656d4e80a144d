"""Makes learned losses and what they are asked, and the same losses in NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.initial_parameters import initial_parameters
from epg_tf.losses.shared_conv import learned_loss
from tests import reference

P, O, A, M, N = 3, 4, 2, 8, 32  # noqa: E741 (the legend's letter)
STEPS = np.array([[7, 0, 3], [1, 2, 6], [5, 5, 4]], np.int32)


def make_loss(experiment, discrete=False, start=False, sizes=(O, A)):
    """Returns a loss of P fresh (or quite random) phi, and these, [P, D]."""
    channels = declared_channels(EnvironmentSpec(*sizes, discrete), experiment.loss)
    loss = learned_loss(P, channels, experiment.loss, M)
    generators = [np.random.default_rng(life) for life in range(P)]
    if start:
        phi = [initial_parameters(one, channels, experiment.loss) for one in generators]
    else:
        size = parameter_count(loss.shapes)
        phi = [0.4 * one.standard_normal(size).astype(np.float32) for one in generators]
    loss.load(np.stack(phi))
    return loss, np.stack(phi)


def with_extra(experience, names):
    """Returns the experience with random further channels, zero in the padding."""
    generator = np.random.default_rng(4)
    lived = (np.abs(experience.observation.numpy()).sum(axis=2, keepdims=True) > 0).astype("f4")
    drawn = {name: generator.standard_normal(lived.shape).astype("f4") * lived for name in names}
    return experience._replace(extra={name: tf.constant(drawn[name]) for name in names})


def scored(loss, agent, experience, steps=STEPS):
    """Returns the losses [P] of the minibatch."""
    return loss.minibatch_loss(agent, loss.prepare(agent, experience), tf.convert_to_tensor(steps))


def inputs_by_name(loss, agent, experience):
    """Returns what a loss is called with, its channels and the minibatch."""
    policy, newest = agent.policy, agent.policy(experience.observation[:, -M:])
    seen = policy.loss_input(experience.observation)
    values = {
        **experience._asdict(),
        **(experience.extra or {}),
        "policy_mean": seen,
        "policy_probability": seen,
        "policy_log_std": policy.shared_output,
        "policy_log_prob": policy.log_prob_from(
            newest, policy.shared_output, experience.raw_action
        ),
        "memory": agent.memory_output(),
        "minibatch": tf.constant(STEPS),
    }
    return {name: values[name] for name in [c.name for c in loss.network.channels] + ["minibatch"]}


def poisoned(values):
    """Returns values [P, ...] in which the second life has NaN alone."""
    poison = np.ones((P, *[1] * (len(values.shape) - 1)), np.float32)
    poison[1] = np.nan
    return values * poison


def life_variables(agent, life):
    """Returns policy weights and memory kernel (or None) of one life in float64."""
    weights = [np.float64(variable[life]) for variable in agent.policy.variables_in_order]
    return weights, None if agent.memory is None else np.float64(agent.memory.kernel[life])


def reference_losses(life, experiment, phi, experience, weights, kernel):
    """Returns losses of the newest M steps of one life, in float64; of one component after another
    where the loss is shared over actions.
    """
    config, discrete = experiment.loss, not len(weights) % 2
    observation, action, reward, termination, raw_action = (
        np.float64(part[life]) for part in experience[:5]
    )
    outputs = reference.mlp(weights if discrete else weights[:-1], observation)
    log_std = [] if discrete else weights[-1]

    def losses(phi, observed, one):
        if discrete:
            rows = zip(raw_action, outputs[-M:], strict=True)
            log_prob = [[reference.categorical_log_probability(*row)] for row in rows]
        else:
            log_prob = [
                [
                    reference.log_probability([a], [m], [d])
                    for a, m, d in zip(actions[one], means[one], log_std[one], strict=True)
                ]
                for actions, means in zip(raw_action, outputs[-M:], strict=True)
            ]
        return reference.loss_network(
            phi,
            config,
            M,
            observed,
            action[:, one],
            reward[:, 0] if config.reward else None,
            termination[:, 0],
            reference.softmax(outputs) if discrete else outputs[:, one],
            log_std[one],
            None if kernel is None else reference.memory_output(kernel),
            [np.float64(experience.extra[name][life]) for name in config.channels],
            np.array(log_prob),
        )

    if not config.shared_over_actions:
        return losses(np.float64(phi[life]), observation, slice(None))
    rest, slopes, bias = np.split(np.float64(phi[life]), [-2 * config.features, -config.features])
    features = np.zeros((len(observation), config.features))
    for step, row in enumerate(observation):
        for k in range(config.features):
            values = np.array([slopes[k] * number + bias[k] for number in row])
            features[step, k] = sum(reference.leaky_relu(values, 0.2)) / len(row)
    return sum(losses(rest, features, slice(d, d + 1)) for d in range(len(log_std)))


def reference_means(experiment, phi, experience, agent):
    """Returns the reference's mean losses [P] of the minibatch."""
    return [
        reference_losses(life, experiment, phi, experience, *life_variables(agent, life))[
            steps
        ].mean()
        for life, steps in enumerate(STEPS)
    ]
