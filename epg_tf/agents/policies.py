"""Gaussian policies of a population (EPG, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from epg_tf.config import PolicyConfig
from epg_tf.distributions import diagonal_gaussian
from epg_tf.parallel_layers import ParallelMLP, initial_mlp


class GaussianPolicy(tf.keras.Model):
    """P policies N(mean(s), deviation^2) with a learned, state-independent deviation.

    Args:
      population: P.
      observation_size: O.
      action_size: A.
      config: Hidden layers, activation and start of the policy.
    """

    def __init__(self, population: int, observation_size: int, action_size: int, config: PolicyConfig):
        super().__init__(name="gaussian_policy")
        self.config = config
        self.sizes = (observation_size, *config.hidden, action_size)
        self.mean_network = ParallelMLP(population, self.sizes, config.activation, "mean")
        self.log_deviation = self.add_weight(name="log_deviation", shape=(population, action_size), initializer="zeros")

    def call(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns means [P, T, A] at normalised observations [P, T, O]."""
        return self.mean_network(observation)

    def distribution(self, observation: tf.Tensor) -> tfp.distributions.Distribution:
        """Returns action distributions of batch shape [P, T] at normalised observations [P, T, O]."""
        return diagonal_gaussian(self(observation), self.log_deviation)

    def load(self, members: Sequence[Sequence[np.ndarray]]) -> None:
        """Takes the weights of every member, each as from `initial_policy`."""
        for variable, values in zip(self.variables_in_order, zip(*members, strict=True), strict=True):
            variable.assign(np.stack(values))

    @property
    def variables_in_order(self) -> list[tf.Variable]:
        """Lists kernels and biases from input to output, then the log deviation."""
        return [weight for layer in self.mean_network.dense for weight in (layer.kernel, layer.bias)] + [
            self.log_deviation]


def initial_policy(generator: np.random.Generator, sizes: Sequence[int], config: PolicyConfig) -> list[np.ndarray]:
    """Draws one member's weights, in the order of `GaussianPolicy.variables_in_order`."""
    log_deviation = np.full(sizes[-1], config.log_deviation, np.float32)
    return initial_mlp(generator, sizes, config.output_scale) + [log_deviation]


class ActingPolicy:
    """A NumPy copy of P policies, for choosing one action per life and env step.

    A compiled TensorFlow call costs some 400 us, twenty times what this costs at P = 32; so acting works on a copy of
    the weights, taken after each update.

    Args:
      weights: As `GaussianPolicy.variables_in_order`, as arrays.
      activation: Keras name of the activation between layers.
    """

    _ACTIVATIONS = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}

    def __init__(self, weights: Sequence[np.ndarray], activation: str):
        self._kernels = weights[:-1:2]
        self._biases = [bias[:, None] for bias in weights[1:-1:2]]
        self._deviation = np.exp(weights[-1])
        self._activation = self._ACTIVATIONS.get(activation) or _keras_activation(activation)

    def act(self, observation: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Returns actions mean(s) + deviation * noise.

        Args:
          observation: [P, O] float32, normalised.
          noise: [P, A] float32, standard normal.

        Returns:
          [P, A] float32, unbounded.
        """
        hidden = observation[:, None]
        last = len(self._kernels) - 1
        for number, (kernel, bias) in enumerate(zip(self._kernels, self._biases, strict=True)):
            hidden = np.matmul(hidden, kernel)
            hidden += bias
            hidden = self._activation(hidden) if number < last else hidden
        return hidden[:, 0] + self._deviation * noise


def _keras_activation(name: str):
    function = tf.keras.activations.get(name)
    return lambda x: function(x).numpy()
