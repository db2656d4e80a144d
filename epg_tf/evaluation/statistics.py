"""Statistics of the returns of agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from epg_tf.core.failures import worst_for_failed
from epg_tf.core.types import Array


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
