"""Evolution strategies as pure functions: which life gets which noise, ranks, gradient estimate, schedules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def vector_of_life(life: int, lives: int, vectors: int) -> int:
    """Returns the noise vector of a life, both counted from 0: ceil(w V / W) of section 3.2 counts from 1."""
    return (life * vectors) // lives


def perturbation(noise: Callable[[int], np.ndarray], vector: int, antithetic: bool) -> np.ndarray:
    """Returns epsilon_v; in antithetic pairs vectors 2k and 2k + 1 are +epsilon_k and -epsilon_k.

    Args:
      noise: Maps a number to its [D] standard normal vector.
      vector: v, from 0.
      antithetic: Whether vectors come in pairs.
    """
    if not antithetic:
        return noise(vector)
    return noise(vector // 2) if vector % 2 == 0 else -noise(vector // 2)


def mean_per_vector(returns: np.ndarray, vectors: int) -> np.ndarray:
    """Averages W returns over the lives of each vector (Eq. 7, F).

    A failed life counts as the worst of all W, so that a loss gains nothing by failing; a vector whose lives all failed
    gets NaN, which ranks last.

    Args:
      returns: [W], NaN where a life failed.
      vectors: V.

    Returns:
      [V].
    """
    alive = np.isfinite(returns).reshape(vectors, -1)
    fitness = raw_weights(returns).reshape(vectors, -1).mean(axis=1)
    return np.where(alive.any(axis=1), fitness, np.nan)


def centred_ranks(fitness: np.ndarray) -> np.ndarray:
    """Maps fitness to ranks in [-0.5, 0.5], ties sharing their mean rank; NaN ranks last (section 3.2, last lines).

    Args:
      fitness: [V].
    """
    values = np.where(np.isnan(fitness), -np.inf, fitness)
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1) - 1
    return (below + 0.5 * equal) / (len(values) - 1) - 0.5


def raw_weights(fitness: np.ndarray) -> np.ndarray:
    """Returns fitness itself as weights (Eq. 7); what failed counts as the worst of the rest, or 0 if none is left."""
    alive = fitness[np.isfinite(fitness)]
    return np.where(np.isfinite(fitness), fitness, alive.min() if alive.size else 0.0)


SHAPINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"rank": centred_ranks, "raw": raw_weights}


def gradient_estimate(weights: np.ndarray, noise: Callable[[int], np.ndarray], sigma: float, antithetic: bool
                      ) -> np.ndarray:
    """Estimates the ascent direction 1 / (V sigma) sum_v weight_v epsilon_v (Eq. 7), vector by vector in order.

    Args:
      weights: [V] shaped fitness.
      noise: As in `perturbation`; called again here, so that no noise is kept or sent.
      sigma: Deviation of the noise on phi.
      antithetic: Whether vectors come in pairs.

    Returns:
      [D] float64.
    """
    total = 0.0
    for vector, weight in enumerate(weights):
        total = total + float(weight) * perturbation(noise, vector, antithetic).astype(np.float64)
    return total / (len(weights) * sigma)


def annealed(start: float, end: float, epochs: int, epoch: int) -> float:
    """Returns the value at `epoch` of a straight line from `start` (epoch 0) to `end` (from `epochs` on)."""
    if epoch >= epochs:
        return end
    return start + (end - start) * epoch / epochs
