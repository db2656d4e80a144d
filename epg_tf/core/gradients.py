"""Checks, masks and scales the gradients of P agents, each row on its own."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def own_axes(part: tf.Tensor) -> list[int]:
    """Returns all axes of a part [P, ...] but the population's."""
    return list(range(1, part.shape.rank))


def per_row(values: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Returns [P] values with as many further axes of length 1 as `like`, [P, ...], has."""
    return tf.reshape(values, [-1] + [1] * (like.shape.rank - 1))


def finite_rows(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns [P] bool: whether all numbers of a row, in all parts [P, ...], are finite."""
    return tf.reduce_all(
        [tf.reduce_all(tf.math.is_finite(part), axis=own_axes(part)) for part in parts], axis=0
    )


def finite_square_rows(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns [P] bool: whether all gradients of a row are finite, and so are the sums of their
    squares, which Adam takes.
    """
    sums = [tf.reduce_sum(tf.square(gradient), axis=own_axes(gradient)) for gradient in gradients]
    return tf.reduce_all(tf.math.is_finite(tf.stack(sums)), axis=0)


def zero_rows(gradient: tf.Tensor, keep: tf.Tensor) -> tf.Tensor:
    """Returns a gradient [P, ...] with zeros in the rows that `keep`, [P] bool, leaves out."""
    return tf.where(per_row(keep, gradient), gradient, 0.0)


def scaled_rows(gradients: Sequence[tf.Tensor], factor: tf.Tensor) -> list[tf.Tensor]:
    """Multiplies each row of the gradients by its factor [P]; a factor of 0 gives 0 even for values
    that are not finite.
    """
    return [tf.math.multiply_no_nan(part, per_row(factor, part)) for part in gradients]


def squared_norms(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the squared global norm of each row of the gradients, [P]."""
    return sum(tf.reduce_sum(tf.square(part), axis=own_axes(part)) for part in gradients)
