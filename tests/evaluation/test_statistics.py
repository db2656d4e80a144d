"""Tests epg_tf.evaluation.statistics: the intervals that no other test of results covers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from epg_tf.evaluation.statistics import (
    confidence_interval,
    difference_row,
    hierarchical_interval,
    interval_row,
    median_interval,
    probability_of_improvement,
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


def test_probability_of_improvement_by_hand():
    """Task 0: 1 and 3 against 2 wins once of two; task 1: 5 ties with 5, 6 wins."""
    scores, others = np.array([[1.0, 5.0], [3.0, 6.0]]), np.array([[2.0, 5.0]])
    assert probability_of_improvement(scores, others) == (0.5 + 0.75) / 2
    assert probability_of_improvement(others, scores) == 1 - (0.5 + 0.75) / 2
    assert probability_of_improvement(scores, scores) == 0.5
    assert probability_of_improvement(scores + 10, others) == 1.0


def test_probability_of_improvement_is_the_mann_whitney_statistic_of_each_task():
    generator = np.random.default_rng(0)
    scores, others = generator.integers(0, 5, (6, 3)), generator.integers(0, 5, (4, 3))
    expected = [
        stats.mannwhitneyu(scores[:, task], others[:, task]).statistic / 24 for task in range(3)
    ]
    assert probability_of_improvement(scores, others) == pytest.approx(np.mean(expected))


def test_losses_that_differ_widen_the_interval():
    """With equal losses it is that of the tasks; with equal tasks it is that of the losses."""
    generator = np.random.default_rng(1)
    tasks = generator.standard_normal(400)
    low, high = hierarchical_interval(np.stack([tasks] * 3))
    half = 1.96 * tasks.std() / 20
    assert low == pytest.approx(tasks.mean() - half, abs=0.02)
    assert high == pytest.approx(tasks.mean() + half, abs=0.02)
    few = np.repeat([[0.0], [3.0], [6.0]], 50, axis=1)
    # All three draws are of the lowest loss in one case of 27, which is more often than 2.5 %.
    np.testing.assert_allclose(hierarchical_interval(few), [0.0, 6.0], atol=1e-12)
    apart = hierarchical_interval(np.stack([tasks - 5.0, tasks, tasks + 5.0]))
    assert apart[1] - apart[0] > 5 * (high - low)


def test_intervals_are_the_same_again_and_hold_the_truth():
    """In 200 simulated studies of ten losses, nine of ten intervals or more hold the true mean."""
    generator, held = np.random.default_rng(2), 0
    for _ in range(200):
        scores = generator.standard_normal((10, 1)) + generator.standard_normal((10, 20))
        low, high = hierarchical_interval(scores)
        held += low < 0.0 < high
    assert 176 <= held < 200
    assert hierarchical_interval(scores) == (low, high)


def test_the_interval_of_a_difference_draws_the_losses_of_both_and_the_same_tasks():
    generator = np.random.default_rng(3)
    tasks = 10.0 * generator.standard_normal(50)
    some = generator.standard_normal((4, 1)) + tasks
    # What tasks add cancels; constant others shift it alone.
    low, high = hierarchical_interval(some, others=np.stack([tasks]))
    assert high - low < 4.0 < np.ptp(hierarchical_interval(some))
    shifted = hierarchical_interval(some, others=np.full((3, 50), 7.0))
    np.testing.assert_allclose(shifted, np.array(hierarchical_interval(some)) - 7.0)
    # Losses of one method at 0 and 3, of the other at 0 and 4: independent draws reach both ends.
    few, others = (np.repeat([[0.0], [top]], 9, axis=1) for top in (3.0, 4.0))
    np.testing.assert_allclose(hierarchical_interval(few, others=others), [-4.0, 3.0])
    backwards = hierarchical_interval(np.stack([tasks]), others=some)
    np.testing.assert_allclose(backwards, [-high, -low], atol=0.1)


def test_one_loss_has_no_interval_over_losses():
    with pytest.raises(ValueError, match="two of them"):
        hierarchical_interval(np.zeros((1, 5)))
