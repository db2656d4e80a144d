"""Tests epg_tf.core.parameters."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from epg_tf.core.parameters import flattened, parameter_count, split

SHAPES = {"a/kernel": (2, 3), "a/bias": (3,), "b/kernel": (3, 1)}


def test_splitting_and_joining_are_inverse():
    flat = np.arange(2 * parameter_count(SHAPES), dtype=np.float32).reshape(2, -1)
    params = split(flat, SHAPES)
    assert {name: values.shape[1:] for name, values in params.items()} == SHAPES
    assert params["a/kernel"][1, 0].tolist() == [12.0, 13.0, 14.0]
    assert params["b/kernel"][0, :, 0].tolist() == [9.0, 10.0, 11.0]
    joined = flattened([tf.constant(values) for values in params.values()])
    np.testing.assert_array_equal(joined, flat)
