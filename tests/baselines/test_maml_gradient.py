"""Tests epg_tf.baselines.maml_gradient: against a case by hand, and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents.policies import CategoricalPolicy, GaussianPolicy
from epg_tf.agents.settings import PolicyConfig
from epg_tf.baselines.maml_gradient import adapted, compiled, meta_gradient
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.surrogates import Targets

P, T, O, A = 3, 9, 4, 2  # noqa: E741 (the legend's letter)
SPEC, CONFIG = EnvironmentSpec(O, A), PolicyConfig(hidden=(5,))
POLICY = GaussianPolicy(1, SPEC, CONFIG)
ALPHA = 0.3


def random_weights(seed):
    """Returns weights of P policies, float64."""
    generator = np.random.default_rng(seed)
    shapes = [variable.shape[1:] for variable in POLICY.variables_in_order]
    return [tf.constant(0.5 * generator.standard_normal((P, *shape))) for shape in shapes]


def random_samples(seed):
    """Returns samples of P policies, float64; their outputs are those of no particular policy."""
    generator = np.random.default_rng(seed)
    sizes = {"observation": (P, T, O), "action": (P, T, A), "advantage": (P, T)}
    found = {name: generator.standard_normal(size) for name, size in sizes.items()}
    return Targets(
        **found,
        value_target=np.zeros((P, T)),
        policy_output=0.3 * generator.standard_normal((P, T, A)),
        shared_output=0.3 * generator.standard_normal((P, A)),
    )


def losses(weights, batches, after, clip=0.5):
    """Returns the outer losses [P] alone."""
    return meta_gradient(POLICY, weights, batches, after, ALPHA, clip)[0].numpy()


@pytest.mark.parametrize("steps", [1, 3])
def test_the_second_order_gradient_is_that_of_finite_differences(steps):
    weights = random_weights(0)
    batches, after = [random_samples(1 + step) for step in range(steps)], random_samples(9)
    _, gradients = meta_gradient(POLICY, weights, batches, after, ALPHA, 0.5)
    generator, small = np.random.default_rng(2), 1e-6
    direction = [generator.standard_normal(part.shape) for part in weights]
    up, down = (
        losses(
            [part + sign * small * move for part, move in zip(weights, direction, strict=True)],
            batches,
            after,
        )
        for sign in (1, -1)
    )
    slope = sum(
        (gradient.numpy() * move).reshape(P, -1).sum(axis=1)
        for gradient, move in zip(gradients, direction, strict=True)
    )
    np.testing.assert_allclose((up - down) / (2 * small), slope, rtol=1e-6, atol=1e-8)


def test_a_bandit_by_hand():
    """One action of mean b and log deviation s, no observation: b and s adapt to

    b + alpha mean(A (a - b)) / sigma^2,   s + alpha mean(A ((a - b)^2 / sigma^2 - 1)),

    and PPO's ratio is 1 where the samples are of the adapted policy.
    """
    policy = GaussianPolicy(1, EnvironmentSpec(1, 1), PolicyConfig(hidden=()))
    b, s, action, advantage = 0.2, -0.4, np.array([0.5, -0.3, 0.9]), np.array([1.5, -0.5, 0.3])
    weights = [tf.constant(v, tf.float64) for v in ([[[0.0]]], [[b]], [[s]])]
    nothing = np.zeros((1, 3, 1))

    def samples(action, advantage, mean, log_std):
        return Targets(
            nothing,
            action[None, :, None],
            advantage[None],
            np.zeros((1, 3)),
            np.full((1, 3, 1), mean),
            np.full((1, 1), log_std),
        )

    batch, precision = samples(action, advantage, b, s), np.exp(-2 * s)
    to_b = np.mean(advantage * (action - b)) * precision
    to_s = np.mean(advantage * ((action - b) ** 2 * precision - 1))
    _, mean, log_std = adapted(policy, weights, [batch], ALPHA)
    new_b, new_s = b + ALPHA * to_b, s + ALPHA * to_s
    np.testing.assert_allclose([mean[0, 0], log_std[0, 0]], [new_b, new_s], rtol=1e-12)

    later, worth = np.array([0.1, 0.8, -1.0]), np.array([0.7, -0.2, 1.1])
    after, sharper = samples(later, worth, new_b, new_s), np.exp(-2 * new_s)
    slope_b = -np.mean(worth * (later - new_b)) * sharper
    slope_s = -np.mean(worth * ((later - new_b) ** 2 * sharper - 1))
    loss, (_, by_b, by_s) = meta_gradient(policy, weights, [batch], after, ALPHA, 0.2)
    np.testing.assert_allclose(loss, [-np.mean(worth)], rtol=1e-12)
    b_by_b = 1 - ALPHA * np.mean(advantage) * precision
    s_by_b = -2 * ALPHA * to_b
    b_by_s = -2 * ALPHA * to_b
    s_by_s = 1 - 2 * ALPHA * np.mean(advantage * (action - b) ** 2) * precision
    np.testing.assert_allclose(by_b, [[slope_b * b_by_b + slope_s * s_by_b]], rtol=1e-12)
    np.testing.assert_allclose(by_s, [[slope_b * b_by_s + slope_s * s_by_s]], rtol=1e-12)


def test_a_lifes_gradient_does_not_depend_on_its_neighbours():
    weights, batch, after = random_weights(0), random_samples(1), random_samples(9)
    whole = meta_gradient(POLICY, weights, [batch], after, ALPHA, 0.5)[1]

    def disturbed(values):
        return tf.concat([values[:1], 7.0 + values[1:]], axis=0)

    others = [Targets(*map(disturbed, part)) for part in (batch, after)]
    moved = meta_gradient(
        POLICY, [disturbed(part) for part in weights], others[:1], others[1], ALPHA, 0.5
    )[1]
    for one, other in zip(whole, moved, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        assert np.abs(one[1:] - other[1:]).max() > 0


def test_policies_that_choose_adapt_towards_what_paid():
    functions = compiled(EnvironmentSpec(2, 3), PolicyConfig(hidden=()), 1.0, 0.2)
    policy = CategoricalPolicy(1, EnvironmentSpec(2, 3), PolicyConfig(hidden=()))
    weights = [np.zeros((1, *v.shape[1:]), np.float32) for v in policy.variables_in_order]
    action = np.eye(3, dtype=np.float32)[None]
    observation = np.ones((1, 3, 2), np.float32)
    output, shared = functions.outputs(weights, observation)
    advantage = np.array([[-1.0, 2.0, -1.0]], np.float32)
    batch = Targets(observation, action, advantage, np.zeros_like(advantage), output, shared)
    _, bias = functions.adapted(weights, [batch])
    np.testing.assert_allclose(bias, [[-1 / 3, 2 / 3, -1 / 3]], atol=1e-6)
