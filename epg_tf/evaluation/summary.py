"""Summarizes a table of results: how each method did, and how far the learned loss is ahead."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epg_tf.core.failures import worst_for_failed
from epg_tf.core.types import Array
from epg_tf.evaluation.results import EVALUATION, LEARNING, Results
from epg_tf.evaluation.statistics import (
    confidence_interval,
    hierarchical_interval,
    interquartile_mean,
    probability_of_improvement,
    surviving_interval,
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
      steps_to_match: Env steps from which on the method reaches, to the end, the final mean return
        of the learned loss: the mean of its curve over agents does, where every agent has a point,
        and its final mean return. None: it does not end there, or there is no learned loss.
      ahead_mean: How far the learned loss (see `reference`) ends above this method, agent by agent;
        None for itself, and where agents differ; NaN where all of one of them failed. Of several
        runs: the mean over them.
      ahead_ci95: 95 % confidence interval of that.
      improvement: How probable it is that an agent of the learned loss ends above one of this
        method in the same task; None where `ahead_mean` is None or NaN.
      losses: Number of runs of meta-training, with different seeds, that this is the mean of;
        `ci95` and `ahead_ci95` are then over runs and tasks. None: one alone.
      initial_return_mean: Return at the first known point of an agent's curve, mean over agents; of
        agents that explore it is that of their first episode, during which they may have learned.
        NaN as `auc_mean`.
      initial_ci95: 95 % confidence interval of that.
    """

    final_return_mean: float = np.nan
    final_return_iqm: float = np.nan
    ci95: tuple[float, float] = (np.nan, np.nan)
    auc_mean: float = np.nan
    auc_ci95: tuple[float, float] = (np.nan, np.nan)
    success_rate: float = np.nan
    lives: int = 0
    failed_lives: int = 0
    env_steps: int = 0
    steps_to_match: int | None = None
    ahead_mean: float | None = None
    ahead_ci95: tuple[float, float] | None = None
    improvement: float | None = None
    losses: int | None = None
    initial_return_mean: float = np.nan
    initial_ci95: tuple[float, float] = (np.nan, np.nan)


def summarize(results: Results) -> dict[str, Summary]:
    """Returns the summary of each method, by the keys of `Results.groups`.

    Where a learned loss is among the methods, the others are compared with it agent by agent:
    agents of the same number live in the same task. Where a method has several, meta-trained with
    different seeds and tested in the same tasks, there is also their mean, before them and by the
    name of the method; the others are compared with the mean of the first such method.
    """
    groups = results.groups()
    several = _several(groups)
    scores = {name: worst_for_failed(rows.final())[None] for name, rows in groups.items()}
    found: dict[str, Summary] = {}
    for name, rows in groups.items():
        method = str(rows.method[0])
        if method in several and method not in found:
            names = several[method]
            scores[method] = _worst_for_failed_runs(np.concatenate([scores[n] for n in names]))
            alone = [_of_group(groups[each], results) for each in names]
            found[method] = _mean_over_losses(alone, scores[method])
        found[name] = _of_group(rows, results)
    compared = reference(results)
    if compared is None:
        return found
    learned = {compared, *learned_groups(results)}
    target, tasks = float(scores[compared].mean()), _tasks(groups[learned_groups(results)[0]])
    for name, summary in found.items():
        mine = [groups[each] for each in several.get(name, [name])]
        match = steps_to_match(mine, target)
        summary = dataclasses.replace(summary, steps_to_match=match)
        if name not in learned and _tasks(mine[0]) == tasks:
            summary = _compared(summary, scores[compared], scores[name])
        found[name] = summary
    return found


def _several(groups: Mapping[str, Results]) -> dict[str, list[str]]:
    """Returns method -> keys of its groups, where it has several that were tested in the same tasks
    as its first.
    """
    found: dict[str, list[str]] = {}
    for name, rows in groups.items():
        mine = found.setdefault(str(rows.method[0]), [])
        if not mine or _tasks(rows) == _tasks(groups[mine[0]]):
            mine.append(name)
    return {method: names for method, names in found.items() if len(names) > 1}


def _of_group(rows: Results, results: Results) -> Summary:
    """Returns the summary of the rows of one method with one loss."""
    curves = rows.pivot()[1]
    if (results.episodes == EVALUATION).any() and (rows.episodes == LEARNING).any():
        curves = np.full((len(curves), 0), np.nan)
    return _summary(rows.final(), curves, rows.final("success"), int(rows.env_steps.max()))


def _worst_for_failed_runs(scores: Array) -> Array:
    """Returns [R, L] final returns in which agents of runs that all failed have the worst of the
    others; NaN where there are no others.
    """
    known = scores[np.isfinite(scores)]
    return np.where(np.isfinite(scores), scores, known.min() if known.size else np.nan)


def _mean_over_losses(summaries: Sequence[Summary], scores: Array) -> Summary:
    """Returns the summary of R losses together, [R, L] final returns."""
    first = summaries[0]
    areas = np.array([summary.auc_mean for summary in summaries])
    initial = np.array([each.initial_return_mean for each in summaries])
    return dataclasses.replace(
        first,
        final_return_mean=float(scores.mean()),
        final_return_iqm=interquartile_mean(scores.ravel()),
        ci95=hierarchical_interval(scores),
        auc_mean=float(np.mean(worst_for_failed(areas))),
        auc_ci95=_interval(areas),
        initial_return_mean=float(np.mean(worst_for_failed(initial))),
        initial_ci95=_interval(initial),
        success_rate=float(np.mean([summary.success_rate for summary in summaries])),
        lives=sum(summary.lives for summary in summaries),
        failed_lives=sum(summary.failed_lives for summary in summaries),
        losses=len(summaries),
    )


def steps_to_match(runs: Sequence[Results], target: float) -> int | None:
    """Returns the env steps of learning from which on agents reach a mean return, to the end.

    Args:
      runs: Rows of one method, those of each of its runs apart. Its curve is of evaluations where
        there are any, else of the newest episodes of learning; agents that failed count as the
        worst of the others of their run.

    Returns:
      None where the final policies do not reach it, or all agents of a run failed.
    """
    failed = [~np.isfinite(rows.final()) for rows in runs]
    if any(each.all() for each in failed):
        return None
    if not _reaches([worst_for_failed(rows.final()).mean() for rows in runs], target):
        return None
    steps, curves = Results.join(runs).pivot()
    of_runs = np.split(curves, np.cumsum([len(each) for each in failed])[:-1])
    since = int(max(rows.env_steps.max() for rows in runs))
    for place, at in reversed([*enumerate(steps)]):
        pairs = [(curve[:, place], gone) for curve, gone in zip(of_runs, failed, strict=True)]
        if all(np.isfinite(mine[~gone]).all() for mine, gone in pairs):
            known = [worst_for_failed(np.where(gone, np.nan, mine)) for mine, gone in pairs]
            if not _reaches([mine.mean() for mine in known], target):
                break
            since = int(at)
    return since


def _reaches(means: Sequence[float], target: float) -> bool:
    """Returns whether the mean over runs is the target or above it; a target that is the mean over
    all agents at once differs in the last bits.
    """
    mean = float(np.mean(means))
    return mean >= target or math.isclose(mean, target, rel_tol=1e-12)


def learned_groups(results: Results) -> list[str]:
    """Returns the keys of the groups with a learned loss that others are compared with: the first
    one, and those of the same method that were tested in the same tasks.
    """
    groups = results.groups()
    first = next((name for name, rows in groups.items() if rows.loss[0]), None)
    if first is None:
        return []
    return _several(groups).get(str(groups[first].method[0]), [first])


def reference(results: Results) -> str | None:
    """Returns the key of the summary that others are compared with; None without a learned loss."""
    learned = learned_groups(results)
    if len(learned) > 1:
        return str(results.groups()[learned[0]].method[0])
    return learned[0] if learned else None


def _tasks(rows: Results) -> list[tuple[str, int]]:
    """Returns task and number of every agent of a group."""
    return [agent[2:] for agent in rows.agents()]


def _summary(finals: Array, curves: Array, success: Array, env_steps: int) -> Summary:
    """Summarizes final returns [L], NaN where failed, curves [L, T] and successes [L]."""
    failed = np.isnan(finals)
    if failed.all():
        return Summary(
            success_rate=float(np.mean(success)),
            lives=len(finals),
            failed_lives=len(finals),
            env_steps=env_steps,
        )
    returns = worst_for_failed(finals)
    areas, initial = _areas(curves, failed), _initial(curves, failed)
    return Summary(
        final_return_mean=float(np.mean(returns)),
        final_return_iqm=interquartile_mean(returns),
        ci95=surviving_interval(finals),
        auc_mean=float(np.mean(worst_for_failed(areas))),
        auc_ci95=_interval(areas),
        initial_return_mean=float(np.mean(worst_for_failed(initial))),
        initial_ci95=_interval(initial),
        success_rate=float(np.mean(success)),
        lives=len(finals),
        failed_lives=int(failed.sum()),
        env_steps=env_steps,
    )


def _interval(values: Array) -> tuple[float, float]:
    return surviving_interval(values) if np.isfinite(values).any() else (np.nan, np.nan)


def _initial(curves: Array, failed: Array) -> Array:
    """Returns the first known point of each curve, [L]; NaN where it failed or has none."""
    known = np.isfinite(curves)
    if not curves.shape[1]:
        return np.full(len(curves), np.nan)
    first = np.take_along_axis(curves, known.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.where(failed | ~known.any(axis=1), np.nan, first)


def _areas(curves: Array, failed: Array) -> Array:
    """Returns the mean of the known points of each curve, [L]; NaN where it failed or has none."""
    known = np.isfinite(curves)
    total = np.where(known, curves, 0.0).sum(axis=1)
    return np.where(failed | ~known.any(axis=1), np.nan, total / np.maximum(known.sum(axis=1), 1))


def _compared(summary: Summary, learned: Array, other: Array) -> Summary:
    """Returns a summary with the paired difference of final returns: agents of R learned losses,
    [R, L], and of K of this method, [K, L].
    """
    if not (np.isfinite(learned).all() and np.isfinite(other).all()):
        unknown = (np.nan, np.nan)  # all agents of one of them failed
        return dataclasses.replace(summary, ahead_mean=np.nan, ahead_ci95=unknown)
    if len(learned) == len(other) == 1:
        interval = confidence_interval(learned[0] - other[0])
    else:
        interval = hierarchical_interval(learned, others=other)
    return dataclasses.replace(
        summary,
        ahead_mean=float(learned.mean() - other.mean()),
        ahead_ci95=interval,
        improvement=probability_of_improvement(learned, other),
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
