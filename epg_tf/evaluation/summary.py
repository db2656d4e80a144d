"""Summarizes a table of results: how each method did, and how far the learned loss is ahead."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epg_tf.core.types import Array, LifeResults
from epg_tf.evaluation.results import EVALUATION, LEARNING, Results
from epg_tf.evaluation.statistics import (
    confidence_interval,
    interquartile_mean,
    worst_for_failed,
)
from epg_tf.evaluation.uncertainty import (
    hierarchical_interval,
    performance_profile,
    probability_of_improvement,
)

_PROFILE_POINTS = 11


@dataclasses.dataclass(frozen=True)
class Summary:
    """How one method did; returns are undiscounted sums of reward per episode.

    Attributes:
      final_return_mean: Mean over agents; one that failed counts as the worst of the others.
      final_return_iqm: Interquartile mean.
      ci95: 95 % confidence interval of the mean.
      auc_mean: Area under the learning curve: return averaged over the known points of an agent's
        curve, then over agents; one that failed counts as the worst of the others. NaN where the
        curve explores and those of other methods in the table do not.
      auc_ci95: 95 % confidence interval of that.
      success_rate: Mean share of final episodes that ended at the goal; NaN in families without
        one.
      lives: Number of agents.
      failed_lives: How many of them failed.
      env_steps: Env steps of learning of each agent.
      steps_to_match: Env steps after which the method first reaches the final mean return of the
        learned loss: the mean of its curve over agents does, once every agent has a point, or its
        final mean return. None: never, or there is no learned loss.
      profile: Pairs of a return and the share of agents that end above it (performance profile);
        the returns are the same for all methods of a table.
      ahead_mean: How far the learned loss ends above this method, agent by agent; None for itself,
        and where agents differ. Of several losses: the mean over them.
      ahead_ci95: 95 % confidence interval of that.
      improvement: How probable it is that an agent of the learned loss ends above one of this
        method in the same task; None as `ahead_mean`.
      losses: Number of learned losses, evolved with different seeds, that this is the mean of;
        `ci95` and `ahead_ci95` are then over losses and tasks. None: one alone.
    """

    final_return_mean: float
    final_return_iqm: float
    ci95: tuple[float, float]
    auc_mean: float
    auc_ci95: tuple[float, float]
    success_rate: float
    lives: int
    failed_lives: int
    env_steps: int
    steps_to_match: int | None = None
    profile: list[tuple[float, float]] | None = None
    ahead_mean: float | None = None
    ahead_ci95: tuple[float, float] | None = None
    improvement: float | None = None
    losses: int | None = None


def summarize(results: Results) -> dict[str, Summary]:
    """Returns the summary of each method, by the keys of `Results.groups`.

    Where a learned loss is among the methods, the others are compared with it agent by agent:
    agents of the same number live in the same task. Where there are several of one method, evolved
    with different seeds and tested in the same tasks, there is also their mean, first and by the
    name of the method, and the others are compared with that.
    """
    groups = results.groups()
    summaries = {name: _of_group(rows, results) for name, rows in groups.items()}
    learned = learned_groups(results)
    if not learned:
        return summaries
    scores = np.stack([worst_for_failed(groups[name].final()) for name in learned])
    if len(learned) > 1:
        mean = _mean_over_losses([summaries[name] for name in learned], scores)
        summaries = {str(reference(results)): mean, **summaries}
    target = float(scores.mean())
    matched = {
        name: dataclasses.replace(summary, steps_to_match=steps_to_match(groups[name], target))
        if name in groups
        else summary
        for name, summary in summaries.items()
    }
    tasks = _tasks(groups[learned[0]])
    return {
        name: _compared(summary, scores, groups[name])
        if name in groups and name not in learned and _tasks(groups[name]) == tasks
        else summary
        for name, summary in matched.items()
    }


def _of_group(rows: Results, results: Results) -> Summary:
    """Returns the summary of the rows of one method with one loss."""
    curves = rows.pivot()[1]
    if (results.episodes == EVALUATION).any() and (rows.episodes == LEARNING).any():
        curves = np.full((len(curves), 0), np.nan)
    summary = _summary(rows.final(), curves, rows.final("success"), int(rows.env_steps.max()))
    thresholds = _thresholds(results)
    if thresholds is None or not np.isfinite(summary.final_return_mean):
        return summary
    shares = performance_profile(worst_for_failed(rows.final()), thresholds)
    pairs = list(zip(thresholds.tolist(), shares.tolist(), strict=True))
    return dataclasses.replace(summary, profile=pairs)


def _thresholds(results: Results) -> Array | None:
    """Returns the returns of a table's performance profiles; None where all agents failed."""
    finals = results.final()
    known = finals[np.isfinite(finals)]
    return np.linspace(known.min(), known.max(), _PROFILE_POINTS) if known.size else None


def _mean_over_losses(summaries: Sequence[Summary], scores: Array) -> Summary:
    """Returns the summary of R losses together, [R, L] final returns."""
    first = summaries[0]
    areas = [summary.auc_mean for summary in summaries]
    return dataclasses.replace(
        first,
        final_return_mean=float(scores.mean()),
        final_return_iqm=interquartile_mean(scores.ravel()),
        ci95=hierarchical_interval(scores),
        auc_mean=float(np.mean(areas)),
        auc_ci95=confidence_interval(np.array(areas)),
        success_rate=float(np.mean([summary.success_rate for summary in summaries])),
        lives=sum(summary.lives for summary in summaries),
        failed_lives=sum(summary.failed_lives for summary in summaries),
        profile=None,
        losses=len(summaries),
    )


def steps_to_match(rows: Results, target: float) -> int | None:
    """Returns the env steps of learning after which agents first reach a mean return.

    Args:
      rows: Of one method. Its curve is of evaluations where there are any, else of the newest
        episodes of learning; agents that failed count as the worst of the others.
      target: Mean return to reach.

    Returns:
      None where neither the curve nor the final policies reach it.
    """
    finals = rows.final()
    failed = ~np.isfinite(finals)
    if failed.all():
        return None
    steps, curves = rows.pivot()
    for at, returns in zip(steps, curves.T, strict=True):
        known = np.where(failed, np.nan, returns)
        if np.isfinite(known[~failed]).all() and worst_for_failed(known).mean() >= target:
            return int(at)
    return int(rows.env_steps.max()) if worst_for_failed(finals).mean() >= target else None


def learned_groups(results: Results) -> list[str]:
    """Returns the keys of the groups with a learned loss that others are compared with: the first
    one, and those of the same method that were tested in the same tasks.
    """
    groups = {name: rows for name, rows in results.groups().items() if rows.loss[0]}
    if not groups:
        return []
    first = next(iter(groups.values()))
    return [
        name
        for name, rows in groups.items()
        if rows.method[0] == first.method[0] and _tasks(rows) == _tasks(first)
    ]


def reference(results: Results) -> str | None:
    """Returns the key of the summary that others are compared with; None without a learned loss."""
    learned = learned_groups(results)
    if len(learned) > 1:
        return str(results.groups()[learned[0]].method[0])
    return learned[0] if learned else None


def _tasks(rows: Results) -> list[tuple[str, int]]:
    """Returns task and number of every agent of a group."""
    return [agent[2:] for agent in rows.agents()]


def summarize_lives(lives: LifeResults, env_steps: int) -> Summary:
    """Returns the summary of lives of one method, `env_steps` of learning each."""
    failed = lives.failed[:, None]
    curves = np.where(failed, np.nan, lives.episode_return)
    return _summary(lives.final_return, curves, lives.success, env_steps)


def _summary(finals: Array, curves: Array, success: Array, env_steps: int) -> Summary:
    """Summarizes final returns [L], NaN where failed, curves [L, T] and successes [L]."""
    failed = np.isnan(finals)
    if failed.all():
        return _unknown(len(finals), env_steps)
    returns = worst_for_failed(finals)
    areas = worst_for_failed(_areas(curves, failed))
    return Summary(
        final_return_mean=float(np.mean(returns)),
        final_return_iqm=interquartile_mean(returns),
        ci95=confidence_interval(returns),
        auc_mean=float(np.mean(areas)),
        auc_ci95=confidence_interval(areas) if np.isfinite(areas).all() else (np.nan, np.nan),
        success_rate=float(np.mean(success)),
        lives=len(finals),
        failed_lives=int(failed.sum()),
        env_steps=env_steps,
    )


def _unknown(lives: int, env_steps: int) -> Summary:
    """Returns the summary of a method whose lives all failed: every return is NaN."""
    return Summary(
        final_return_mean=np.nan,
        final_return_iqm=np.nan,
        ci95=(np.nan, np.nan),
        auc_mean=np.nan,
        auc_ci95=(np.nan, np.nan),
        success_rate=np.nan,
        lives=lives,
        failed_lives=lives,
        env_steps=env_steps,
    )


def _areas(curves: Array, failed: Array) -> Array:
    """Returns the mean of the known points of each curve, [L]; NaN where it failed or has none."""
    known = np.isfinite(curves)
    total = np.where(known, curves, 0.0).sum(axis=1)
    return np.where(failed | ~known.any(axis=1), np.nan, total / np.maximum(known.sum(axis=1), 1))


def _compared(summary: Summary, learned: Array, other: Results) -> Summary:
    """Returns a summary with the paired difference from the agents of R learned losses, [R, L]
    final returns.
    """
    returns = worst_for_failed(other.final())
    ahead = learned - returns
    interval = confidence_interval(ahead[0]) if len(ahead) == 1 else hierarchical_interval(ahead)
    return dataclasses.replace(
        summary,
        ahead_mean=float(ahead.mean()),
        ahead_ci95=interval,
        improvement=probability_of_improvement(learned, returns[None]),
    )


def as_json(summaries: Mapping[str, Summary]) -> dict[str, dict[str, Any]]:
    """Returns summaries as `summary.json` holds them: fields that are None are left out, but for
    `steps_to_match`.
    """
    return {
        name: {
            key: value
            for key, value in vars(summary).items()
            if value is not None or key == "steps_to_match"
        }
        for name, summary in summaries.items()
    }
