"""Policies of a population: Gaussian, or categorical where actions are discrete (EPG, section 3.3;
first version, 3.3).

Both are a network of one kind, whose answer at a state (means or logits) they turn into a
distribution over actions. A discrete action is a one-hot row; only the simulation knows it as a
number.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from epg_tf.agents.distributions import diagonal_gaussian, one_hot_categorical
from epg_tf.core.experiment import PolicyConfig
from epg_tf.core.parallel_layers import ParallelMLP, initial_mlp
from epg_tf.core.types import Array


class ActingPolicy(abc.ABC):
    """A NumPy copy of P policies, for choosing one action per life and env step.

    A compiled TensorFlow call costs some 400 us, twenty times what this costs at P = 32; so acting
    works on a copy of the weights, taken after each update.

    Args:
      weights: Kernels and biases from input to output, as arrays.
      activation: Keras name of the activation between layers.
    """

    _ACTIVATIONS = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}

    def __init__(self, weights: Sequence[Array], activation: str):
        self._kernels = weights[::2]
        self._biases = [bias[:, None] for bias in weights[1::2]]
        self._activation = self._ACTIVATIONS.get(activation) or _keras_activation(activation)

    def answer(self, observation: Array) -> Array:
        """Returns the networks' answers [P, A] at normalised observations [P, O], float32."""
        hidden = observation[:, None]
        last = len(self._kernels) - 1
        for number, (kernel, bias) in enumerate(zip(self._kernels, self._biases, strict=True)):
            hidden = np.matmul(hidden, kernel)
            hidden += bias
            hidden = self._activation(hidden) if number < last else hidden
        return hidden[:, 0]

    @staticmethod
    @abc.abstractmethod
    def draw_noise(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draws what makes actions random, float32, of `shape` [..., A]."""

    @abc.abstractmethod
    def act(self, observation: Array, noise: Array) -> Array:
        """Returns actions [P, A] float32 at normalised observations [P, O] with noise [P, A] from
        `draw_noise`.
        """


class ActingGaussian(ActingPolicy):
    """Acts as a `GaussianPolicy`; weights as its `variables_in_order`."""

    def __init__(self, weights: Sequence[Array], activation: str):
        super().__init__(weights[:-1], activation)
        self._deviation = np.exp(weights[-1])

    @staticmethod
    def draw_noise(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draws standard normal noise, float32."""
        return generator.standard_normal(shape, dtype=np.float32)

    def act(self, observation: Array, noise: Array) -> Array:
        """Returns mean(s) + deviation * noise, [P, A] float32, unbounded."""
        return self.answer(observation) + self._deviation * noise


class ActingCategorical(ActingPolicy):
    """Acts as a `CategoricalPolicy`; weights as its `variables_in_order`."""

    @staticmethod
    def draw_noise(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draws standard Gumbel noise, float32."""
        return generator.gumbel(size=shape).astype(np.float32)

    def act(self, observation: Array, noise: Array) -> Array:
        """Returns argmax(logits(s) + noise) as one-hot rows [P, A] float32: samples of
        softmax(logits(s)).
        """
        perturbed = self.answer(observation) + noise
        return np.eye(perturbed.shape[1], dtype=np.float32)[perturbed.argmax(axis=1)]


class Policy(tf.keras.Model, abc.ABC):
    """P policies, each a multilayer perceptron from observations to what its distributions need.

    Args:
      population: P.
      observation_size: O.
      action_size: A, components of an action or number of choices.
      config: Hidden layers, activation and start of the policy.

    Attributes:
      acting_kind: Class of the copies that act.
    """

    acting_kind: type[ActingPolicy]

    def __init__(
        self, population: int, observation_size: int, action_size: int, config: PolicyConfig
    ):
        super().__init__(name="policy")
        self.config = config
        self.sizes = (observation_size, *config.hidden, action_size)
        self.network = ParallelMLP(population, self.sizes, config.activation, "network")

    def call(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the network's answers [P, T, A] at normalised observations [P, T, O]."""
        return self.network(observation)

    @property
    @abc.abstractmethod
    def shared_output(self) -> tf.Tensor:
        """What the distributions at all states share, [P, K]; K may be 0."""

    @abc.abstractmethod
    def distribution_from(
        self, answer: tf.Tensor, shared_output: tf.Tensor
    ) -> tfp.distributions.Distribution:
        """Returns action distributions of batch shape [P, T] from answers [P, T, A] and what they
        share [P, K].
        """

    def distribution(self, observation: tf.Tensor) -> tfp.distributions.Distribution:
        """Returns action distributions of batch shape [P, T] at normalised observations [P, T, O]."""
        return self.distribution_from(self(observation), self.shared_output)

    @abc.abstractmethod
    def seen_from(self, answer: tf.Tensor) -> tf.Tensor:
        """Returns what a learned loss sees of answers [P, T, A], of the same shape."""

    def seen_by_losses(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns what a learned loss sees of the policy at normalised observations [P, T, O]: [P,
        T, A].
        """
        return self.seen_from(self(observation))

    def initial_weights(self, generator: np.random.Generator) -> list[Array]:
        """Draws one member's weights, in the order of `variables_in_order`."""
        return initial_mlp(generator, self.sizes, self.config.output_scale)

    def load(self, members: Sequence[Sequence[Array]]) -> None:
        """Takes the weights of every member, each as from `initial_weights`."""
        for variable, values in zip(
            self.variables_in_order, zip(*members, strict=True), strict=True
        ):
            variable.assign(np.stack(values))

    @property
    def variables_in_order(self) -> list[tf.Variable]:
        """Lists kernels and biases from input to output, then what all states share."""
        return [weight for layer in self.network.dense for weight in (layer.kernel, layer.bias)]


class GaussianPolicy(Policy):
    """P policies N(mean(s), deviation^2) with a learned, state-independent deviation; losses see
    the means.
    """

    acting_kind = ActingGaussian

    def __init__(
        self, population: int, observation_size: int, action_size: int, config: PolicyConfig
    ):
        super().__init__(population, observation_size, action_size, config)
        self.log_std = self.add_weight(
            name="log_std", shape=(population, action_size), initializer="zeros"
        )

    @property
    def shared_output(self) -> tf.Tensor:
        """The log deviations, [P, A]."""
        return self.log_std

    def distribution_from(
        self, answer: tf.Tensor, shared_output: tf.Tensor
    ) -> tfp.distributions.Distribution:
        """Returns Gaussians of batch shape [P, T] from means [P, T, A] and log deviations [P, A]."""
        return diagonal_gaussian(answer, shared_output)

    def seen_from(self, answer: tf.Tensor) -> tf.Tensor:
        """Returns the means themselves, [P, T, A]."""
        return answer

    def initial_weights(self, generator: np.random.Generator) -> list[Array]:
        """Draws one member's weights, in the order of `variables_in_order`."""
        return initial_policy(generator, self.sizes, self.config)

    @property
    def variables_in_order(self) -> list[tf.Variable]:
        """Lists kernels and biases from input to output, then the log deviation."""
        return [*super().variables_in_order, self.log_std]


class CategoricalPolicy(Policy):
    """P policies that choose one of A actions with probabilities softmax(logits(s)); losses see the
    probabilities.
    """

    acting_kind = ActingCategorical

    @property
    def shared_output(self) -> tf.Tensor:
        """Nothing, [P, 0]."""
        return tf.zeros([self.network.dense[0].kernel.shape[0], 0])

    def distribution_from(
        self, answer: tf.Tensor, shared_output: tf.Tensor
    ) -> tfp.distributions.Distribution:
        """Returns categorical distributions of batch shape [P, T] over one-hot actions from logits
        [P, T, A].
        """
        del shared_output
        return one_hot_categorical(answer)

    def seen_from(self, answer: tf.Tensor) -> tf.Tensor:
        """Returns the probabilities [P, T, A] of logits (EPG, Figure 2)."""
        return tf.nn.softmax(answer)


def initial_policy(
    generator: np.random.Generator, sizes: Sequence[int], config: PolicyConfig
) -> list[Array]:
    """Draws one member's weights, in the order of `GaussianPolicy.variables_in_order`."""
    log_std = np.full(sizes[-1], config.log_std, np.float32)
    return initial_mlp(generator, sizes, config.output_scale) + [log_std]


def _keras_activation(name: str):
    function = tf.keras.activations.get(name)
    return lambda x: function(x).numpy()
