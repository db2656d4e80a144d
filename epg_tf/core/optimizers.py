"""Computes steps of Adam, for policies inside a life and for the loss outside, and anneals their
learning rate.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from epg_tf.core.types import Array

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-8
"""The constants that Kingma and Ba recommend: decay of the moments, and what is added to the
denominator.
"""


def adam_update(
    gradient: tf.Tensor,
    first_moment: tf.Tensor,
    second_moment: tf.Tensor,
    step: tf.Tensor | float,
    *,
    learning_rate: tf.Tensor | float,
    beta_1: float = BETA_1,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes one Adam step (Kingma and Ba 2015, Algorithm 1).

        m <- beta_1 m + (1 - beta_1) g,   v <- beta_2 v + (1 - beta_2) g^2
        update = -learning_rate * (m / (1 - beta_1^t)) / (sqrt(v / (1 - beta_2^t)) + epsilon)

    Args:
      gradient: g, any shape, of the quantity to minimise.
      first_moment: m, same shape.
      second_moment: v, same shape.
      step: t, number of this step, counted from 1 (a float scalar or tensor).
      learning_rate: Step size, > 0 (delta in the EPG paper).
      beta_1: In [0, 1); 0 switches momentum off, as the outer loop of EPG does.

    Returns:
      (update to add to the parameters, new m, new v).
    """
    first_moment = beta_1 * first_moment + (1.0 - beta_1) * gradient
    second_moment = BETA_2 * second_moment + (1.0 - BETA_2) * tf.square(gradient)
    dtype = gradient.dtype
    scale = _uncached(-learning_rate * (1.0 / (1.0 - beta_1**step)), dtype)
    second_scale = _uncached(1.0 / (1.0 - BETA_2**step), dtype)
    denominator = tf.sqrt(second_moment * second_scale) + EPSILON
    return scale * first_moment / denominator, first_moment, second_moment


def _uncached(scalar: tf.Tensor | float, dtype: tf.DType) -> tf.Tensor | Array:
    """Returns a number that differs in every step, in a form that TensorFlow does not keep.

    For good it keeps a tensor (about 700 bytes) of every float that an eager operation has met.
    """
    return np.array(scalar, dtype.as_numpy_dtype) if isinstance(scalar, float) else scalar


def adam_rows(
    gradient: tf.Tensor,
    moments: tuple[tf.Tensor, tf.Tensor],
    step: tf.Tensor,
    active: tf.Tensor,
    learning_rate: tf.Tensor | float,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes one step of `adam_update`, with the usual constants, for some rows; the others keep
    their moments.

    Args:
      gradient: [P, ...].
      moments: First and second, of the same shape.
      step: t, [P, 1, ...], number of each row's step, counted from 1.
      active: [P, 1, ...], 1.0 for rows that take a step, else 0.0.
      learning_rate: Step size, >= 0.

    Returns:
      (update to add to the parameters, 0 in the other rows; new m; new v).
    """
    first, second = moments
    first += (active * (1.0 - BETA_1)) * (gradient - first)
    second += (active * (1.0 - BETA_2)) * (tf.square(gradient) - second)
    scale = -learning_rate * active / (1.0 - BETA_1**step)
    deviation = tf.sqrt(second * (1.0 / (1.0 - BETA_2**step)))
    return scale * first / (deviation + EPSILON), first, second


def annealed(start: float, end: float, epochs: int, epoch: int) -> float:
    """Returns the value at `epoch` of a straight line from `start` (epoch 0) to `end` (from
    `epochs` on).
    """
    if epoch >= epochs:
        return end
    return start + (end - start) * epoch / epochs
