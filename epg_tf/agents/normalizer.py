"""Running mean and deviation of what a life has met (EPG, section 4), as pure functions over a
population.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from epg_tf.core.types import Array

DEVIATION_FLOOR = 1e-2  # keeps what hardly varies from being blown up to unit size


class Moments(NamedTuple):
    """Statistics of K quantities in P lives: count of steps, mean [P, K] and sum of squared
    deviations [P, K].
    """

    count: int
    mean: Array
    squares: Array


def empty_moments(population: int, size: int) -> Moments:
    """Returns the moments of a life in which nothing has happened."""
    return Moments(0, np.zeros((population, size)), np.zeros((population, size)))


def merge(moments: Moments, batch: Array) -> Moments:
    """Adds M steps to the moments, each counted once (Chan et al. 1979).

    Args:
      moments: So far.
      batch: [P, M, K].
    """
    count, steps = moments.count, batch.shape[1]
    batch = batch.astype(np.float64)
    mean = batch.mean(axis=1)
    squares = np.square(batch - mean[:, None]).sum(axis=1)
    delta, total = mean - moments.mean, count + steps
    return Moments(
        total,
        moments.mean + delta * (steps / total),
        moments.squares + squares + np.square(delta) * (count * steps / total),
    )


def scaling(moments: Moments) -> tuple[Array, Array]:
    """Returns (shift, scale), both [P, K] float32, such that (x - shift) * scale is normalised.

    Before the first step they leave x as it is.
    """
    if not moments.count:
        return np.zeros_like(moments.mean, np.float32), np.ones_like(moments.mean, np.float32)
    deviation = np.sqrt(moments.squares / moments.count)
    return moments.mean.astype(np.float32), (1.0 / np.maximum(deviation, DEVIATION_FLOOR)).astype(
        np.float32
    )
