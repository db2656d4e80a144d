"""Policies of a population: Gaussian, or categorical where actions are discrete (EPG, section 3.3;
first version, 3.3).

Both are a network of one kind, whose output at a state (means or logits) they turn into a
distribution over actions. A discrete action is a one-hot row, or those of its independent parts
side by side; only the simulation takes it as a number, or one for each part.
"""

from __future__ import annotations

import abc

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from epg_tf.agents.acting import (
    ActingCategorical,
    ActingGaussian,
    ActingPolicy,
    ActingStateGaussian,
)
from epg_tf.agents.distributions import (
    diagonal_gaussian,
    gaussian_log_prob,
    one_hot_categoricals,
)
from epg_tf.agents.policy_network import policy_network
from epg_tf.agents.settings import PolicyConfig
from epg_tf.core.errors import ConfigError
from epg_tf.core.parallel_layers import initial_mlp
from epg_tf.core.parallel_models import ParallelLayer, ParallelModel, mlp_layers, mlp_shapes
from epg_tf.core.products import number_of_pairs
from epg_tf.core.types import Array, EnvironmentSpec


class Policy(ParallelModel, abc.ABC):
    """P policies, each a multilayer perceptron from observations to what its distributions need.

    Its layers are hidden_1, ..., output. Called with normalised observations [P, T, O] it returns
    the policy_output [P, T, A]; wherever that is named, it is [P, T, 2 A] of a
    `StateGaussianPolicy`.

    Args:
      population: P.
      spec: Sizes of observations and actions.
      config: Hidden layers, activation and start of the policy.

    Attributes:
      acting_kind: Class of the copies that act.
      sizes: Of the network, from input to output.
    """

    acting_kind: type[ActingPolicy]

    def __init__(self, population: int, spec: EnvironmentSpec, config: PolicyConfig):
        super().__init__(population, "policy")
        self.spec = spec
        self.config = config
        self.dense = mlp_layers(population, self.sizes)
        self.activation = tf.keras.activations.get(config.activation)
        self._add_shared_layers()
        self.build()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Returns the sizes of the network's layers, from input to output."""
        return network_sizes(self.spec, self.config)

    def _add_shared_layers(self) -> None:
        """Adds the weights that all states share; none unless a subclass has some."""

    def call(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the policy_output [P, T, A] at normalised observations [P, T, O]."""
        weights = [(layer.kernel, layer.bias) for layer in self.dense]
        return policy_network(observation, weights, self.activation)

    @property
    def shared_output(self) -> tf.Tensor:
        """What the distributions at all states share, [P, K]; nothing, K = 0, unless a subclass has
        it.
        """
        return tf.zeros([self.population, 0])

    @abc.abstractmethod
    def distribution_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor
    ) -> tfp.distributions.Distribution:
        """Returns action distributions of batch shape [P, T] from a policy_output [P, T, A] and
        what all states share [P, K].
        """

    def distribution(self, observation: tf.Tensor) -> tfp.distributions.Distribution:
        """Returns distributions of batch shape [P, T] at normalised observations [P, T, O]."""
        return self.distribution_from(self(observation), self.shared_output)

    @abc.abstractmethod
    def loss_input_from(self, policy_output: tf.Tensor) -> tf.Tensor:
        """Returns the policy channels of a learned loss from a policy_output, both [P, T, A], or
        [P, T, 2 A] with `policy.state_dependent_std`.
        """

    @abc.abstractmethod
    def log_prob_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor, action: tf.Tensor
    ) -> tf.Tensor:
        """Returns the log probability of each independent part of actions [P, T, A] as sampled,
        from a policy_output [P, T, A] and what all states share [P, K].
        """

    def loss_input(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the policy channels of a learned loss at normalised observations [P, T, O], as
        `loss_input_from`.
        """
        return self.loss_input_from(self(observation))

    def initial_weights(self, generator: np.random.Generator) -> list[Array]:
        """Draws one member's weights, in the order of `variables_in_order`."""
        return fresh_weights(generator, self.spec, self.config)

    @property
    def variables_in_order(self) -> list[tf.Variable]:
        """Lists kernels and biases from input to output, then what all states share."""
        return list(self.params.values())


class GaussianPolicy(Policy):
    """P policies N(mean(s), deviation^2) with a learned, state-independent deviation; losses see
    the means.

    Its layer after the network's is log_std.
    """

    acting_kind = ActingGaussian

    def _add_shared_layers(self) -> None:
        shapes = {"value": (self.spec.action_size,)}
        self.shared_layer = ParallelLayer(self.population, shapes, "log_std")

    @property
    def log_std(self) -> tf.Variable:
        """The log deviations, [P, A]."""
        return self.shared_layer.value

    @property
    def shared_output(self) -> tf.Tensor:
        """The log deviations, [P, A]."""
        return self.log_std

    def distribution_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor
    ) -> tfp.distributions.Distribution:
        """Returns Gaussians, batch shape [P, T], from means [P, T, A] and log deviations [P, A]."""
        return diagonal_gaussian(policy_output, shared_output)

    def loss_input_from(self, policy_output: tf.Tensor) -> tf.Tensor:
        """Returns the means themselves, [P, T, A]."""
        return policy_output

    def log_prob_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor, action: tf.Tensor
    ) -> tf.Tensor:
        """Returns the log density of each component, [P, T, A], differentiable in means and log
        deviations.
        """
        return gaussian_log_prob(policy_output, shared_output, action)


class StateGaussianPolicy(Policy):
    """P policies N(mean(s), deviation(s)^2), whose network returns means, then log deviations;
    losses see both (EPG, first version, section 3.3).
    """

    acting_kind = ActingStateGaussian

    def distribution_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor
    ) -> tfp.distributions.Distribution:
        """Returns Gaussians, batch shape [P, T], from means and log deviations [P, T, 2 A]."""
        del shared_output
        return diagonal_gaussian(*tf.split(policy_output, 2, axis=-1))

    def loss_input_from(self, policy_output: tf.Tensor) -> tf.Tensor:
        """Returns means and log deviations themselves, [P, T, 2 A]."""
        return policy_output

    def log_prob_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor, action: tf.Tensor
    ) -> tf.Tensor:
        """Returns the log density of each component, [P, T, A]."""
        del shared_output
        mean, log_std = tf.split(policy_output, 2, axis=-1)
        return gaussian_log_prob(mean, log_std, action)


class CategoricalPolicy(Policy):
    """P policies that choose one of A actions, or one in each part of an action, with probabilities
    softmax(logits(s)); losses see the probabilities.
    """

    acting_kind = ActingCategorical

    def distribution_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor
    ) -> tfp.distributions.Distribution:
        """Returns categorical distributions of batch shape [P, T] over one-hot actions from logits
        [P, T, A]; log probabilities, entropies and divergences add over the parts.
        """
        del shared_output
        parts = one_hot_categoricals(policy_output, self.spec.choices)
        return parts[0] if len(parts) == 1 else tfp.distributions.Blockwise(parts)

    def loss_input_from(self, policy_output: tf.Tensor) -> tf.Tensor:
        """Returns the probabilities [P, T, A] of logits (EPG, Figure 2)."""
        parts = tf.split(policy_output, self.spec.choices, axis=-1)
        return tf.concat([tf.nn.softmax(part) for part in parts], axis=-1)

    def log_prob_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor, action: tf.Tensor
    ) -> tf.Tensor:
        """Returns the log probability of the choice in each of K parts, [P, T, K], differentiable
        in the logits.
        """
        del shared_output
        choices = self.spec.choices
        parts = one_hot_categoricals(policy_output, choices)
        rows = tf.split(action, choices, axis=-1)
        pairs = zip(parts, rows, strict=True)
        return tf.stack([part.log_prob(row) for part, row in pairs], axis=-1)


def policy_class(spec: EnvironmentSpec, config: PolicyConfig) -> type[Policy]:
    """Returns the class of the policies of an environment.

    Raises:
      ConfigError: Deviations depend on the state, and actions are discrete.
    """
    if spec.discrete_actions:
        if config.state_dependent_std:
            raise ConfigError(
                "config.policy.state_dependent_std=True is for continuous actions, and those of "
                "the task's family are discrete; set it to False"
            )
        return CategoricalPolicy
    return StateGaussianPolicy if config.state_dependent_std else GaussianPolicy


def network_sizes(spec: EnvironmentSpec, config: PolicyConfig) -> tuple[int, ...]:
    """Returns the sizes of the layers of a policy's network, from input to output."""
    outputs = 1 if spec.discrete_actions or not config.state_dependent_std else 2
    size = spec.observation_size
    inputs = size + config.observation_pairs * number_of_pairs(size)
    return (inputs, *config.hidden, outputs * spec.action_size)


def policy_shapes(spec: EnvironmentSpec, config: PolicyConfig) -> dict[str, tuple[int, ...]]:
    """Returns `Policy.shapes` of an environment's policies; makes no variables."""
    shapes = mlp_shapes(network_sizes(spec, config))
    if spec.discrete_actions or config.state_dependent_std:
        return shapes
    return shapes | {"log_std/value": (spec.action_size,)}


def fresh_weights(
    generator: np.random.Generator, spec: EnvironmentSpec, config: PolicyConfig
) -> list[Array]:
    """Draws what `Policy.initial_weights` does; makes no variables."""
    weights = initial_mlp(generator, network_sizes(spec, config), config.output_scale)
    if spec.discrete_actions:
        return weights
    if config.state_dependent_std:
        weights[-1][spec.action_size :] = config.log_std
        return weights
    return [*weights, np.full(spec.action_size, config.log_std, np.float32)]
