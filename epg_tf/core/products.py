"""Products of pairs of components, with which linear functions of observations become bilinear."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf

from epg_tf.core.types import Array


def number_of_pairs(size: int) -> int:
    """Returns how many pairs j <= k of O = `size` components there are, O (O + 1) / 2."""
    return size * (size + 1) // 2


@functools.cache
def _pairs(size: int) -> tuple[Array, Array]:
    """Returns j and k of each pair, the first as 0; agents that act need them at every env step."""
    first, second = np.triu_indices(size)
    return first, second


def products_of_pairs(values: tf.Tensor) -> tf.Tensor:
    """Returns the products v_j v_k, j <= k, of components [..., O] in the order of rows of an upper
    triangle, (1, 1), (1, 2), ..., (2, 2), ...: [..., O (O + 1) / 2].
    """
    first, second = _pairs(values.shape[-1])
    return tf.gather(values, first, axis=-1) * tf.gather(values, second, axis=-1)


def with_products(values: Array) -> Array:
    """Returns components [..., O] and then their products as `products_of_pairs`, NumPy arrays."""
    first, second = _pairs(values.shape[-1])
    together: Array = np.concatenate([values, values[..., first] * values[..., second]], axis=-1)
    return together
