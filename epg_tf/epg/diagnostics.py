"""Measures what limits evolution: noise in the fitness, or too few directions.

docs/evolve.md says how to read the numbers.
"""

from __future__ import annotations

import numpy as np

from epg_tf.core.types import Array


def cosine(one: Array, other: Array) -> float:
    """Returns the cosine between two [D] vectors; NaN if one of them is zero."""
    one = one.astype(np.float64)
    other = other.astype(np.float64)
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / norms) if norms else float("nan")


def signal_to_noise(ascent: Array, weights: Array, sigma: float, antithetic: bool) -> float:
    """Estimates |expectation|^2 over the noise's mean square, of a gradient estimate.

    The estimate is the mean of n independent contributions weight_k epsilon_k / sigma. Their
    squared lengths are taken as weight_k^2 D / sigma^2, because |epsilon|^2 is D within a few per
    cent. Numerator and denominator are each nearly without bias (ranks make the contributions
    depend on each other a little); their ratio is not. It is below 0 at times: average it over
    epochs.

    Args:
      ascent: [D], from `evolution_strategies.gradient_estimate`.
      weights: [V] shaped fitness.
      sigma: Deviation of the noise on phi.
      antithetic: Whether vectors come in pairs, which are one contribution.

    Returns:
      NaN if all weights are 0.
    """
    contributions = (weights[0::2] - weights[1::2]) / 2.0 if antithetic else weights
    count = len(contributions)
    squares = np.mean(np.square(contributions)) * len(ascent) / sigma**2
    noise = (squares - ascent @ ascent) / (count - 1) if count > 1 else 0.0
    return float((ascent @ ascent - noise) / noise) if noise > 0.0 else float("nan")
