"""Converts discrete actions of K independent parts: a number for each of them, or their one-hot
rows side by side, which is what policies and losses see.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epg_tf.core.types import Array


def largest(values: Array, parts: Sequence[int]) -> Array:
    """Returns the place of the largest value of each part, [P, K] int.

    Args:
      values: [P, A], e.g. one-hot rows.
      parts: How many choices each of the K parts has; they add up to A.
    """
    blocks = np.split(values, np.cumsum(parts)[:-1], axis=1)
    return np.stack([block.argmax(axis=1) for block in blocks], axis=1)


def one_hot(places: Array, parts: Sequence[int]) -> Array:
    """Returns one-hot rows side by side, [P, A] float32.

    Args:
      places: [P, K] int, of each part the number of the choice, from 0.
      parts: As in `largest`.
    """
    rows = np.zeros((len(places), sum(parts)), np.float32)
    starts = np.cumsum([0, *parts[:-1]])
    rows[np.arange(len(places))[:, None], starts + places] = 1.0
    return rows
