"""Tests epg_tf.core.failures with literal values."""

import numpy as np

from epg_tf.core.failures import mean_return, worst_for_failed


def test_a_failure_counts_as_the_worst_of_the_others():
    values = np.array([3.0, np.nan, -1.0, np.inf])
    np.testing.assert_array_equal(worst_for_failed(values), [3.0, -1.0, -1.0, -1.0])
    assert mean_return(values) == 0.0
    np.testing.assert_array_equal(values, [3.0, np.nan, -1.0, np.inf])  # as it was


def test_where_all_failed_nothing_is_known():
    assert np.isnan(worst_for_failed(np.full(2, np.nan))).all()
    assert np.isnan(mean_return(np.full(2, np.nan)))
