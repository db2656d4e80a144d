"""Compares methods over tasks and over seeds of evolution (Agarwal et al. 2021, "Deep Reinforcement
Learning at the Edge of the Statistical Precipice", section 4).

Scores are [R, L]: R losses, evolved with different seeds, each of which trained agents in the same
L tasks. A method that was not meta-trained has one row.
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


def hierarchical_interval(
    scores: Array, seed: int = 0, others: Array | None = None
) -> tuple[float, float]:
    """Returns the 95 % interval of the mean over losses and tasks, or of a difference of two, by a
    bootstrap that draws losses first, then, the same for all of them, tasks.

    With few losses it is too narrow: three of them have ten different samples.

    Args:
      scores: [R, L].
      seed: Of the bootstrap's draws.
      others: [K, L], of another method in the same tasks, whose mean is subtracted; its losses are
        drawn by themselves. None: nothing is subtracted.

    Raises:
      ValueError: No method has two losses or more.
    """
    if max(len(scores), 0 if others is None else len(others)) < 2:
        raise ValueError("an interval over losses needs two of them or more")
    generator = np.random.default_rng(seed)
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
