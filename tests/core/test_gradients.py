"""Tests epg_tf.core.gradients: every row is checked, masked and scaled on its own."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from epg_tf.core.gradients import (
    finite_rows,
    finite_square_rows,
    scaled_rows,
    squared_norms,
    zero_rows,
)

GRADIENTS = [
    tf.constant([[1.0, 2.0], [np.inf, 0.0], [1.0, 1.0], [1e30, 0.0]]),
    tf.constant([[[2.0]], [[1.0]], [[np.nan]], [[0.0]]]),
]


def test_rows_that_are_not_finite_are_found():
    assert finite_rows(GRADIENTS).numpy().tolist() == [True, False, False, True]


def test_squares_must_be_finite_too():
    """1e30 is finite in float32, its square is not."""
    assert finite_square_rows(GRADIENTS).numpy().tolist() == [True, False, False, False]


def test_rows_that_are_not_kept_become_zero():
    keep = finite_square_rows(GRADIENTS)
    np.testing.assert_array_equal(zero_rows(GRADIENTS[0], keep), [[1, 2], [0, 0], [0, 0], [0, 0]])
    np.testing.assert_array_equal(zero_rows(GRADIENTS[1], keep), [[[2]], [[0]], [[0]], [[0]]])


def test_a_factor_of_zero_gives_zero_for_all_numbers():
    first, second = scaled_rows(GRADIENTS, tf.constant([0.5, 0.0, 0.0, 1.0]))
    np.testing.assert_array_equal(
        first, np.float32([[0.5, 1.0], [0.0, 0.0], [0.0, 0.0], [1e30, 0.0]])
    )
    np.testing.assert_array_equal(second, [[[1.0]], [[0.0]], [[0.0]], [[0.0]]])


def test_squared_norms_add_all_parts():
    assert squared_norms(GRADIENTS)[0].numpy() == 1.0 + 4.0 + 4.0
