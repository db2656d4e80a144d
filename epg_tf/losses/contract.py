"""Says what every loss computes, learned or hand-made, and what it may use of an agent.

A loss is called twice. `prepare` runs once per update, on the buffer as it stands, without
gradient: PPO computes its advantages there, the learned loss convolves what no gradient step will
change. `minibatch_loss` runs once per minibatch, inside the gradient tape, and scores the
minibatch's steps. EPG's network, PPO and REINFORCE share the contract, so guidance is a weighted
sum of two losses and the PPO baseline is Algorithm 2 with another loss.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import tensorflow as tf
import tensorflow_probability as tfp

Prepared = TypeVar("Prepared")


class Experience(NamedTuple):
    """The buffer of P lives at an update; observations, actions and `reward` normalised, padding
    all zeros.

    Attributes:
      observation: [P, N, O].
      action: [P, N, A], of one-hot rows side by side where actions are discrete.
      reward: [P, N, 1], normalised.
      termination: [P, N, 1], 1.0 where the loss is to see an end.
      raw_action: [P, M, A], as sampled; the fields from here on cover the newest M steps alone.
      raw_reward: [P, M].
      terminated: [P, M], 1.0 where the environment ended the episode.
      truncated: [P, M], 1.0 where a time limit cut it.
      next_observation: [P, M, O], normalised, of the same episode also where that ends.
      extra: Name -> [P, N, width] of the further channels that the learned loss declares, [P,
        width] of effects of actions; None where there are none.
    """

    observation: tf.Tensor
    action: tf.Tensor
    reward: tf.Tensor
    termination: tf.Tensor
    raw_action: tf.Tensor
    raw_reward: tf.Tensor
    terminated: tf.Tensor
    truncated: tf.Tensor
    next_observation: tf.Tensor
    extra: Mapping[str, tf.Tensor] | None = None

    def channel(self, name: str) -> tf.Tensor:
        """Returns a history channel of a learned loss, [P, N, width].

        Args:
          name: One of the four fields that are channels, "observation", "action", "reward" and
            "termination", or one in `extra`.
        """
        channels = {
            "observation": self.observation,
            "action": self.action,
            "reward": self.reward,
            "termination": self.termination,
            **(self.extra or {}),
        }
        return channels[name]


class PolicyLike(Protocol):
    """What losses use of P policies; `agents.policies.Policy` has it."""

    @property
    def shared_output(self) -> tf.Tensor:
        """What the distributions at all states share, [P, K]; K may be 0."""

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the policy_output at normalised observations [P, T, O]: means or logits,
        [P, T, A]; with `policy.state_dependent_std` means and log deviations, [P, T, 2 A].
        """

    def loss_input(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the policy channels of a learned loss at observations: [P, T, A], or [P, T, 2 A]
        with `policy.state_dependent_std`.
        """

    def loss_input_from(self, policy_output: tf.Tensor) -> tf.Tensor:
        """Returns the same from a policy_output of the same shape."""

    def log_prob_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor, action: tf.Tensor
    ) -> tf.Tensor:
        """Returns the log probability of each part of actions [P, T, A] as sampled: [P, T, A], or
        [P, T, K] of choices in K parts.
        """

    def distribution(self, observation: tf.Tensor) -> tfp.distributions.Distribution:
        """Returns action distributions of batch shape [P, T] at observations."""

    def distribution_from(
        self, policy_output: tf.Tensor, shared_output: tf.Tensor
    ) -> tfp.distributions.Distribution:
        """Returns the same from a policy_output [P, T, A] and what all states share [P, K]."""


class ValueLike(Protocol):
    """P estimates of the discounted return."""

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns V(s), [P, T], at normalised observations [P, T, O]."""


class AgentLike(Protocol):
    """What losses use of P agents; `agents.agent.Agent` has it."""

    @property
    def policy(self) -> PolicyLike:
        """The policies."""

    @property
    def value(self) -> ValueLike:
        """The value networks."""

    def memory_output(self) -> tf.Tensor | None:
        """Returns the memory's content [P, units], or None without a memory unit."""


class Loss(abc.ABC, Generic[Prepared]):
    """What P agents minimise; one agent's loss never depends on another agent."""

    @abc.abstractmethod
    def prepare(self, agent: AgentLike, experience: Experience) -> Prepared:
        """Computes what holds for all minibatches of one update; receives no gradient."""

    @abc.abstractmethod
    def minibatch_loss(self, agent: AgentLike, prepared: Prepared, steps: tf.Tensor) -> tf.Tensor:
        """Scores steps of a minibatch, differentiably in the agent's variables.

        Args:
          agent: Whose variables the gradient moves.
          prepared: What `prepare` returned.
          steps: [P, B] int, numbers of steps among the newest M; 0 is the oldest of them.

        Returns:
          [P] losses: the minibatch's per-step losses, reduced.
        """


class GuidedLoss(Loss[tuple[Any, Any]]):
    """(1 - alpha) * learned + alpha * surrogate (EPG, Eq. 10).

    Args:
      learned: L_phi.
      surrogate: L_pg.

    Attributes:
      alpha: Variable, in [0, 1].
    """

    def __init__(self, learned: Loss[Any], surrogate: Loss[Any]):
        self.learned = learned
        self.surrogate = surrogate
        self.alpha = tf.Variable(0.0, trainable=False, name="alpha")

    def prepare(self, agent: AgentLike, experience: Experience) -> tuple[Any, Any]:
        """Prepares both losses."""
        return self.learned.prepare(agent, experience), self.surrogate.prepare(agent, experience)

    def minibatch_loss(
        self, agent: AgentLike, prepared: tuple[Any, Any], steps: tf.Tensor
    ) -> tf.Tensor:
        """Blends both losses, [P]."""
        learned = self.learned.minibatch_loss(agent, prepared[0], steps)
        return (1.0 - self.alpha) * learned + self.alpha * self.surrogate.minibatch_loss(
            agent, prepared[1], steps
        )
