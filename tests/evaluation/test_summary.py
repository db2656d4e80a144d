"""Tests epg_tf.evaluation.summary: what is computed from the table of results."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.baselines.method import LossName
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.statistics import hierarchical_interval
from epg_tf.evaluation.summary import (
    as_json,
    learned_groups,
    reference,
    steps_to_match,
    summarize,
)
from tests.evaluation.tables import NAN, table

LOSS = LossName("best", 0)


def summary(final, curve):
    return summarize(table("epg", final, curve))["epg"]


def test_auc_is_the_mean_of_the_curve_from_the_first_finished_episode_on():
    row = summary([1.0, 2.0], [[NAN, 1.0, 3.0], [4.0, 4.0, 1.0]])
    assert row.auc_mean == pytest.approx((2.0 + 3.0) / 2)
    # Student's t with one degree of freedom is 12.706.
    half = 12.706 * np.std([2.0, 3.0], ddof=1) / np.sqrt(2)
    assert row.auc_ci95 == pytest.approx((2.5 - half, 2.5 + half), rel=1e-4)


def test_the_initial_return_is_that_of_the_first_finished_episode():
    row = summary([1.0, 2.0, NAN], [[NAN, 1.0, 3.0], [4.0, 9.0, NAN], [7.0, 7.0, 7.0]])
    # The third agent failed, so its number is the worst of the others.
    assert row.initial_return_mean == pytest.approx((1.0 + 4.0 + 1.0) / 3)
    half = 4.3027 * np.std([1.0, 4.0, 1.0], ddof=1) / np.sqrt(3)
    assert row.initial_ci95 == pytest.approx((2.0 - half, 2.0 + half), rel=1e-4)
    assert np.isnan(summary([1.0, 2.0], [[NAN], [NAN]]).initial_return_mean)
    mean = summarize(several([2.0, 4.0], [6.0, 8.0]))["epg"]
    assert (mean.initial_return_mean, mean.initial_ci95) == (0.0, (0.0, 0.0))


def test_agents_that_failed_count_as_the_worst_of_the_others_in_both_numbers():
    row = summary([1.0, NAN, 4.0], [[2.0, 2.0], [9.0, 9.0], [6.0, 6.0]])
    assert (row.final_return_mean, row.auc_mean) == (2.0, pytest.approx(10 / 3))
    assert (row.failed_lives, row.lives, row.env_steps) == (1, 3, 20)
    assert row.ci95[0] < row.final_return_mean < row.ci95[1]


def test_without_a_finished_episode_there_is_no_auc():
    assert np.isnan(summary([1.0, 2.0], [[NAN], [NAN]]).auc_mean)
    assert np.isnan(summary([NAN, NAN], [[1.0], [1.0]]).auc_mean)


def test_methods_are_compared_with_the_learned_loss_agent_by_agent():
    found = summarize(
        Results.join(
            [
                table("objective", [-1.0, -5.0, -9.0], [[-9.0]] * 3, explores=False, loss=LOSS),
                table("td3", [-1.5, -5.6, -9.7], [[-9.0]] * 3, explores=False),
                table("ddpg", [-1.5, -5.6], [[-9.0]] * 2, explores=False),
            ]
        )
    )
    row = found["td3"]  # differences 0.5, 0.6, 0.7; Student's t of 2 is 4.3027
    half = 4.3027 * 0.1 / np.sqrt(3)
    assert row.ahead_mean == pytest.approx(0.6)
    assert row.ahead_ci95 == pytest.approx((0.6 - half, 0.6 + half), abs=1e-4)
    assert found["objective"].ahead_mean is None and found["ddpg"].ahead_mean is None
    assert "ahead_mean" not in as_json(found)["objective"] and "ahead_ci95" in as_json(found)["td3"]


def test_a_curve_that_explores_has_no_auc_beside_curves_that_do_not():
    ppo = table("ppo", [1.0, 2.0], [[1.0], [2.0]])
    mixed = summarize(Results.join([ppo, table("td3", [1.0, 2.0], [[1.0], [2.0]], explores=False)]))
    assert np.isnan(mixed["ppo"].auc_mean) and mixed["td3"].auc_mean == 1.5
    assert np.isnan(mixed["ppo"].auc_ci95).all() and mixed["ppo"].final_return_mean == 1.5
    assert summarize(ppo)["ppo"].auc_mean == 1.5


def test_agents_that_all_failed_have_no_success():
    failed = table("ppo", [NAN, NAN], [[NAN], [NAN]])
    failed = dataclasses.replace(failed, success=np.zeros_like(failed.success))
    assert summarize(failed)["ppo"].success_rate == 0.0


def test_copies_of_one_survivor_give_no_interval():
    row = summarize(table("ppo", [1.0, NAN], [[1.0, 2.0], [NAN, NAN]]))["ppo"]
    assert (row.final_return_mean, row.auc_mean, row.failed_lives) == (1.0, 1.5, 1)
    assert row.ci95 == row.auc_ci95 == row.initial_ci95 == (-np.inf, np.inf)


@pytest.mark.parametrize(
    ("target", "steps"),
    [(0.5, 20), (1.0, 20), (2.0, 40), (3.0, 40), (4.0, 40), (4.1, None)],
)
def test_steps_to_match_are_those_from_which_on_the_mean_stays_at_the_target(target, steps):
    """Curve 10: one agent unknown; 20: 2.5; 30: 3; 40: 1; final policies: 4."""
    rows = table("ppo", [3.0, 5.0], [[NAN, 1.0, 2.0, 0.0], [9.0, 4.0, 4.0, 2.0]])
    assert steps_to_match([rows], target) == steps


def test_losses_together_reach_their_own_mean_whatever_its_last_bits():
    """The mean over all agents at once is not the mean of the losses' means."""
    returns = [[0.1, 0.7, 0.3], [0.2, 0.9, 0.6], [0.4, 0.4, 0.1]]
    runs = [table("epg", row, [[0.0]] * 3, loss=LossName(f"{row}", 1)) for row in returns]
    above = np.nextafter(np.mean([np.mean(row) for row in returns]), 1.0)
    assert steps_to_match(runs, above) == 10 and steps_to_match(runs, 1.000001 * above) is None


def test_agents_that_failed_count_as_the_worst_where_steps_are_matched():
    rows = table("ppo", [9.0, 9.0, NAN], [[1.0, 2.0], [3.0, 4.0], [NAN, NAN]])
    # Means with the worst for the third: 10: 5/3; 20: 8/3.
    assert (steps_to_match([rows], 1.6), steps_to_match([rows], 1.7)) == (10, 20)
    lower = table("ppo", [0.0, 0.0, NAN], [[1.0, 2.0], [3.0, 4.0], [NAN, NAN]])
    assert steps_to_match([lower], 1.6) is None
    assert steps_to_match([table("ppo", [NAN, NAN], [[9.0], [9.0]])], 0.0) is None


def test_summaries_say_after_how_many_env_steps_rivals_match_the_learned_loss():
    learned = table("epg", [4.0, 6.0], [[1.0, 2.0]] * 2, loss=LOSS)
    baseline = table("ppo", [9.0, 9.0], [[1.0, 4.0, 5.0]] * 2)
    worse = table("sac", [4.9, 4.9], [[4.9] * 4] * 2)
    found = summarize(Results.join([learned, baseline, worse]))
    assert {name: row.steps_to_match for name, row in found.items()} == {
        "epg": 20,
        "ppo": 30,
        "sac": None,
    }
    assert as_json(found)["sac"]["steps_to_match"] is None
    assert summarize(baseline)["ppo"].steps_to_match is None


def several(*finals):
    """Returns rows of losses a, b, ... of seeds 0, 1, ... and of a baseline."""
    losses = [
        table("epg", final, [[0.0]] * 2, loss=LossName("abc"[number], number))
        for number, final in enumerate(finals)
    ]
    return Results.join([*losses, table("ppo", [1.0, 5.0], [[0.0], [9.0]])])


def test_losses_of_several_seeds_have_a_mean_over_losses_and_tasks():
    """Scores [[2, 4], [6, 8], [1, 9]] against [1, 5]."""
    results = several([2.0, 4.0], [6.0, 8.0], [1.0, 9.0])
    found = summarize(results)
    assert list(found) == ["epg", "epg a", "epg b", "epg c", "ppo"]
    assert reference(results) == "epg" and learned_groups(results) == ["epg a", "epg b", "epg c"]
    mean, baseline = found["epg"], found["ppo"]
    assert (mean.final_return_mean, mean.losses, mean.lives) == (5.0, 3, 6)
    assert mean.ci95 == hierarchical_interval(np.array([[2.0, 4.0], [6.0, 8.0], [1.0, 9.0]]))
    assert baseline.ahead_mean == 2.0
    assert baseline.ahead_ci95 == hierarchical_interval(np.array([[1.0, -1], [5, 3], [0, 4]]))
    assert baseline.improvement == pytest.approx((1 + 0 + 1 + 1 + 0.5 + 1) / 6)
    assert baseline.steps_to_match is None and found["epg a"].ahead_mean is None
    assert as_json(found)["epg"]["losses"] == 3 and "losses" not in as_json(found)["epg a"]


def test_one_loss_is_compared_by_itself():
    results = several([2.0, 4.0])
    assert list(summarize(results)) == ["epg", "ppo"] and reference(results) == "epg"
    row = summarize(results)["ppo"]
    assert (row.ahead_mean, row.improvement) == (0.0, 0.5)
    assert row.ahead_ci95 == pytest.approx((-12.706, 12.706), rel=1e-4)
    assert reference(table("ppo", [1.0], [[1.0]])) is None


def test_every_method_with_several_runs_has_a_mean():
    """Losses [[2, 4], [6, 8]] against initialisations [[1, 5], [3, 3]] and PPO's [1, 5]."""
    starts = [
        table("maml", [1.0, 5.0], [[0.0, 4.0]] * 2, loss=LossName("x", 0)),
        table("maml", [3.0, 3.0], [[0.0, 6.0]] * 2, loss=LossName("y", 1)),
    ]
    results = Results.join([several([2.0, 4.0], [6.0, 8.0]), *starts])
    found = summarize(results)
    assert list(found) == ["epg", "epg a", "epg b", "ppo", "maml", "maml x", "maml y"]
    mean = found["maml"]
    assert (mean.final_return_mean, mean.losses, mean.lives) == (3.0, 2, 4)
    assert mean.ahead_mean == 2.0 and mean.steps_to_match is None
    assert mean.improvement == pytest.approx((1 + 0 + 1 + 1 + 0 + 1 + 1 + 1) / 8)
    losses, others = np.array([[2.0, 4.0], [6.0, 8.0]]), np.array([[1.0, 5.0], [3.0, 3.0]])
    assert mean.ahead_ci95 == hierarchical_interval(losses, others=others)
    assert found["maml y"].ahead_mean == 2.0
    alone = summarize(Results.join([table("epg", [2.0, 4.0], [[0.0]] * 2, loss=LOSS), *starts]))
    assert alone["maml"].ahead_ci95 == hierarchical_interval(losses[:1], others=others)


def test_failed_agents_of_several_runs_count_as_the_worst_of_their_run():
    """Runs [worst, 10, 12] and [1, 3, 2]: 32 / 3 and 2; curves [9, 9, 9] and [2, 2, 2]."""
    runs = [
        table("maml", [NAN, 10.0, 12.0], [[NAN], [9.0], [9.0]], loss=LossName("x")),
        table("maml", [1.0, 3.0, 2.0], [[2.0]] * 3, loss=LossName("y")),
    ]
    learned = table("epg", [5.0, 5.0, 5.5], [[0.0]] * 3, loss=LOSS)
    row = summarize(Results.join([learned, *runs]))["maml"]
    assert row.final_return_mean == pytest.approx((32 / 3 + 2) / 2)
    assert (row.failed_lives, row.steps_to_match, row.auc_mean) == (1, 10, 5.5)
    assert steps_to_match(runs, 5.5) == 10 and steps_to_match(runs, 6.5) is None


def test_a_run_whose_agents_all_failed_counts_as_the_worst_of_the_others():
    failed = table("maml", [NAN, NAN], [[NAN], [NAN]], loss=LossName("x"))
    other = table("maml", [6.0, 7.0], [[6.0], [6.5]], loss=LossName("y"))
    results = Results.join([several([2.0, 4.0]), failed, other])
    found = summarize(results)
    assert found["maml"].final_return_mean == (6 + 6 + 6 + 7) / 4
    assert found["maml"].improvement == 0.0 and found["maml"].steps_to_match is None
    assert np.isnan(found["maml x"].ahead_mean) and found["maml x"].improvement is None
    both = Results.join([failed, table("maml", [NAN] * 2, [[NAN]] * 2, loss=LossName("y"))])
    assert np.isnan(summarize(both)["maml"].final_return_mean)


def test_losses_in_other_tasks_are_not_averaged():
    other = table("epg", [9.0, 9.0, 9.0], [[0.0]] * 3, loss=LossName("b", 1))
    results = Results.join([several([2.0, 4.0]), other])
    assert reference(results) == "epg a" and "epg" not in summarize(results)
