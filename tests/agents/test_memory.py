"""Tests epg_tf.agents.memory."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from epg_tf.agents.memory import Memory
from tests import reference

P, INPUTS, UNITS = 3, 4, 5


def random_memory(inputs=INPUTS):
    """Returns P memories with random contents."""
    memory = Memory(P, inputs, UNITS)
    memory.kernel.assign(np.random.default_rng(0).standard_normal((P, inputs, UNITS)))
    return memory


def test_content_equals_a_tanh_layer_fed_with_ones():
    memory = random_memory()
    expected = [reference.memory_output(np.float64(memory.kernel[life])) for life in range(P)]
    np.testing.assert_allclose(memory(None), expected, rtol=1e-5)
    np.testing.assert_allclose(tf.function(lambda: memory(None))(), expected, rtol=1e-5)


def test_gradient_writes_each_memory_on_its_own():
    memory = random_memory()
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(memory(None)[1])
    gradient = tape.gradient(total, memory.kernel).numpy()
    assert not gradient[[0, 2]].any()
    slope = 1.0 - np.tanh(memory.kernel.numpy()[1].sum(axis=0)) ** 2
    np.testing.assert_allclose(gradient[1], np.broadcast_to(slope, (INPUTS, UNITS)), rtol=1e-4)
