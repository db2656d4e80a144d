"""State-value networks of a population, for the surrogates that need one."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from epg_tf.core.parallel_layers import parallel_mlp
from epg_tf.core.parallel_models import ParallelModel, mlp_layers
from epg_tf.core.types import EnvironmentSpec


class ValueNetwork(ParallelModel):
    """P estimates V(s) of the discounted return.

    Its layers are hidden_1, ..., output. Called with normalised observations [P, T, O] it returns
    values [P, T].

    Args:
      population: P.
      spec: Size of observations.
      hidden: Sizes of the tanh layers.

    Attributes:
      sizes: Of the network, from input to output.
    """

    def __init__(self, population: int, spec: EnvironmentSpec, hidden: Sequence[int]):
        super().__init__(population, "value_network")
        self.sizes = (spec.observation_size, *hidden, 1)
        self.dense = mlp_layers(population, self.sizes)
        self.build()

    def call(self, observation: tf.Tensor) -> tf.Tensor:
        """Maps normalised observations [P, T, O] to values [P, T]."""
        weights = [(layer.kernel, layer.bias) for layer in self.dense]
        return tf.squeeze(parallel_mlp(observation, weights, tf.tanh), -1)
