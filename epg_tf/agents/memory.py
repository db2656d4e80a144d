"""The memory unit: one layer fed with ones, which the loss writes through its gradients (EPG,
section 3.3).
"""

from __future__ import annotations

import tensorflow as tf


class Memory(tf.keras.layers.Layer):
    """P memories of `units` numbers in (-1, 1).

    All its inputs are ones, so it amounts to a layer of biases; the number of inputs sets how
    quickly gradient descent moves them. A fresh memory is zero.

    Args:
      population: P.
      inputs: Number of ones fed in, >= 1.
      units: Size of the memory, >= 1.
    """

    def __init__(self, population: int, inputs: int, units: int):
        super().__init__(name="memory")
        self.kernel = self.add_weight(
            name="kernel", shape=(population, inputs, units), initializer="zeros"
        )

    def call(self, inputs: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the memory's content, [P, units]; there is nothing to feed."""
        del inputs
        return tf.tanh(tf.reduce_sum(self.kernel, axis=1))
