"""Names the parameters of a network, and cuts and joins flat vectors of them.

All learned networks have one form: a pure function of (params, inputs). `params` maps names to
tensors whose leading axis is the population's, of length P, or 1 where all members share them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.core.types import Array

Params = Mapping[str, tf.Tensor]
"""Name -> [P, ...] or [1, ...]; variables and tensors alike."""

Shapes = Mapping[str, tuple[int, ...]]
"""Name -> shape without the population axis, in the order of the flat vector."""


def parameter_count(shapes: Shapes) -> int:
    """Returns D, the length of the flat vector."""
    return sum(math.prod(shape) for shape in shapes.values())


def split(flat: Array, shapes: Shapes) -> dict[str, Array]:
    """Returns name -> [P, ...] of the flat vectors of P members, [P, D]."""
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
    return {
        name: values.reshape(-1, *shape)
        for (name, shape), values in zip(shapes.items(), np.split(flat, ends, axis=1), strict=True)
    }


def flattened(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns tensors [P, ...] side by side, as [P, D]."""
    return tf.concat([tf.reshape(part, [tf.shape(part)[0], -1]) for part in tensors], axis=1)


def unflattened(flat: tf.Tensor, shapes: Sequence[tuple[int, ...]]) -> list[tf.Tensor]:
    """Returns the parts of flat vectors [..., D], each of its own shape after them."""
    leading = flat.shape[:-1]
    parts = tf.split(flat, [math.prod(shape) for shape in shapes], axis=-1)
    return [tf.reshape(part, [*leading, *shape]) for part, shape in zip(parts, shapes, strict=True)]
