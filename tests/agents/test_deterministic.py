"""Tests epg_tf.agents.deterministic and the layers with norm in it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents.acting import ActingDeterministic
from epg_tf.agents.deterministic import (
    action_values,
    initial_weights,
    policy_action,
)
from epg_tf.core.parallel_layers import parallel_norm_dense
from tests import metagenrl_reference as slow

P, O, A = 3, 5, 2  # noqa: E741 (the legend's letter)


def make_policy(hidden, dtype=np.float64):
    """Returns weights of P policies, layer norms included, far from their start."""
    return slow.random_network(np.random.default_rng(0), (P,), (O, *hidden, A), dtype)


def draw(*shape, seed=2, dtype=np.float64):
    """Returns standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tensors(parts):
    """Returns arrays as tensors."""
    return [tf.constant(part) for part in parts]


def layer_of(width, units, twins):
    """Returns inputs and weights of a dense layer with norm, far from their start."""
    shapes = ((width, units), (units,), (units,), (units,))
    weights = [draw(P, *twins, *shape, seed=3 + number) for number, shape in enumerate(shapes)]
    return draw(P, *(1 for _ in twins), 4, width), weights


@pytest.mark.parametrize("twins", [(), (2,)])
@pytest.mark.parametrize(("width", "units"), [(6, 5), (2, 24)])
def test_norm_layers_equal_the_reference(width, units, twins):
    """Also where inputs are few, which are then scaled instead of the outputs."""
    inputs, weights = layer_of(width, units, twins)
    found = parallel_norm_dense(tf.constant(inputs), *tensors(weights)).numpy()
    assert found.shape == (P, *twins, 4, units)
    for *place, row in np.ndindex(found.shape[:-1]):
        kernel, bias, scale, shift = (part[tuple(place)] for part in weights)
        outputs = inputs[place[0]].reshape(4, width)[row] @ kernel + bias
        expected = np.maximum(slow.layer_norm(outputs, scale, shift), 0.0)
        np.testing.assert_allclose(found[(*place, row)], expected, rtol=1e-9, atol=1e-12)
    assert 0.2 < (found > 0).mean() < 0.8


@pytest.mark.parametrize(("width", "units"), [(3, 4), (1, 12)])
def test_norm_layers_of_equal_units_are_the_shift(width, units):
    shift = draw(1, units)
    found = parallel_norm_dense(
        draw(1, 2, width), np.full((1, width, units), 5.0), np.ones((1, units)), shift, shift
    )
    expected = np.repeat(np.maximum(shift, 0.0)[:, None], 2, axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("twins", [(), (2,)])
@pytest.mark.parametrize(("width", "units"), [(4, 4), (1, 12)])
def test_gradients_of_norm_layers_can_be_differentiated_again(width, units, twins):
    """Both orders against differences, at points away from the kinks of ReLU."""
    inputs, weights = layer_of(width, units, twins)
    parts = [inputs, *weights]
    ways = [draw(*part.shape, seed=20 + number) for number, part in enumerate(parts)]
    weight = draw(P, *twins, 4, units, seed=30)

    def slope_along(shift):
        moved = [tf.constant(p + shift * way) for p, way in zip(parts, ways, strict=True)]
        with tf.GradientTape() as outer:
            outer.watch(moved)
            with tf.GradientTape() as inner:
                inner.watch(moved)
                value = tf.reduce_sum(weight * parallel_norm_dense(*moved) ** 2)
            slopes = inner.gradient(value, moved)
            along = sum(tf.reduce_sum(s * way) for s, way in zip(slopes, ways, strict=True))
        second = outer.gradient(along, moved)
        curvature = sum(tf.reduce_sum(s * way) for s, way in zip(second, ways, strict=True))
        return float(value), float(along), float(curvature)

    (low, slope_low, _), (_, slope, curvature), (high, slope_high, _) = map(
        slope_along, (-1e-6, 0.0, 1e-6)
    )
    assert slope == pytest.approx((high - low) / 2e-6, rel=1e-6)
    assert curvature == pytest.approx((slope_high - slope_low) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("hidden", [(7,), (4, 4, 4)])
@pytest.mark.parametrize("axes", [(), (2, 3)])
def test_policy_equals_the_reference(hidden, axes):
    weights, observation = make_policy(hidden), draw(P, *axes, O)
    for run in (policy_action, tf.function(policy_action)):
        found = run(tf.constant(observation), tensors(weights)).numpy()
        assert found.shape == (P, *axes, A)
        for member, *place in np.ndindex(P, *axes):
            expected = slow.policy(
                [part[member] for part in weights], observation[(member, *place)]
            )
            np.testing.assert_allclose(found[(member, *place)], expected, rtol=1e-9)


@pytest.mark.parametrize("axes", [(4,), (2, 3)])
def test_twin_critics_equal_two_single_networks(axes):
    sizes = (O + A, 7, 6, 1)
    weights = slow.random_network(np.random.default_rng(1), (P, 2), sizes, np.float64)
    observation, action = draw(P, *axes, O), draw(P, *axes, A, seed=3)
    found = action_values(tf.constant(observation), tf.constant(action), tensors(weights)).numpy()
    assert found.shape == (P, 2, *axes)
    for member, twin, *place in np.ndindex(found.shape):
        expected = slow.action_value(
            [part[member, twin] for part in weights],
            observation[(member, *place)],
            action[(member, *place)],
        )
        assert found[(member, twin, *place)] == pytest.approx(expected, rel=1e-9)
    for twin in range(2):
        alone = action_values(observation, action, tensors(part[:, twin] for part in weights))
        np.testing.assert_allclose(alone, found[:, twin], rtol=1e-12)


@pytest.mark.parametrize("hidden", [(7,), (64, 64)])
def test_the_acting_copy_equals_the_policy(hidden):
    weights, observation = make_policy(hidden, dtype=np.float32), draw(P, O, dtype=np.float32)
    given = observation.copy()
    found = ActingDeterministic(weights).act(observation)
    assert found.dtype == np.float32 and found.shape == (P, A)
    np.testing.assert_allclose(found, policy_action(observation, tensors(weights)), atol=1e-6)
    np.testing.assert_array_equal(observation, given)


def test_initial_weights_fill_their_bounds():
    """Kernels and biases within 1 / sqrt(fan-in), uniformly; layer norms that change nothing."""
    sizes = (9, 350, 350, 4)
    weights = initial_weights(np.random.default_rng(0), sizes)
    shapes = []
    for before, after in zip(sizes[:-1], sizes[1:], strict=True):
        shapes += [(before, after), (after,), (after,), (after,)]
    assert [weight.shape for weight in weights] == shapes[:-2]
    assert all(weight.dtype == np.float32 for weight in weights)
    for layer, before in enumerate(sizes[:-1]):
        limit = 1.0 / math.sqrt(before)
        for part in weights[4 * layer : 4 * layer + 2]:
            assert np.abs(part).max() <= limit
            if part.size > 100:
                assert np.abs(part).max() > 0.97 * limit and part.std() == pytest.approx(
                    limit / 3**0.5, rel=0.1
                )
                assert abs(part.mean()) < 0.2 * limit
        for part, start in zip(
            weights[4 * layer + 2 : 4 * layer + 4][: 2 * (layer < 2)], (1.0, 0.0), strict=False
        ):
            np.testing.assert_array_equal(part, start)
    again, other = (initial_weights(np.random.default_rng(seed), sizes) for seed in (0, 1))
    assert all(one.tobytes() == two.tobytes() for one, two in zip(weights, again, strict=True))
    assert weights[0].tobytes() != other[0].tobytes()
