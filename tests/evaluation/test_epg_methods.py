"""Tests epg_tf.evaluation.epg_methods: how lives are summed up (whole tests are in test_learning
and launch).
"""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.core.types import LifeResults
from epg_tf.evaluation.epg_methods import score

NAN = float("nan")


def lifetimes(returns, curves):
    """Returns lives with these final returns, NaN where failed, and learning curves [L, T]."""
    returns, curves = np.array(returns), np.array(curves, float)
    return LifeResults(
        returns,
        np.full(len(returns), NAN),
        np.isnan(returns),
        np.full(len(returns), 9),
        curves,
        curves,
        np.array([""] * len(returns)),
    )


def test_area_is_the_mean_of_the_curve_from_the_first_finished_episode_on():
    row = score(lifetimes([1.0, 2.0], [[NAN, 1.0, 3.0], [4.0, 4.0, 1.0]]), 9)
    assert row.auc_mean == pytest.approx((2.0 + 3.0) / 2)
    half = (
        12.706 * np.std([2.0, 3.0], ddof=1) / np.sqrt(2)
    )  # Student's t with one degree of freedom
    assert row.auc_ci95 == pytest.approx((2.5 - half, 2.5 + half), rel=1e-4)


def test_lives_that_failed_count_as_the_worst_of_the_others_in_both_numbers():
    row = score(lifetimes([1.0, NAN, 4.0], [[2.0, 2.0], [9.0, 9.0], [6.0, 6.0]]), 9)
    assert (row.final_return_mean, row.auc_mean, row.failed_lives) == (
        2.0,
        pytest.approx(10 / 3),
        1,
    )


def test_without_a_finished_episode_there_is_no_area():
    assert np.isnan(score(lifetimes([1.0, 2.0], [[NAN], [NAN]]), 9).auc_mean)
    assert np.isnan(score(lifetimes([NAN, NAN], [[1.0], [1.0]]), 9).auc_mean)
