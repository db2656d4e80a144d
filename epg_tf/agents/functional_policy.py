"""Policies as functions of weights that are given, for gradients through a change of weights."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow_probability as tfp

from epg_tf.agents.policies import Policy
from epg_tf.agents.policy_network import policy_network


class FunctionalPolicy:
    """P policies of given weights; what losses use of policies (`losses.contract.PolicyLike`).

    Args:
      policy: Says what the network and its distributions are; its own weights take no part.
      weights: Of P policies, [P, ...] each, in the order of `Policy.variables_in_order`.
    """

    def __init__(self, policy: Policy, weights: Sequence[tf.Tensor]):
        self._policy = policy
        count = 2 * len(policy.dense)
        self._network = list(zip(weights[:count:2], weights[1:count:2], strict=True))
        self._shared = weights[count:]

    @property
    def shared_output(self) -> tf.Tensor:
        """What the distributions at all states share, [P, K]; K may be 0."""
        return self._shared[0] if self._shared else self._policy.shared_output

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the policy_output [P, T, A] at normalised observations [P, T, O]."""
        return policy_network(observation, self._network, self._policy.activation)

    def distribution(self, observation: tf.Tensor) -> tfp.distributions.Distribution:
        """Returns action distributions of batch shape [P, T] at observations."""
        return self.distribution_from(self(observation), self.shared_output)

    def distribution_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor
    ) -> tfp.distributions.Distribution:
        """Returns the same from a policy_output [P, T, A] and what all states share [P, K]."""
        return self._policy.distribution_from(policy_output, shared_output)

    def log_prob_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor, action: tf.Tensor
    ) -> tf.Tensor:
        """As `Policy.log_prob_from`."""
        return self._policy.log_prob_from(policy_output, shared_output, action)

    def loss_input(self, observation: tf.Tensor) -> tf.Tensor:
        """As `Policy.loss_input`."""
        return self.loss_input_from(self(observation))

    def loss_input_from(self, policy_output: tf.Tensor) -> tf.Tensor:
        """As `Policy.loss_input_from`."""
        return self._policy.loss_input_from(policy_output)
