"""Counts agents that failed: each as the worst of the others, so that none of them gains by it."""

from __future__ import annotations

import numpy as np

from epg_tf.core.types import Array


def worst_for_failed(values: Array) -> Array:
    """Returns [L] values with the worst of the others for those that are not finite; as they are
    where none is finite.

    The others are those of the same method, so that a row of a table does not depend on which rows
    are beside it. A method whose weakest agents fail can therefore look better than one whose
    weakest agents come to their end: tables show the number of failures.
    """
    known = np.isfinite(values)
    return np.where(known, values, values[known].min()) if known.any() else values


def mean_return(returns: Array) -> float:
    """Returns the mean of [L] returns, failed ones as the worst of the others; NaN where all
    failed.
    """
    return float(np.mean(worst_for_failed(returns))) if np.isfinite(returns).any() else float("nan")
