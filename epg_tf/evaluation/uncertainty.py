"""Compares methods over tasks and over seeds of evolution (Agarwal et al. 2021, "Deep Reinforcement
Learning at the Edge of the Statistical Precipice", section 4).

Scores are [R, L]: R losses, evolved with different seeds, each of which trained agents in the same
L tasks. A method without a learned loss has one row.
"""

from __future__ import annotations

import numpy as np

from epg_tf.core.types import Array

_DRAWS = 2000


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


def performance_profile(scores: Array, thresholds: Array) -> Array:
    """Returns the share of all [R, L] scores above each threshold, [K]."""
    return np.mean(scores.reshape(-1, 1) > thresholds, axis=0)


def hierarchical_interval(scores: Array, seed: int = 0) -> tuple[float, float]:
    """Returns the 95 % interval of the mean over losses and tasks, by a bootstrap that draws losses
    first, then, the same for all of them, tasks.

    With few losses it is narrower than it ought to be: three of them have ten different samples.

    Args:
      scores: [R, L]; R >= 2.
      seed: Of the bootstrap's draws.

    Raises:
      ValueError: There is one loss alone.
    """
    losses, tasks = scores.shape
    if losses < 2:
        raise ValueError("an interval over losses needs two of them or more")
    generator = np.random.default_rng(seed)
    shares = [
        generator.multinomial(count, np.full(count, 1.0 / count), _DRAWS) / count
        for count in (losses, tasks)
    ]
    means = np.sum((shares[0] @ scores) * shares[1], axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
