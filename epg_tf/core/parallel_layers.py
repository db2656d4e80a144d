"""Applies P differently weighted layers to P inputs at once.

Weights carry a leading population axis; one batched matrix product serves the whole population and
equals P separate layers. The functions are the mathematics; the Keras layers own variables and call
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from epg_tf.core.types import Array

NORM_EPSILON = 1e-5  # added to the variance in a layer norm


def parallel_dense(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None
) -> tf.Tensor:
    """Computes inputs @ kernel + bias for every member: [P, T, in] x [P, in, out] -> [P, T, out].

    Args:
      inputs: [P, T, in].
      kernel: [P, in, out]; further leading axes, such as that of twin critics, broadcast.
      bias: [P, out] or None.
    """
    outputs = tf.matmul(inputs, kernel)
    return outputs if bias is None else outputs + bias[..., None, :]


def parallel_layer_norm(inputs: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Normalises the last axis to mean 0 and variance 1, then scales and shifts it (Ba et al.
    2016).

    Args:
      inputs: [..., P, T, units].
      scale: [..., P, units].
      shift: [..., P, units].
    """
    mean = tf.reduce_mean(inputs, axis=-1, keepdims=True)
    centred = inputs - mean
    deviation = tf.sqrt(tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True) + NORM_EPSILON)
    return centred / deviation * scale[..., None, :] + shift[..., None, :]


def convolution_length(steps: int, width: int, stride: int) -> int:
    """Returns how many outputs a valid convolution over `steps` has; 0 where the kernel is longer
    than the input.
    """
    return max(0, (steps - width) // stride + 1)


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


class ParallelDense(tf.keras.layers.Layer):
    """P dense layers with a linear output; weights `kernel` [P, in, out] and `bias` [P, out]."""

    def __init__(self, population: int, input_size: int, units: int, name: str):
        super().__init__(name=name)
        self.kernel = self.add_weight(
            name="kernel", shape=(population, input_size, units), initializer="zeros"
        )
        self.bias = self.add_weight(name="bias", shape=(population, units), initializer="zeros")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps [P, T, in] to [P, T, out]."""
        return parallel_dense(inputs, self.kernel, self.bias)


class ParallelMLP(tf.keras.layers.Layer):
    """P multilayer perceptrons with linear outputs.

    Args:
      population: P.
      sizes: Layer sizes from input to output, at least two.
      activation: Keras name of the activation between layers.
      name: Keras name.
    """

    def __init__(self, population: int, sizes: Sequence[int], activation: str, name: str):
        super().__init__(name=name)
        self.dense = [
            ParallelDense(population, before, after, f"dense_{number}")
            for number, (before, after) in enumerate(zip(sizes[:-1], sizes[1:], strict=True))
        ]
        self.activation = tf.keras.activations.get(activation)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps [P, T, sizes[0]] to [P, T, sizes[-1]]."""
        for layer in self.dense[:-1]:
            inputs = self.activation(layer(inputs))
        return self.dense[-1](inputs)


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
      [kernel, bias, kernel, bias, ...], float32, in the order of `ParallelMLP.weights`.
    """
    weights = []
    for number, (before, after) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        kernel = generator.standard_normal((before, after))
        scale = output_scale if number == len(sizes) - 2 else 1.0
        kernel *= scale / np.linalg.norm(kernel, axis=0)
        weights += [kernel.astype(np.float32), np.zeros(after, np.float32)]
    return weights
