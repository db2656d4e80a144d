"""Tests epg_tf.evaluation.study_costs with numbers worked out by hand."""

import pytest

from epg_tf.evaluation import study_costs
from epg_tf.evaluation.study_costs import Cost, Ratio

NAN = float("nan")


@pytest.mark.parametrize(
    "evolution, steps",
    [
        ({}, 8 * (3 * 8 + 3 * 6)),
        ({"fitness_from": "last_episodes"}, 8 * 3 * 8),  # no episodes are played after the life
        (
            {"shortest_life": 1},
            8 * (1.70752 * 8 + 3 * 6),
        ),  # 1, 2 or 3 updates: 0.5 + 2 * 0.29248 + 3 * 0.20752
        ({"shortest_life": 3}, 8 * (3 * 8 + 3 * 6)),
        ({"longest_life": 2}, 8 * (2 * 8 + 3 * 6)),
    ],
)
def test_env_steps_of_an_epoch(make_tiny, evolution, steps):
    assert study_costs.epoch_env_steps(make_tiny(evolution=evolution)) == pytest.approx(
        steps, rel=1e-5
    )


@pytest.mark.parametrize(
    "epochs, points, expected",
    [
        (120, 12, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120]),
        (10, 4, [0, 3, 5, 8, 10]),
        (7, 1, [0, 7]),
        (2, 5, [0, 1, 2]),
        (1, 12, [0, 1]),
    ],
)
def test_evaluation_epochs(epochs, points, expected):
    assert study_costs.evaluation_epochs(epochs, points) == expected


@pytest.mark.parametrize(
    "level, steps", [(-9.5, 0), (-7.0, 200), (-6.5, 300), (-6.0, None), (NAN, None)]
)
def test_a_run_is_ahead_from_the_first_interval_above(level, steps):
    """An end that only touches does not count, and a later fall does not matter."""
    rows = [
        {"env_steps": 0.0, "low": -9.0},
        {"env_steps": 100.0, "low": NAN},
        {"env_steps": 200.0, "low": -6.5},
        {"env_steps": 300.0, "low": -6.0},
        {"env_steps": 400.0, "low": -8.0},
    ]
    assert study_costs.first_above(rows, level) == steps


@pytest.mark.parametrize(
    "first, spent, cost",
    [
        ([5, 1, 3], [9, 9, 9], Cost(3, False)),
        ([1, 3, None], [9, 9, 9], Cost(3, False)),
        ([1, None, None], [9, 8, 9], Cost(8, True)),
        ([None], [9], Cost(9, True)),
        ([1, None], [9, 9], Cost(5, True)),
        ([8, None, 1], [8, 7, 9], Cost(7, True)),
    ],
)  # the second may have been ahead at 7.5
def test_the_median_counts_runs_that_were_never_ahead_as_above_all(first, spent, cost):
    assert study_costs.median_cost(first, spent) == cost


@pytest.mark.parametrize(
    "cost, other, ratio",
    [
        (Cost(6, False), Cost(4, False), Ratio(1.5, "about")),
        (Cost(6, True), Cost(4, False), Ratio(1.5, "at least")),
        (Cost(6, False), Cost(4, True), Ratio(1.5, "at most")),
        (Cost(6, True), Cost(4, True), Ratio(None, "unknown")),
        (Cost(0, False), Cost(4, False), Ratio(0, "about")),
        (Cost(6, False), Cost(0, False), Ratio(None, "unknown")),
    ],
)
def test_a_ratio_says_whether_it_is_a_bound(cost, other, ratio):
    assert study_costs.cost_ratio(cost, other) == ratio
