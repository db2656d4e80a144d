"""Summarizes a table of results: how each method did, and how far the learned loss is ahead."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from epg_tf.core.types import Array, LifeResults
from epg_tf.evaluation.results import EVALUATION, LEARNING, Results
from epg_tf.evaluation.statistics import (
    confidence_interval,
    interquartile_mean,
    worst_for_failed,
)


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
      ahead_mean: How far the learned loss ends above this method, agent by agent; None for itself,
        and where agents differ.
      ahead_ci95: 95 % confidence interval of that.
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
    ahead_mean: float | None = None
    ahead_ci95: tuple[float, float] | None = None


def summarize(results: Results) -> dict[str, Summary]:
    """Returns the summary of each method, by the keys of `Results.groups`.

    Where a learned loss is among the methods, the others are compared with it (the first one, if
    there are several) agent by agent: agents of the same number live in the same task.
    """
    groups = results.groups()
    evaluated = (results.episodes == EVALUATION).any()
    summaries = {}
    for name, rows in groups.items():
        curves = rows.pivot()[1]
        if evaluated and (rows.episodes == LEARNING).any():
            curves = np.full((len(curves), 0), np.nan)
        steps = int(rows.env_steps.max())
        summaries[name] = _summary(rows.final(), curves, rows.final("success"), steps)
    reference = learned_group(results)
    if reference is None:
        return summaries
    target = summaries[reference].final_return_mean
    matched = {
        name: dataclasses.replace(summary, steps_to_match=steps_to_match(groups[name], target))
        for name, summary in summaries.items()
    }
    return {
        name: summary if name == reference else _compared(summary, groups[reference], groups[name])
        for name, summary in matched.items()
    }


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


def learned_group(results: Results) -> str | None:
    """Returns the key of the first group that has a learned loss; None if there is none."""
    learned = (name for name, rows in results.groups().items() if rows.loss[0])
    return next(learned, None)


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


def _compared(summary: Summary, learned: Results, other: Results) -> Summary:
    """Returns a summary with the paired difference from the agents of the learned loss."""
    same = [agent[2:] for agent in learned.agents()] == [agent[2:] for agent in other.agents()]
    if not same:
        return summary
    ahead = worst_for_failed(learned.final()) - worst_for_failed(other.final())
    return dataclasses.replace(
        summary, ahead_mean=float(ahead.mean()), ahead_ci95=confidence_interval(ahead)
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
