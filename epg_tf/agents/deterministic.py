"""Deterministic policies and twin critics of a population, as functions of their weights
(MetaGenRL, Table 3).

Functions of weights rather than layers, because meta-gradients go through policies that exist only
as tensors: those after a virtual step. All actions are in [-1, 1]; environments scale them to their
own bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from epg_tf.core.parallel_layers import parallel_dense, parallel_norm_dense
from epg_tf.core.types import Array

Weights = Sequence[tf.Tensor]
"""[kernel, bias, scale, shift] of each hidden layer, then [kernel, bias]; each with the leading
axis P, or axes [P, 2] of twin critics."""


def network(inputs: tf.Tensor, weights: Weights) -> tf.Tensor:
    """Applies P networks, dense - layer norm - ReLU and a linear output: [P, N, in] -> [P, N, out],
    or [P, 1, N, in] -> [P, 2, N, out] with the weights of twins.
    """
    for layer in range(0, len(weights) - 2, 4):
        inputs = parallel_norm_dense(inputs, *weights[layer : layer + 4])
    return parallel_dense(inputs, *weights[-2:])


def policy_action(observation: tf.Tensor, weights: Weights) -> tf.Tensor:
    """Returns pi(s) in [-1, 1]: [P, ..., O] -> [P, ..., A]."""
    shape = tf.shape(observation)
    flat = tf.reshape(observation, [shape[0], -1, observation.shape[-1]])
    action = tf.tanh(network(flat, weights))
    return tf.reshape(action, tf.concat([shape[:-1], tf.shape(action)[-1:]], axis=0))


def action_values(observation: tf.Tensor, action: tf.Tensor, weights: Weights) -> tf.Tensor:
    """Returns Q(s, a): [P, ..., O], [P, ..., A] -> [P, ...], or [P, 2, ...] of twin critics."""
    inputs = tf.concat([observation, action], axis=-1)
    shape = tf.shape(inputs)
    twins = len(weights[0].shape) - 3  # axes between P and the kernel's own
    flat = tf.reshape(inputs, tf.concat([shape[:1], [1] * twins, [-1], shape[-1:]], axis=0))
    values = network(flat, weights)
    return tf.reshape(values, tf.concat([tf.shape(values)[:-2], shape[1:-1]], axis=0))


def weight_shapes(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Returns the shapes of one network's weights, in the order of `Weights`.

    Args:
      sizes: From input to output.
    """
    *hidden, last = zip(sizes[:-1], sizes[1:], strict=True)
    shapes: list[tuple[int, ...]] = []
    for before, after in hidden:
        shapes += [(before, after), (after,), (after,), (after,)]
    return [*shapes, last, last[1:]]


def initial_weights(generator: np.random.Generator, sizes: Sequence[int]) -> list[Array]:
    """Draws one network's weights, in the order of `Weights`: uniform within 1 / sqrt(fan-in), as
    TD3's code has it.

    Args:
      generator: Source of the draw.
      sizes: From input to output.
    """
    weights: list[Array] = []
    for number, (before, after) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        limit = 1.0 / np.sqrt(before)
        weights += [
            generator.uniform(-limit, limit, (before, after)),
            generator.uniform(-limit, limit, after),
        ]
        if number < len(sizes) - 2:
            weights += [np.ones(after), np.zeros(after)]
    return [weight.astype(np.float32) for weight in weights]
