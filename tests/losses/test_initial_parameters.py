"""Tests epg_tf.losses.initial_parameters."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.parameters import split
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.initial_parameters import initial_parameters, probabilities
from epg_tf.losses.parameter_shapes import parameter_shapes
from epg_tf.losses.settings import LossConfig
from epg_tf.losses.temporal_conv import (
    PolicyChannels,
    TemporalConv,
)
from tests.losses.learned import STEPS, A, M, N, O, P, make_loss, scored


def test_initial_parameters_have_the_stated_deviations():
    channels = declared_channels(EnvironmentSpec(11, 3), LossConfig())
    shapes = parameter_shapes(channels, LossConfig())
    phi, start = initial_parameters(np.random.default_rng(0), channels, LossConfig()), 0
    assert phi.dtype == np.float32 and phi.shape == (17285,)
    for name, shape in shapes.items():
        part = phi[start : start + np.prod(shape)]
        start += part.size
        if name.endswith("bias"):
            assert not part.any()
        elif part.size > 300:
            assert np.std(part) == pytest.approx(1 / np.sqrt(np.prod(shape[:-1])), rel=0.1), name


@pytest.mark.parametrize(
    ("changes", "slope"),
    [
        ({"head": 2 * A}, 0.8),
        ({"shared_over_actions": True, "features": 4, "head": 2, "leaky_slope": 0.0}, 1.0),
    ],
)
def test_a_centred_loss_is_a_valley_around_policy_means_of_zero(
    make_tiny, make_agent, make_experience, changes, slope
):
    """Two hidden units per action: leaky(x) + leaky(-x) = slope |x|, whatever else is seen."""
    experiment = make_tiny(loss={"start": "centred", **changes})
    agent, (loss, _) = make_agent(experiment, P, O, A), make_loss(experiment, start=True)
    met = make_experience(P, N, M, O, A)
    means = tf.gather(agent.policy(met.observation[:, -M:]), STEPS, batch_dims=1)
    expected = slope * np.abs(means).sum(axis=2).mean(axis=1)
    np.testing.assert_allclose(scored(loss, agent, met), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("products", "factors", "discrete", "without"),
    [
        (A, 1, False, ()),
        (A + 3, 1, False, ()),
        (A + 3, 2, False, ()),
        (A, 3, False, ()),
        (A, 1, True, ()),
        (A, 1, False, ("log_prob",)),
    ],
)
def test_a_quadratic_loss_is_the_sum_of_squared_means_or_probabilities(
    make_tiny, make_agent, make_experience, products, factors, discrete, without
):
    """Whatever else is seen; and moved forms move its lowest point to their mean."""
    changes = {"products": products, "factors": factors, "without": without}
    experiment = make_tiny(loss={"start": "quadratic", **changes})
    agent = make_agent(experiment, P, O, A, discrete=discrete)
    loss, phi = make_loss(experiment, discrete, start=True)
    met = make_experience(P, N, M, O, A, discrete=discrete)
    means = agent.policy.loss_input(met.observation[:, -M:])
    means = tf.gather(means, STEPS, batch_dims=1).numpy()
    for moved in (0.0, 0.5):
        params = split(phi.copy(), loss.shapes)
        params["products/bias"][:, 0] = -moved  # of the first mean's first factor
        loss.load(np.concatenate([part.reshape(P, -1) for part in params.values()], axis=1))
        squares = np.square(means)
        if factors == 1:
            squares = 2.0 * (np.sqrt(1.0 + squares) - 1.0)
            squares[..., 0] = 2.0 * (np.sqrt(1.0 + np.square(means[..., 0] - moved)) - 1.0)
        else:
            squares[..., 0] = np.square(means[..., 0] - moved / 2) - (moved / 2) ** 2
        expected = squares.sum(axis=2).mean(axis=1)
        np.testing.assert_allclose(scored(loss, agent, met), expected, rtol=1e-5, atol=1e-7)


def test_probabilities_are_the_first_order_of_a_softmax():
    """At equal logits they and their slopes are those of the policy, part by part."""
    generator = np.random.default_rng(0)
    kernel, choices, step = generator.standard_normal((4, 5)), (2, 3), 1e-4
    found_kernel, found_bias = probabilities(
        kernel, np.array([1.0, 1.0, -2.0, -2.0, -2.0]), choices
    )
    np.testing.assert_allclose(found_bias, [1 / 2] * 2 + [1 / 3] * 3)
    for row, found in zip(kernel, found_kernel, strict=True):
        parts = np.split(np.exp(step * row), [2])
        after = np.concatenate([part / part.sum() for part in parts])
        np.testing.assert_allclose((after - found_bias) / step, found, atol=1e-3)
    sums = [part.sum(axis=1) for part in np.split(found_kernel, [2], axis=1)]
    np.testing.assert_allclose(sums, 0.0, atol=1e-12)


@pytest.mark.parametrize("start", ["centred", "correlating"])
def test_product_units_do_not_count_in_a_centred_start(start):
    config = LossConfig(start=start, products=5, reward=True)
    channels = declared_channels(EnvironmentSpec(11, 3), config)
    phi = initial_parameters(np.random.default_rng(0), channels, config)
    params = split(phi[None], parameter_shapes(channels, config))
    assert not params["output/kernel"][0, config.head :].any()
    assert params["products/kernel"].all()


@pytest.mark.parametrize("changes", [{"pooling": "mean"}, {"pooling": "flatten"}])
@pytest.mark.parametrize(("factor", "expected"), [(1.0, 5.76), (-1.0, -0.2 * 5.76), (0.0, 0.0)])
def test_a_correlating_start_tells_how_the_reward_goes_with_a_feature(changes, factor, expected):
    """With r = u: 0.8 (|2 u| + 0) per step, times 1 + 0.2 for both signs of the second convolution,
    times 3.
    """
    config = LossConfig(
        buffer_steps=16,
        widths=(1, 1),
        strides=(1, 1),
        filters=(5, 3),
        context=4,
        head=1,
        reward=True,
        memory_units=0,
        start="correlating",
        **changes,
    )
    channels = declared_channels(EnvironmentSpec(O, A), config)
    network, generator = TemporalConv(channels, config, M), np.random.default_rng(0)
    parts = split(initial_parameters(generator, channels, config)[None], network.shapes)
    feature = parts["convolution_1/kernel"][0, 0, :O, 0]
    assert np.linalg.norm(feature) == pytest.approx(1.0)
    parts["head/kernel"][:] = 0.0
    parts["head/kernel"][:, -4], parts["output/kernel"][:] = (
        1.0,
        1.0,
    )  # the first unit of the context alone is seen
    observation, action = (
        generator.standard_normal((1, 16, size)).astype(np.float32) for size in (O, A)
    )
    u = observation @ feature
    recorded = {
        "observation": observation,
        "action": action,
        "reward": factor * u[..., None],
        "termination": np.zeros((1, 16, 1), np.float32),
    }
    prepared = network.prepare(
        parts, {name: tf.constant(values, tf.float32) for name, values in recorded.items()}
    )
    means = tf.constant(generator.standard_normal((1, 16, A)), tf.float32)
    policy = PolicyChannels(means, means[:, :1], tf.zeros([1, A]))
    found = network.per_step(parts, prepared, policy, tf.zeros([1, 1], tf.int32))
    np.testing.assert_allclose(
        found, [[expected * np.abs(u).mean() * (0.2 if expected < 0 else 1.0)]], atol=1e-5
    )


def test_a_correlating_start_leaves_the_other_units_as_drawn():
    """Of 8, 4 and 8 units the first convolution changes all, the second all, the context half: two
    features.
    """
    channels = declared_channels(EnvironmentSpec(11, 3), LossConfig(reward=True))
    config = {"reward": True, "filters": (9, 5), "context": 8, "pooling": "mean"}
    shapes = parameter_shapes(channels, LossConfig(**config))

    def drawn(start):
        phi = initial_parameters(
            np.random.default_rng(0), channels, LossConfig(start=start, **config)
        )
        return split(phi[None], shapes)

    centred, correlating = drawn("centred"), drawn("correlating")
    for name, units in (
        ("convolution_1/kernel", 8),
        ("convolution_2/kernel", 4),
        ("context/kernel", 4),
    ):
        same = centred[name] == correlating[name]
        assert (
            same[..., units:].all()
            and not same[..., :units].all(axis=tuple(range(same.ndim - 1))).any()
        ), name
    np.testing.assert_array_equal(centred["head/kernel"], correlating["head/kernel"])
