"""State-value networks of a population, for the surrogates that need one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from epg_tf.core.parallel_layers import ParallelMLP
from epg_tf.core.types import Array


class ValueNetwork(tf.keras.Model):
    """P estimates V(s) of the discounted return.

    Args:
      population: P.
      observation_size: O.
      hidden: Sizes of the tanh layers.
    """

    def __init__(self, population: int, observation_size: int, hidden: Sequence[int]):
        super().__init__(name="value_network")
        self.sizes = (observation_size, *hidden, 1)
        self.network = ParallelMLP(population, self.sizes, "tanh", "value")

    def call(self, observation: tf.Tensor) -> tf.Tensor:
        """Maps normalised observations [P, T, O] to values [P, T]."""
        return self.network(observation)[:, :, 0]

    def load(self, members: Sequence[Sequence[Array]]) -> None:
        """Takes the weights of every member, each as from `initial_mlp`."""
        variables = [
            weight for layer in self.network.dense for weight in (layer.kernel, layer.bias)
        ]
        for variable, values in zip(variables, zip(*members, strict=True), strict=True):
            variable.assign(np.stack(values))
