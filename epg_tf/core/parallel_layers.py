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
_FEW = 8  # columns


def parallel_dense(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None
) -> tf.Tensor:
    """Computes inputs @ kernel + bias for every member: [P, T, in] x [P, in, out] -> [P, T, out].

    A product with few columns takes thrice the time of one with few rows.

    Args:
      inputs: [P, T, in].
      kernel: [P, in, out]; both may have further axes after P, such as [P, 2, ...] of twin critics.
      bias: [P, out] or None.
    """
    if kernel.shape[-1] <= _FEW:
        rows = tf.matmul(tf.linalg.matrix_transpose(kernel), inputs, transpose_b=True)
        outputs = tf.linalg.matrix_transpose(rows)
    else:
        outputs = tf.matmul(inputs, kernel)
    return outputs if bias is None else outputs + bias[..., None, :]


def parallel_matmul(inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Computes inputs @ kernel, where each kernel may serve several members that follow each other.

    One product for all of a kernel's members is faster than one for each, and copies no kernel.

    Args:
      inputs: [P G, T, in].
      kernel: [P, in, out], or [1, in, out] for all members.

    Returns:
      [P G, T, out].
    """
    if kernel.shape[0] in (1, inputs.shape[0]):
        return tf.matmul(inputs, kernel)
    together = tf.reshape(inputs, [kernel.shape[0], -1, kernel.shape[1]])
    shape = tf.concat([tf.shape(inputs)[:2], [kernel.shape[2]]], axis=0)
    outputs = tf.reshape(tf.matmul(together, kernel), shape)
    return tf.ensure_shape(outputs, [*inputs.shape[:2], kernel.shape[2]])


def parallel_norm_dense(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor
) -> tf.Tensor:
    """Computes relu(layer norm(inputs @ kernel + bias)) for every member (layer norm: Ba et al.
    2016).

    The mean over units is taken from the weights, which are few, instead of from the outputs.

    Args:
      inputs: [P, T, in], or [P, 1, T, in] where the weights have the axes [P, 2].
      kernel: [P, in, out]; all weights may have further axes after P, such as [P, 2, ...].
      bias: [P, out].
      scale: [P, out], of the normalised outputs.
      shift: [P, out].

    Returns:
      [P, T, out].
    """
    kernel, bias, scale, shift = map(tf.convert_to_tensor, (kernel, bias, scale, shift))
    bias, scale, shift = (part[..., None, :] for part in (bias, scale, shift))
    kernel -= tf.reduce_mean(kernel, axis=-1, keepdims=True)
    bias -= tf.reduce_mean(bias, axis=-1, keepdims=True)
    if 12 * inputs.shape[-1] <= kernel.shape[-1]:
        return _narrow_norm_dense(inputs, tf.concat([kernel, bias], axis=-2), scale, shift)
    activated: tf.Tensor = _scaled_relu(tf.matmul(inputs, kernel) + bias, scale, shift)
    return activated


def _narrow_norm_dense(
    inputs: tf.Tensor, centred: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor
) -> tf.Tensor:
    """Computes the same where inputs are few: scales them, instead of the outputs.

    The variance of the outputs W'x is x'(W W')x / units, so nothing as wide as the outputs is
    computed but the outputs. In float64, since terms of the quadratic form may cancel.

    Args:
      inputs: [P, T, in].
      centred: [P, in + 1, out], kernel and bias, rows of mean 0.
      scale: [P, 1, out].
      shift: [P, 1, out].
    """
    extended = tf.concat([inputs, tf.ones_like(inputs[..., :1])], axis=-1)
    exact, weights = tf.cast(extended, tf.float64), tf.cast(centred, tf.float64)
    form = tf.matmul(weights, weights, transpose_b=True) / centred.shape[-1]
    variance = tf.reduce_sum(tf.matmul(exact, form) * exact, axis=-1, keepdims=True)
    inverse = tf.cast(tf.math.rsqrt(tf.nn.relu(variance) + NORM_EPSILON), inputs.dtype)
    normal = tf.concat([extended * inverse, tf.ones_like(inverse)], axis=-1)
    return tf.nn.relu(tf.matmul(normal, tf.concat([centred * scale, shift], axis=-2)))


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _scaled_relu(
    centred: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]]:
    """Divides rows of mean 0 by their deviation, then computes relu(rows * scale + shift).

    Its gradient is written by hand, since TensorFlow's own takes two to three times as many passes
    over memory. It can be differentiated again.

    Args:
      centred: [P, ..., T, units].
      scale: [P, ..., 1, units].
      shift: [P, ..., 1, units].
    """
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    inverse = tf.math.rsqrt(variance + NORM_EPSILON)
    normal = centred * inverse
    outputs = tf.nn.relu(normal * scale + shift)

    def gradient(slope: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        slope = tf.raw_ops.ReluGrad(gradients=slope, features=outputs)
        product = slope * normal
        # The product of a row's slope, scale and normal, mean over units.
        share = tf.matmul(product, scale, transpose_b=True) / scale.shape[-1]
        return (
            (slope * scale - normal * share) * inverse,
            tf.reduce_sum(product, axis=-2, keepdims=True),
            tf.reduce_sum(slope, axis=-2, keepdims=True),
        )

    return outputs, gradient


def parallel_convolution(inputs: tf.Tensor, kernel: tf.Tensor, stride: int) -> tf.Tensor:
    """Convolves over time without padding: [P, T, in] x [P, width, in, out] -> [P, T', out].

    A kernel may serve several members that follow each other, as in `parallel_matmul`.

    The kernel is cut into pieces of at most `stride` steps. A piece meets the ends of windows that
    are `stride` long and do not overlap, so a reshape lines them up: ceil(width / stride) batched
    products in all. The gradient of `tf.slice` takes a fiftieth of the time of that of brackets.

    Args:
      inputs: [P, T, in].
      kernel: [P, width, in, out]; kernel[:, 0] meets the oldest step.
      stride: Steps between outputs, >= 1.

    Returns:
      [P, convolution_length(T, width, stride), out].
    """
    channels, (width, filters) = inputs.shape[2], (kernel.shape[1], kernel.shape[3])
    length = convolution_length(inputs.shape[1], width, stride)
    before = max(stride - width, 0)  # steps that the first window lacks
    inputs = tf.pad(inputs, [[0, 0], [before, 0], [0, 0]]) if before else inputs
    outputs = 0.0
    for start in range(0, width, stride):
        piece = min(stride, width - start)
        first = before + start + piece - stride
        windows = tf.slice(inputs, [0, first, 0], [-1, length * stride, -1])
        windows = tf.reshape(windows, [-1, length, stride * channels])
        lined_up = tf.slice(windows, [0, 0, (stride - piece) * channels], [-1, -1, -1])
        outputs += parallel_matmul(
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
