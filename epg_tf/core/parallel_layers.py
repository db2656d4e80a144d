"""Applies P differently weighted layers to P inputs at once.

Weights carry a leading population axis; one batched matrix product serves the whole population and
equals P separate layers. These functions are the mathematics; the Keras layers that own the
variables are in `core.parallel_models`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.core.shapes import convolution_length
from epg_tf.core.types import Array

NORM_EPSILON = 1e-5  # added to the variance in a layer norm


def parallel_dense(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None
) -> tf.Tensor:
    """Computes inputs @ kernel + bias for every member: [P, T, in] x [P, in, out] -> [P, T, out].

    Args:
      inputs: [P, T, in].
      kernel: [P, in, out]; both may have further axes after P, such as [P, 2, ...] of twin critics.
      bias: [P, out] or None.
    """
    outputs = tf.matmul(inputs, kernel)
    return outputs if bias is None else outputs + bias[..., None, :]


def parallel_layer_norm(inputs: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Normalises the last axis to mean 0 and variance 1, then scales and shifts it (Ba et al.
    2016).

    Args:
      inputs: [P, ..., T, units].
      scale: [P, ..., units].
      shift: [P, ..., units].
    """
    mean = tf.reduce_mean(inputs, axis=-1, keepdims=True)
    centred = inputs - mean
    deviation = tf.sqrt(tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True) + NORM_EPSILON)
    return centred / deviation * scale[..., None, :] + shift[..., None, :]


def parallel_convolution(inputs: tf.Tensor, kernel: tf.Tensor, stride: int) -> tf.Tensor:
    """Convolves over time without padding: [P, T, in] x [P, width, in, out] -> [P, T', out].

    The kernel is cut into pieces of at most `stride` steps. A piece that is `stride` long meets
    inputs that do not overlap, so a reshape lines them up and no patch is ever copied: ceil(width /
    stride) batched products in all.

    Args:
      inputs: [P, T, in].
      kernel: [P, width, in, out]; kernel[:, 0] meets the oldest step.
      stride: Steps between outputs, >= 1.

    Returns:
      [P, convolution_length(T, width, stride), out].
    """
    channels, (width, filters) = inputs.shape[2], (kernel.shape[1], kernel.shape[3])
    length = convolution_length(inputs.shape[1], width, stride)
    outputs = 0.0
    for start in range(0, width, stride):
        piece = min(stride, width - start)
        if piece == stride:
            lined_up = inputs[:, start : start + length * stride]
        else:
            taps = [inputs[:, start + tap :: stride][:, :length] for tap in range(piece)]
            lined_up = taps[0] if piece == 1 else tf.stack(taps, axis=2)
        lined_up = tf.reshape(lined_up, [-1, length, piece * channels])
        outputs += tf.matmul(
            lined_up, tf.reshape(kernel[:, start : start + piece], [-1, piece * channels, filters])
        )
    return outputs


def parallel_mlp(
    inputs: tf.Tensor,
    weights: Sequence[tuple[tf.Tensor, tf.Tensor]],
    activation: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Applies P multilayer perceptrons with linear outputs: [P, T, in] -> [P, T, out].

    Args:
      inputs: [P, T, in].
      weights: (kernel [P, in, out], bias [P, out]) of each layer, from input to output.
      activation: Between layers.
    """
    *hidden, last = weights
    for kernel, bias in hidden:
        inputs = activation(parallel_dense(inputs, kernel, bias))
    return parallel_dense(inputs, *last)


def initial_mlp(
    generator: np.random.Generator, sizes: Sequence[int], output_scale: float
) -> list[Array]:
    """Draws one member's weights: columns of norm 1 (hidden layers) or `output_scale` (last),
    biases 0.

    Args:
      generator: Source of the draw.
      sizes: Layer sizes from input to output.
      output_scale: Norm of the columns of the last kernel, > 0; small makes a fresh policy's mean
        nearly 0.

    Returns:
      [kernel, bias, kernel, bias, ...], float32, from input to output.
    """
    weights = []
    for number, (before, after) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        kernel = generator.standard_normal((before, after))
        scale = output_scale if number == len(sizes) - 2 else 1.0
        kernel *= scale / np.linalg.norm(kernel, axis=0)
        weights += [kernel.astype(np.float32), np.zeros(after, np.float32)]
    return weights
