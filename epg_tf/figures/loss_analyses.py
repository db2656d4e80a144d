"""Analyses of what a learned loss does to agents, in lives that no test meets: how far updates move
the policy, which inputs the loss depends on, and how its gradient goes with PPO's.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from epg_tf.artifacts.artifact import LearnedLoss, load_loss
from epg_tf.baselines.method import Request
from epg_tf.figures.declaration import Match, Result
from epg_tf.reports import analysis_plots
from epg_tf.studies import gradient_correlation, loss_sensitivity, policy_change
from epg_tf.studies.analysed_lives import analysis_request

_LIVES = 32


def kl_of_updates(found: Match) -> Result:
    """Draws the KL divergence of every update under a random loss and the loss before and after
    evolution (EPG, Figure 16).
    """
    change = policy_change.measure_policy_change(*_lives_of(found))
    summary = policy_change.summarize_policy_change(change)
    numbers = [
        f"{title}: median KL of an update {_median(row['median_kl'])} nats; largest over median "
        f"{_median(row['spike'])}"
        for title, row in (
            (title, summary[stage]) for stage, title in analysis_plots.STAGE_TITLES.items()
        )
    ]
    numbers += [
        f"evolved over {earlier}, task by task: median KL {_median(compared['median_kl'])}; "
        f"largest over median {_median(compared['spike'])}"
        for earlier, compared in (
            ("random", summary["last_over_random"]),
            ("before evolution", summary["last_over_first"]),
        )
    ]
    units = _units(summary["last"]["lives"], summary["last"]["failed_lives"])
    numbers.append(f"medians over lives, not means; {units}")
    return Result(
        policy_change.policy_change_rows(change),
        numbers,
        functools.partial(analysis_plots.policy_change_figure, change),
    )


def input_sensitivity(found: Match) -> Result:
    """Draws how the loss of one step depends on each input over the buffer (EPG, Figure 21)."""
    learned, request = _lives_of(found)
    step = min(loss_sensitivity.STEP, learned.experiment.inner.update_period - 1)
    sensitivity = loss_sensitivity.measure_loss_sensitivity(learned, request, step)
    summary = loss_sensitivity.summarize_loss_sensitivity(sensitivity)
    numbers = [
        f"{channel}: norm at the step itself {_mean(row['at_step'])}, mean over others "
        f"{_mean(row['elsewhere'])}; at the step over the largest elsewhere "
        f"{_median(row['at_step_over_largest_elsewhere'])}; peak at the step in "
        f"{row['lives_with_peak']:.0%} of lives; not 0 at {row['steps_with_effect']:.1%} of other "
        "steps"
        for channel, row in summary.items()
    ]
    numbers.append(
        f"t is step {sensitivity.step} of the buffer, number {step} of the newest; at the last "
        f"update of {request.agents} lives in tasks that no test meets"
    )
    return Result(
        loss_sensitivity.loss_sensitivity_rows(sensitivity),
        numbers,
        functools.partial(analysis_plots.loss_sensitivity_figure, sensitivity),
    )


def gradients_beside_ppo(found: Match) -> Result:
    """Draws how the policy gradient of the loss goes with PPO's on the same batch (EPG, section
    4.1); `studies.gradient_correlation` defines it.
    """
    correlation = gradient_correlation.measure_gradient_correlation(*_lives_of(found))
    summary = gradient_correlation.summarize_gradient_correlation(correlation)
    numbers = [
        f"{text}: {_mean(summary[name])}"
        for name, text in (
            ("spearman", "learned loss and PPO, Spearman's rank correlation"),
            ("cosine", "learned loss and PPO, cosine"),
            ("ppo_halves", "PPO on the older and the newer half of the batch, Spearman's"),
        )
    ]
    numbers.append(
        f"{summary['parameters']} parameters of a policy, before each of {summary['updates']} "
        f"updates; {_units(summary['lives'], summary['failed_lives'])}"
    )
    return Result(
        gradient_correlation.gradient_correlation_rows(correlation),
        numbers,
        functools.partial(analysis_plots.gradient_correlation_figure, correlation),
    )


def _lives_of(found: Match) -> tuple[LearnedLoss, Request]:
    """Returns the loss and the lives in which it is analysed."""
    learned = load_loss(found.runs[0][1])
    return learned, analysis_request(learned, lives=_LIVES)


def _units(lives: int, failed: int) -> str:
    left_out = f", {failed} of them failed and left out" if failed else ""
    return f"{lives} lives in tasks that no test meets{left_out}; intervals of 95 % over them"


def _mean(row: Mapping[str, Any]) -> str:
    return _with_interval(row["mean"], row["ci95"])


def _median(row: Mapping[str, Any]) -> str:
    return _with_interval(row["median"], row["ci95"])


def _with_interval(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.3g} [{interval[0]:.3g}, {interval[1]:.3g}]"
