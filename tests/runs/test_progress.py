"""Tests epg_tf.runs.progress: what a run is said to cost."""

from __future__ import annotations

import pytest

from epg_tf.runs.progress import cost_lines

FINAL = "3 final episodes a life (at most 6 env steps each)"
VALIDATION = "4 validation lives every 2 epochs"


@pytest.mark.parametrize(
    ("fitness_from", "period", "end"),
    [
        ("final_episodes", 2, f" in all; besides, {FINAL} and {VALIDATION}"),
        ("final_episodes", 0, f" in all; besides, {FINAL}"),
        ("weighted", 0, f" in all; besides, {FINAL}"),
        ("last_episodes", 2, f" in all; besides, {VALIDATION}, with {FINAL}"),
        ("whole_life", 0, " in all"),
    ],
)
def test_final_episodes_are_mentioned_where_lives_play_them(make_tiny, fitness_from, period, end):
    """Lives whose fitness is from their own episodes play none; validation lives always do."""
    experiment = make_tiny(
        evolution={
            "fitness_from": fitness_from,
            "validation_lives": 4,
            "validation_period": period,
        },
        inner={"final_episodes": 3},
        task={"episode_limit": 6},
    )
    assert cost_lines(experiment, "run", 0, 1)[1].endswith(end)


def test_shorter_lives_make_the_cost_a_bound(make_tiny):
    cost = cost_lines(make_tiny(evolution={"shortest_life": 1}), "run", 0, 1)[1]
    assert " lives x at most " in cost and " = at most " in cost
    cost = cost_lines(make_tiny(evolution={"longest_life": 1}), "run", 0, 1)[1]
    assert " lives x 8 env steps = 64 env steps an epoch" in cost
