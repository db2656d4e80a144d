"""NumPy copies of P policies, which choose one action per agent and env step.

A compiled TensorFlow call costs some 400 us, twenty times what such a copy costs at P = 32; so
agents act with a copy of the weights, taken after each update. For that speed the networks are
written twice; tests/agents/test_policies.py and tests/agents/test_deterministic.py compare the two.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.core.choices import largest, one_hot
from epg_tf.core.parallel_layers import NORM_EPSILON
from epg_tf.core.products import with_products
from epg_tf.core.types import Array

Activation = Callable[[Array], Array]


def _relu(values: Array) -> Array:
    positive: Array = np.maximum(values, 0)
    return positive


def _activation(name: str) -> Activation:
    """Returns a Keras activation as a function of arrays."""
    if name == "tanh":
        return np.tanh
    if name == "relu":
        return _relu
    function = tf.keras.activations.get(name)

    def activate(values: Array) -> Array:
        found: Array = function(values).numpy()
        return found

    return activate


class ActingPolicy(abc.ABC):
    """Copies of P policies with random actions.

    Args:
      weights: Kernels and biases from input to output, as arrays. The first kernel has O inputs, or
        O + O (O + 1) / 2 where policies also see the products of pairs of components.
      activation: Keras name of the activation between layers.
      parts: `EnvironmentSpec.action_parts`.
    """

    def __init__(self, weights: Sequence[Array], activation: str, parts: tuple[int, ...] = ()):
        self._parts = parts
        self._kernels = weights[::2]
        self._biases = [bias[:, None] for bias in weights[1::2]]
        self._activation = _activation(activation)

    def policy_output(self, observation: Array) -> Array:
        """Returns the networks' outputs [P, A] at normalised observations [P, O], float32."""
        pairs = self._kernels[0].shape[1] != observation.shape[1]
        hidden = (with_products(observation) if pairs else observation)[:, None]
        last = len(self._kernels) - 1
        for number, (kernel, bias) in enumerate(zip(self._kernels, self._biases, strict=True)):
            hidden = np.matmul(hidden, kernel)
            hidden += bias
            hidden = self._activation(hidden) if number < last else hidden
        return hidden[:, 0]

    @staticmethod
    def draw_noise(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draws what makes actions random, float32, of `shape` [..., A]: standard normal noise
        unless a subclass draws other.
        """
        return generator.standard_normal(shape, dtype=np.float32)

    @abc.abstractmethod
    def act(self, observation: Array, noise: Array) -> Array:
        """Returns actions [P, A] float32 at normalised observations [P, O] with noise [P, A] from
        `draw_noise`.
        """


class ActingGaussian(ActingPolicy):
    """Acts as a `GaussianPolicy`; weights as its `variables_in_order`."""

    def __init__(self, weights: Sequence[Array], activation: str, parts: tuple[int, ...] = ()):
        super().__init__(weights[:-1], activation, parts)
        self._deviation = np.exp(weights[-1])

    def act(self, observation: Array, noise: Array) -> Array:
        """Returns mean(s) + deviation * noise, [P, A] float32, unbounded."""
        action: Array = self.policy_output(observation) + self._deviation * noise
        return action


class ActingStateGaussian(ActingPolicy):
    """Acts as a `StateGaussianPolicy`; weights as its `variables_in_order`."""

    def act(self, observation: Array, noise: Array) -> Array:
        """Returns mean(s) + deviation(s) * noise, [P, A] float32, unbounded."""
        mean, log_std = np.split(self.policy_output(observation), 2, axis=1)
        action: Array = mean + np.exp(log_std) * noise
        return action


class ActingCategorical(ActingPolicy):
    """Acts as a `CategoricalPolicy`; weights as its `variables_in_order`."""

    @staticmethod
    def draw_noise(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draws standard Gumbel noise, float32."""
        return generator.gumbel(size=shape).astype(np.float32)

    def act(self, observation: Array, noise: Array) -> Array:
        """Returns argmax(logits(s) + noise) of each part as one-hot rows [P, A] float32: samples of
        softmax(logits(s)).
        """
        perturbed = self.policy_output(observation) + noise
        parts = self._parts or perturbed.shape[1:]
        return one_hot(largest(perturbed, parts), parts)


class ActingDeterministic:
    """Copies of P deterministic policies.

    Args:
      weights: As `agents.deterministic.Weights`, arrays.
    """

    def __init__(self, weights: Sequence[Array]):
        self._layers = [
            (kernel, bias[:, None], scale[:, None], shift[:, None])
            for kernel, bias, scale, shift in (
                weights[i : i + 4] for i in range(0, len(weights) - 2, 4)
            )
        ]
        self._kernel = weights[-2]
        self._bias = weights[-1][:, None]

    def act(self, observation: Array) -> Array:
        """Returns pi(s), [P, A], of observations [P, O] float32."""
        hidden = observation[:, None]
        for kernel, bias, scale, shift in self._layers:
            hidden = np.matmul(hidden, kernel) + bias
            hidden -= hidden.mean(axis=-1, keepdims=True)
            hidden /= np.sqrt(np.square(hidden).mean(axis=-1, keepdims=True) + NORM_EPSILON)
            hidden = np.maximum(hidden * scale + shift, 0.0)
        action: Array = np.tanh(np.matmul(hidden, self._kernel) + self._bias)
        return action[:, 0]
