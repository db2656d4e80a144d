"""Statistics of the returns of agents; over tasks and over seeds of meta-training as by Agarwal et
al. (2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice", section 4).

Scores are [R, L]: R losses, meta-trained with different seeds, each of which trained agents in the
same L tasks. A method that was not meta-trained has one row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from epg_tf.core.failures import worst_for_failed
from epg_tf.core.types import Array

_DRAWS = 2000  # of a bootstrap


def interquartile_mean(values: Array) -> float:
    """Returns the mean of the middle half of [L] values, robust against a few extreme agents
    (Agarwal et al. 2021).
    """
    return float(stats.trim_mean(values, 0.25))


def confidence_interval(values: Array) -> tuple[float, float]:
    """Returns the 95 % interval of the mean of [L] independent values (Student's t); infinite for a
    single one.
    """
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return -np.inf, np.inf
    half = float(stats.t.ppf(0.975, count - 1) * np.std(values, ddof=1) / np.sqrt(count))
    return mean - half, mean + half


def median_interval(values: Array) -> tuple[float, float]:
    """Returns an interval of the median of [L] independent values that holds it with a probability
    of at least 95 %, whatever their distribution: its ends are two of the values, chosen by the
    binomial distribution of how many lie below the median; infinite for fewer than six.
    """
    ordered = np.sort(values)
    # P(at most k of the values lie below the median), k = 0, 1, ...
    tails = stats.binom.cdf(np.arange(len(ordered)), len(ordered), 0.5)
    left_out = int(np.sum(tails <= 0.025)) - 1  # on either side
    if left_out < 0:
        return -np.inf, np.inf
    return float(ordered[left_out]), float(ordered[-1 - left_out])


def share_interval(hits: int, count: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share, `hits` of `count` independent trials (Wilson 1927)."""
    found = stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    return float(found.low), float(found.high)


def surviving_interval(values: Array) -> tuple[float, float]:
    """Returns `confidence_interval` of [L] values, those that are not finite as the worst of the
    others; infinite where fewer than two are finite, for the copies of one tell nothing.
    """
    few = np.isfinite(values).sum() < 2
    return (-np.inf, np.inf) if few else confidence_interval(worst_for_failed(values))


def interval_row(returns: Array) -> dict[str, Any]:
    """Returns `mean`, `ci95`, `lives` and `failed_lives` of [L] returns, NaN where an agent failed,
    which counts as the worst of the others.
    """
    return {
        "mean": float(np.mean(worst_for_failed(returns))),
        "ci95": surviving_interval(returns),
        "lives": len(returns),
        "failed_lives": int(np.isnan(returns).sum()),
    }


def difference_row(one: Array, other: Array) -> dict[str, Any]:
    """Returns `mean` and `ci95` of how far [L] returns end above others, agent by agent; failed
    agents count as in `interval_row`.
    """
    above = worst_for_failed(one) - worst_for_failed(other)
    few = min(np.isfinite(one).sum(), np.isfinite(other).sum()) < 2
    interval = (-np.inf, np.inf) if few else confidence_interval(above)
    return {"mean": float(np.mean(above)), "ci95": interval}


def probability_of_improvement(scores: Array, others: Array) -> float:
    """Returns how probable it is that an agent of one method ends above one of the other in the
    same task, ties counting half; the mean over tasks.

    Args:
      scores: [R, L].
      others: [K, L], of the other method in the same tasks.
    """
    above = scores[:, None] > others[None]
    equal = scores[:, None] == others[None]
    return float(np.mean(above + 0.5 * equal))


def hierarchical_interval(scores: Array, others: Array | None = None) -> tuple[float, float]:
    """Returns the 95 % interval of the mean over losses and tasks, or of a difference of two, by a
    bootstrap that draws losses first, then, the same for all of them, tasks.

    With few losses it is too narrow: three of them have ten different samples.

    Args:
      scores: [R, L].
      others: [K, L], of another method in the same tasks, whose mean is subtracted; its losses are
        drawn by themselves. None: nothing is subtracted.

    Raises:
      ValueError: No method has two losses or more.
    """
    if max(len(scores), 0 if others is None else len(others)) < 2:
        raise ValueError("an interval over losses needs two of them or more")
    generator = np.random.default_rng(0)
    of_losses = _shares(generator, len(scores))
    of_tasks = _shares(generator, scores.shape[1])
    drawn = of_losses @ scores
    if others is not None:
        drawn = drawn - _shares(generator, len(others)) @ others
    low, high = np.percentile(np.sum(drawn * of_tasks, axis=1), [2.5, 97.5])
    return float(low), float(high)


def _shares(generator: np.random.Generator, count: int) -> Array:
    """Returns the share of each of `count` things in every draw with replacement."""
    return generator.multinomial(count, np.full(count, 1.0 / count), _DRAWS) / count
