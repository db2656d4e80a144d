"""Holds evolution strategies as pure functions: noise of each life, ranks, gradient estimate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from epg_tf.core.failures import worst_for_failed
from epg_tf.core.types import Array


def vector_of_life(life: int, lives: int, vectors: int) -> int:
    """Returns the number of a life's noise vector: ceil(w V / W) of section 3.2.

    Here both are counted from 0, in the paper from 1.
    """
    return (life * vectors) // lives


def perturbation(noise: Callable[[int], Array], vector: int, antithetic: bool) -> Array:
    """Returns epsilon_v; in antithetic pairs vectors 2k and 2k + 1 are +epsilon_k and -epsilon_k.

    Args:
      noise: Maps a number to its [D] standard normal vector.
      vector: v, from 0.
      antithetic: Whether vectors come in pairs.
    """
    if not antithetic:
        return noise(vector)
    return noise(vector // 2) if vector % 2 == 0 else -noise(vector // 2)


def mean_per_vector(returns: Array, vectors: int) -> Array:
    """Averages W returns over the lives of each vector (Eq. 7, F).

    A failed life counts as the worst of all W, so that a loss gains nothing by failing; a vector
    whose lives all failed gets NaN, which ranks last.

    Args:
      returns: [W], NaN where a life failed.
      vectors: V.

    Returns:
      [V].
    """
    succeeded = np.isfinite(returns).reshape(vectors, -1)
    fitness = failures_as_worst(returns).reshape(vectors, -1).mean(axis=1)
    return np.where(succeeded.any(axis=1), fitness, np.nan)


def centred_ranks(fitness: Array) -> Array:
    """Maps fitness to ranks in [-0.5, 0.5] (section 3.2, last lines).

    Equal values share their mean rank; NaN ranks last.

    Args:
      fitness: [V].
    """
    values = np.where(np.isnan(fitness), -np.inf, fitness)
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1) - 1
    return (below + 0.5 * equal) / (len(values) - 1) - 0.5


def failures_as_worst(fitness: Array) -> Array:
    """Returns fitness in which a failure counts as the worst of the others, or 0 if all failed.

    Args:
      fitness: [n], NaN where a life failed.
    """
    return worst_for_failed(fitness) if np.isfinite(fitness).any() else np.zeros(len(fitness))


def ranks_within(returns: Array, groups: Array) -> Array:
    """Maps each life's return to its centred rank among the lives of its group, [W].

    Between tasks returns differ more than between losses; within a pair only the loss differs.

    Args:
      returns: [W], NaN where a life failed.
      groups: [W] int; each group has two members or more.
    """
    ranks = np.empty(len(returns))
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        ranks[members] = centred_ranks(returns[members])
    return ranks


def shaped(returns: Array, vectors: int, fitness: str, groups: Array) -> Array:
    """Turns the returns of lives into the weights of noise vectors in Eq. 7.

    Args:
      returns: [W], NaN where a life failed.
      vectors: V.
      fitness: "rank" ranks the V means; "raw" takes the means as they are (Eq. 7); "rank_in_pair"
        averages, over the lives of a vector, their ranks within groups.
      groups: [W] int, each life's pair.

    Returns:
      [V].
    """
    if fitness == "rank":
        return centred_ranks(mean_per_vector(returns, vectors))
    if fitness == "raw":
        return failures_as_worst(mean_per_vector(returns, vectors))
    return ranks_within(returns, groups).reshape(vectors, -1).mean(axis=1)


def gradient_estimate(
    weights: Array, noise: Callable[[int], Array], sigma: float, antithetic: bool
) -> Array:
    """Estimates the ascent direction 1 / (V sigma) sum_v weight_v epsilon_v (Eq. 7).

    Vectors are added one by one in their order, so that the bits are the same everywhere.

    Args:
      weights: [V] shaped fitness.
      noise: As in `perturbation`; called again here, so that no noise is kept or sent.
      sigma: Deviation of the noise on phi.
      antithetic: Whether vectors come in pairs.

    Returns:
      [D] float64.
    """
    total = np.zeros(1)
    for vector, weight in enumerate(weights):
        total = total + float(weight) * perturbation(noise, vector, antithetic).astype(np.float64)
    return total / (len(weights) * sigma)


def lifetime(uniform: float, shortest: int, longest: int) -> int:
    """Returns a log-uniform number of updates between `shortest` and `longest`, both included.

    Args:
      uniform: A draw from [0, 1).
      shortest: At least 1.
      longest: At least `shortest`.
    """
    return min(int(shortest * ((longest + 1) / shortest) ** uniform), longest)


def mean_lifetime(shortest: int, longest: int) -> float:
    """Returns the mean of `lifetime` over its draws.

    k updates have the probability log((k + 1) / k), normalised.
    """
    updates = np.arange(shortest, longest + 1)
    return float(updates @ np.log((updates + 1) / updates) / np.log((longest + 1) / shortest))
