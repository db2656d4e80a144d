"""Tests epg_tf.core.optimizers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.optimizers import adam_rows, adam_update
from tests import reference

GRADIENTS = (
    np.random.default_rng(0).standard_normal((12, 3, 4)) * np.logspace(-4, 4, 12)[:, None, None]
)


def run(gradients, dtype=tf.float32, compiled=False, learning_rate=0.01, beta_1=0.9):
    """Returns the sum of all updates after each of the steps, as an array."""
    function = tf.function(adam_update) if compiled else adam_update
    first = second = total = tf.zeros(gradients.shape[1:], dtype)
    path = []
    for number, gradient in enumerate(gradients):
        step = tf.constant(number + 1.0, dtype)
        update, first, second = function(
            tf.constant(gradient, dtype),
            first,
            second,
            step,
            learning_rate=learning_rate,
            beta_1=beta_1,
        )
        total += update
        path.append(total.numpy())
    return np.array(path)


@pytest.mark.parametrize(
    ("beta_1", "compiled"), [(0.9, True), (0.9, False), (0.0, False), (0.5, False)]
)
def test_equals_the_reference(beta_1, compiled):
    settings = {"learning_rate": 0.01, "beta_1": beta_1}
    adam = reference.Adam(0.01, beta_1, 0.999)
    expected = np.cumsum([adam.change(gradient) for gradient in GRADIENTS], axis=0)
    np.testing.assert_allclose(
        run(GRADIENTS, tf.float64, compiled, **settings), expected, rtol=1e-10
    )
    np.testing.assert_allclose(
        run(GRADIENTS, tf.float32, compiled, **settings), expected, rtol=1e-3, atol=1e-6
    )


def test_equals_keras():
    """Epsilon, which Keras adds before the bias correction, is nothing beside such gradients."""
    large = 1e8 * GRADIENTS
    variable = tf.Variable(np.zeros(GRADIENTS.shape[1:]))
    optimizer = tf.keras.optimizers.Adam(0.01, 0.9, 0.999, epsilon=1e-8)
    path = run(large, tf.float64, learning_rate=0.01)
    for gradient, expected in zip(large, path, strict=True):
        optimizer.apply_gradients([(tf.constant(gradient), variable)])
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-4)


def test_first_step_is_the_learning_rate_against_the_gradient():
    np.testing.assert_allclose(
        run(GRADIENTS[-1:], learning_rate=0.01)[0], -0.01 * np.sign(GRADIENTS[-1]), rtol=1e-5
    )


def test_without_momentum_the_step_follows_the_newest_gradient_alone():
    """beta_1 = 0, the outer loop: the sign of every step is against its own gradient."""
    path = run(GRADIENTS, learning_rate=0.01, beta_1=0.0)
    steps = np.diff(path, axis=0, prepend=np.zeros((1, 3, 4)))
    np.testing.assert_array_equal(np.sign(steps), -np.sign(GRADIENTS))


def test_rate_zero_and_gradient_zero_move_nothing():
    assert not run(GRADIENTS, learning_rate=0.0).any()
    assert not run(0.0 * GRADIENTS, learning_rate=0.01).any()


def test_rows_do_not_mix():
    spoilt = GRADIENTS.copy()
    spoilt[3, 1] = np.nan
    one, other = run(GRADIENTS, learning_rate=0.01), run(spoilt, learning_rate=0.01)
    assert one[:, [0, 2]].tobytes() == other[:, [0, 2]].tobytes() and np.isnan(other[3:, 1]).all()


def test_rows_that_take_a_step_equal_those_of_adam_and_the_others_stay():
    gradient, first, second = (
        tf.constant(np.random.default_rng(seed).random((3, 4)), tf.float64) for seed in range(3)
    )
    step = tf.constant([[1.0], [5.0], [9.0]], tf.float64)
    active = tf.constant([[1.0], [0.0], [1.0]], tf.float64)
    expected = adam_update(gradient, first, second, step, learning_rate=0.01)
    found = adam_rows(gradient, (first, second), step, active, 0.01)
    for one, other, before in zip(found, expected, (tf.zeros([3, 4]), first, second), strict=True):
        np.testing.assert_allclose(one[0], other[0], rtol=1e-12)
        np.testing.assert_array_equal(one[1], before[1])
        np.testing.assert_allclose(one[2], other[2], rtol=1e-12)
