"""Computes running means and deviations of what a life has recorded (EPG, section 4), as pure
functions over a population.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from epg_tf.core.types import Array

DEVIATION_FLOOR = 1e-2  # so that what hardly varies is not scaled up to unit size

Values = TypeVar("Values", Array, tf.Tensor)


class Moments(NamedTuple):
    """Statistics of K quantities in P lives.

    Attributes:
      steps: How many were counted: one number, or [P, 1] where lives differ in it.
      mean: [P, K].
      squares: [P, K], sum of squared deviations.
    """

    steps: int | Array
    mean: Array
    squares: Array


def empty_moments(population: int, size: int) -> Moments:
    """Returns the moments of a life in which nothing has happened."""
    return Moments(0, np.zeros((population, size)), np.zeros((population, size)))


def packed(moments: Moments, life: int) -> Array:
    """Returns the moments of one life as one row, [1 + 2 K] float64."""
    steps = np.broadcast_to(moments.steps, (len(moments.mean), 1))
    return np.concatenate([steps[life], moments.mean[life], moments.squares[life]])


def unpacked(rows: Sequence[Array | None], size: int) -> Moments:
    """Reads what `packed` wrote.

    Args:
      rows: P rows; None: nothing has happened in this life.
      size: K.
    """
    nothing = np.zeros(1 + 2 * size)
    stacked = np.stack([nothing if row is None else row for row in rows])
    return Moments(*np.split(stacked, [1, 1 + size], axis=1))


def merge(moments: Moments, batch: Array) -> Moments:
    """Adds M steps to the moments, each counted once (Chan et al. 1979).

    Args:
      moments: So far.
      batch: [P, M, K].
    """
    before, steps = moments.steps, batch.shape[1]
    batch = batch.astype(np.float64)
    mean = batch.mean(axis=1)
    squares = np.square(batch - mean[:, None]).sum(axis=1)
    delta = mean - moments.mean
    total = before + steps
    return Moments(
        total,
        moments.mean + delta * (steps / total),
        moments.squares + squares + np.square(delta) * (before * steps / total),
    )


def scaling(moments: Moments, about_zero: int = 0) -> tuple[Array, Array]:
    """Returns (shift, scale) for `normalize`, both [P, K] float32.

    Before the first step they leave values as they are.

    Args:
      moments: Of the life so far.
      about_zero: The first so many of the K quantities are not shifted, and divided by their root
        mean square instead of their deviation. For what means something where it is zero, such as
        the way to a target: a running mean hides a distance that an agent keeps.
    """
    variance = moments.squares / np.maximum(moments.steps, 1)
    centre = moments.mean.copy()
    variance[:, :about_zero] += np.square(centre[:, :about_zero])
    centre[:, :about_zero] = 0.0
    begun = np.asarray(moments.steps) > 0
    scale = np.where(begun, 1.0 / np.maximum(np.sqrt(variance), DEVIATION_FLOOR), 1.0)
    return centre.astype(np.float32), scale.astype(np.float32)


def normalize(values: Values, shift: Values, scale: Values) -> Values:
    """Returns values with mean 0 and deviation 1, or of root mean square 1, where shift and scale
    are their `scaling`.

    Args:
      values: [P, ..., K], NumPy array or tensor.
      shift: [P, ..., K], or of a shape that broadcasts to that.
      scale: As `shift`.
    """
    return (values - shift) * scale
