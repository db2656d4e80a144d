"""Tests epg_tf.losses.surrogates."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.losses.surrogates import SURROGATES, Steps, advantages, standardised
from tests import reference

P, O, A, M, N = 3, 4, 2, 12, 20  # noqa: E741 (the legend's letter)
STEPS = np.array([[7, 0, 3], [1, 2, 11], [5, 5, 4]], np.int32)


def both_ways(function):
    """Returns the function as it is and compiled."""
    return function, tf.function(function)


def test_literal_advantages():
    """gamma 0.5, lambda 1: three steps, one end in the middle; by hand."""
    one = np.ones((1, 3), np.float32)
    never, middle = np.zeros((1, 3), np.float32), np.array([[0.0, 1.0, 0.0]], np.float32)
    ended = advantages(Steps(one, 0 * one, 4 * one, middle, never), 0.5, 1.0)
    np.testing.assert_allclose(ended, [[1.5, 1.0, 3.0]])  # 1 + 0.5 * 1; 1; 1 + 0.5 * 4
    cut = advantages(Steps(one, 0 * one, 4 * one, never, middle), 0.5, 1.0)
    np.testing.assert_allclose(cut, [[2.5, 3.0, 3.0]])  # 1 + 0.5 * 3; 1 + 0.5 * 4; 1 + 0.5 * 4


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, -5.3, 1e-20, 3e6])
def test_what_does_not_vary_has_no_advantage(constant):
    """Its rounding errors are not scaled up to a deviation of 1."""
    found = standardised(tf.fill([2, 1000], constant)).numpy()
    np.testing.assert_allclose(found, np.zeros((2, 1000)), atol=0.05)
    rounded = constant * (1 + 1e-7 * np.random.default_rng(0).standard_normal((2, 1000)))
    assert np.abs(standardised(tf.constant(rounded, tf.float32)).numpy()).max() < 0.1


def life_parts(agent, experience, life):
    """Returns policy weights, value weights, newest observations and raw parts of one life in
    float64.
    """
    weights = [np.float64(v[life]) for v in agent.policy.variables_in_order]
    layers = [weight for layer in agent.value.dense for weight in (layer.kernel, layer.bias)]
    value = [np.asarray(weight[life], np.float64) for weight in layers]
    return (
        weights,
        value,
        np.float64(experience.observation[life, -M:]),
        [np.float64(p[life]) for p in experience[4:9]],
    )


def estimates(config, value_weights, observation, parts):
    """Returns generalised advantage estimates and values of one life.

    Between ends the next state is the next row; the random test data does not respect that, so the
    rows' values are taken.
    """
    _, reward, terminated, truncated, following = parts
    value = reference.mlp(value_weights, observation)[:, 0]
    next_value = reference.mlp(value_weights, following)[:, 0]
    going_on = (terminated + truncated)[:-1] == 0
    next_value[:-1][going_on] = value[1:][going_on]
    advantage = reference.gae(
        reward, value, next_value, terminated, truncated, config.discount, config.gae_lambda
    )
    return advantage, value


def slow_loss(config, old, new, observation, parts, steps):
    """The loss of one life's minibatch; `old` and `new` are (policy weights, value weights)."""
    action, reward, terminated, truncated, _ = parts
    discrete = not len(old[0]) % 2
    log_probability, divergence = reference.log_probability, reference.kl_divergence
    if discrete:
        log_probability = reference.categorical_log_probability
        divergence = reference.categorical_kl

    def policy(weights):
        layers, shared = (weights, []) if discrete else (weights[:-1], weights[-1:])
        return reference.mlp(layers, observation)[steps], *shared

    advantage, value = estimates(config, old[1], observation, parts)
    target = (advantage + value)[steps]
    if config.kind == "reinforce":
        advantage = reference.discounted_returns(reward, terminated + truncated, config.discount)
    advantage = reference.standardised(advantage)[steps]
    value = reference.mlp(new[1], observation)[steps, 0]
    if config.kind == "ppo":
        return reference.ppo_loss(
            action[steps],
            advantage,
            target,
            policy(old[0]),
            policy(new[0]),
            value,
            config.clip,
            config.kl_coefficient,
            config.value_coefficient,
            log_probability,
            divergence,
        )
    loss = reference.reinforce_loss(action[steps], advantage, policy(new[0]), log_probability)
    if config.kind == "reinforce":
        return loss
    return loss + config.value_coefficient * np.mean(np.square(value - target))


@pytest.mark.parametrize(
    ("changes", "discrete"),
    [
        *(({"kind": kind}, discrete) for kind in SURROGATES for discrete in (False, True)),
        ({"kind": "ppo", "clip": 0.02, "kl_coefficient": 0.5}, False),
        ({"kind": "ppo", "clip": 0.02, "kl_coefficient": 0.5}, True),
        ({"kind": "ppo", "value_coefficient": 0.0}, False),
        ({"kind": "ppo", "discount": 0.5, "gae_lambda": 0.0}, False),
        ({"kind": "reinforce", "discount": 0.0}, False),
        (
            {"kind": "reinforce_with_values", "value_coefficient": 0.3, "gae_lambda": 0.5},
            False,
        ),
    ],
)
def test_values_and_gradients_equal_the_reference(
    make_tiny, make_agent, make_experience, changes, discrete
):
    """Targets are of the agent as it was at `prepare`; ratio, divergence and values of the agent as
    it is. Gradients of policy and value network are finite differences.
    """
    experiment = make_tiny(surrogate={"value_hidden": (3,), **changes}, policy={"hidden": (3,)})
    config, met = experiment.surrogate, make_experience(P, N, M, O, A, discrete=discrete)
    agent = make_agent(experiment, P, O, A, discrete=discrete)
    loss = SURROGATES[config.kind](config)
    old = [life_parts(agent, met, life)[:2] for life in range(P)]
    prepared = loss.prepare(agent, met)
    for number, variable in enumerate(agent.trainable_variables_of(False, True)):
        variable.assign_add(0.1 * np.random.default_rng(number).standard_normal(variable.shape))
    policy = agent.policy.variables_in_order
    values = [w for layer in agent.value.dense for w in (layer.kernel, layer.bias)]
    ways = both_ways(lambda: loss.minibatch_loss(agent, prepared, tf.constant(STEPS)))
    for score in ways if len(changes) == 1 else ways[:1]:
        with tf.GradientTape() as tape:
            losses = score()
        gradients = tape.gradient(losses, [*policy, *values], unconnected_gradients="zero")
    for life, steps in enumerate(STEPS):
        weights, value, observation, parts = life_parts(agent, met, life)

        def slow(moved, life=life, observation=observation, parts=parts, steps=steps):
            new = moved[: len(policy)], moved[len(policy) :]
            return slow_loss(config, old[life], new, observation, parts, steps)

        assert losses[life].numpy() == pytest.approx(slow([*weights, *value]), rel=2e-5, abs=1e-5)
        expected = reference.finite_differences(slow, [*weights, *value])
        for found, other in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(found[life], other, rtol=1e-3, atol=1e-5)
        assert min(np.abs(other).max() for other in expected[: len(policy)]) > 1e-3
