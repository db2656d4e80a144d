"""Tests epg_tf.evaluation.statistics: the intervals that no other test of results covers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epg_tf.evaluation.statistics import (
    confidence_interval,
    difference_row,
    interval_row,
    median_interval,
    share_interval,
)

# Ranks of the ends of the interval of a median, from 1 (Conover 1999, section 3.2).
RANKS = {6: (1, 6), 8: (1, 8), 9: (2, 8), 10: (2, 9), 20: (6, 15), 25: (8, 18), 32: (10, 23)}


@pytest.mark.parametrize("count", RANKS)
def test_the_ends_have_the_known_ranks(count):
    values = np.random.default_rng(count).permutation(np.arange(1.0, count + 1))
    low, high = RANKS[count]
    assert median_interval(values) == (low, high)
    held = sum(math.comb(count, below) for below in range(low, high)) / 2**count
    narrower = sum(math.comb(count, below) for below in range(low + 1, high - 1)) / 2**count
    assert held >= 0.95 > narrower


def test_few_values_hold_no_interval():
    for count in range(6):
        assert median_interval(np.arange(count, dtype=float)) == (-np.inf, np.inf)


def test_intervals_hold_the_median_as_often_as_they_say():
    draws = np.random.default_rng(0).exponential(size=(4000, 12))
    held = [low <= math.log(2.0) <= high for low, high in map(median_interval, draws)]
    assert 0.95 <= np.mean(held) <= 0.975  # 0.961 by the binomial distribution


def test_a_share_of_nothing_has_an_interval():
    low, high = share_interval(0, 10)
    assert low == 0.0 and high == pytest.approx(1.959963984540054**2 / (10 + 1.959963984540054**2))
    assert share_interval(10, 10) == pytest.approx((1.0 - high, 1.0))


def test_copies_of_one_survivor_give_no_interval():
    one, two = np.array([3.0, np.nan, np.nan]), np.array([3.0, 5.0, np.nan])
    endless = (-np.inf, np.inf)
    assert interval_row(one) == {"mean": 3.0, "ci95": endless, "lives": 3, "failed_lives": 2}
    assert difference_row(one, two)["ci95"] == difference_row(two, one)["ci95"] == endless
    assert interval_row(two)["ci95"] == confidence_interval(np.array([3.0, 5.0, 3.0]))
    assert difference_row(two, np.zeros(3))["ci95"] == interval_row(two)["ci95"]
