"""The memory unit: one layer fed with ones, which the loss writes through its gradients (EPG,
section 3.3).
"""

from __future__ import annotations

import tensorflow as tf

from epg_tf.core.parallel_models import ParallelLayer, ParallelModel


class Memory(ParallelModel):
    """P memories of `units` numbers in (-1, 1).

    All its inputs are ones, so it amounts to a layer of biases; the number of inputs sets how
    quickly gradient descent moves them. A fresh memory is zero. Its one layer is `fed_with_ones`.

    Args:
      population: P.
      inputs: Number of ones fed in, >= 1.
      units: Size of the memory, >= 1.
    """

    def __init__(self, population: int, inputs: int, units: int):
        super().__init__(population, "memory")
        self.dense = ParallelLayer(population, {"kernel": (inputs, units)}, "fed_with_ones")
        self.build()

    @property
    def kernel(self) -> tf.Variable:
        """The weights, [P, inputs, units]."""
        return self.dense.kernel

    def call(self, inputs: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the memory's content, [P, units]; there is nothing to feed, give None."""
        del inputs
        return tf.tanh(tf.reduce_sum(self.kernel, axis=1))
