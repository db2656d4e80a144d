"""Tests epg_tf.losses.backward_lstm against an LSTM that TensorFlow differentiates step by step."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.losses.backward_lstm import backward_lstm

P, B, T, WIDTH, UNITS = 2, 3, 5, 4, 3


def plain_lstm(inputs, kernel, bias, mask):
    """The same network, from its definition."""
    hidden = cell = tf.zeros([P, B, UNITS], inputs.dtype)
    found = []
    for step in reversed(range(T)):
        seen = tf.concat([inputs[:, :, step], hidden], axis=-1)
        candidate, forget, take, give = tf.split(seen @ kernel + bias[:, None], 4, axis=-1)
        present = mask[:, :, step, None]
        cell = tf.sigmoid(forget) * cell + tf.sigmoid(take) * tf.tanh(candidate)
        hidden = present * tf.sigmoid(give) * tf.tanh(cell)
        cell *= present
        found.append(hidden)
    return tf.stack(found[::-1], axis=2)


def derivatives(lstm, arrays):
    """Outputs, first derivatives of a sum of squares, and those of the sum of their squares."""
    *weights, mask = map(tf.constant, arrays)
    with tf.GradientTape() as outer:
        outer.watch(weights)
        with tf.GradientTape() as inner:
            inner.watch(weights)
            outputs = lstm(*weights, mask)
            value = tf.reduce_sum(tf.square(outputs))
        slopes = inner.gradient(value, weights)
        steepness = tf.add_n([tf.reduce_sum(tf.square(slope)) for slope in slopes])
    return [outputs, *slopes, *outer.gradient(steepness, weights)]


@pytest.mark.parametrize("compiled", [False, True])
def test_outputs_and_two_derivatives_are_those_of_the_plain_network(compiled):
    generator = np.random.default_rng(0)
    shapes = (P, B, T, WIDTH), (P, WIDTH + UNITS, 4 * UNITS), (P, 4 * UNITS)
    mask = np.ones((P, B, T))
    mask[0, 1, 3:] = 0.0
    mask[1, 2, 1:] = 0.0
    arrays = [*(generator.standard_normal(shape) for shape in shapes), mask]

    def found(lstm):
        return derivatives(lstm, arrays)

    ours = (tf.function(found) if compiled else found)(backward_lstm)
    for one, other in zip(ours, found(plain_lstm), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
