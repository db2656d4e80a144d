"""Says what every loss answers, learned or hand-made, and what it may see.

A loss is asked twice. `prepare` runs once per update, on the buffer as it stands, without gradient:
PPO computes its advantages there, the learned loss convolves what no gradient step will change.
`per_step` runs once per minibatch, inside the gradient tape, and scores the minibatch's steps.
EPG's network, PPO and REINFORCE share the contract, so guidance is a weighted sum of two losses and
the PPO baseline is Algorithm 2 with another loss.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Channel:
    """One declared input of a learned loss.

    Attributes:
      name: What it is, see `declared_channels`.
      width: Its size per step.
      kind: "history" (recorded in the buffer), "policy" (the policy's answer at a step, which
        carries gradient) or "constant" (the same at all steps, and carries gradient).
    """

    name: str
    width: int
    kind: str


def declared_channels(
    observation_size: int, action_size: int, discrete_actions: bool, memory_units: int, reward: bool
) -> tuple[Channel, ...]:
    """Lists a learned loss's inputs in order (EPG, Eq. 8 and 9).

    Args:
      observation_size: O.
      action_size: A.
      discrete_actions: Whether the policy answers with the probabilities of A choices, not with
        mean and deviation.
      memory_units: Units of the memory unit; 0 leaves it out.
      reward: Whether the loss sees rewards. What is not declared never reaches the loss.
    """
    history = [
        Channel("observation", observation_size, "history"),
        Channel("action", action_size, "history"),
    ]
    history += [Channel("reward", 1, "history")] if reward else []
    history += [Channel("termination", 1, "history")]
    policy = Channel(
        "policy_probability" if discrete_actions else "policy_mean", action_size, "policy"
    )
    constant = [] if discrete_actions else [Channel("policy_log_std", action_size, "constant")]
    constant += [Channel("memory", memory_units, "constant")] if memory_units else []
    return (*history, policy, *constant)


class Experience(NamedTuple):
    """The buffer of P lives at an update; observations, actions and `reward` normalised, padding
    all zeros.

    Attributes:
      observation: [P, N, O].
      action: [P, N, A], of one-hot rows where actions are discrete.
      reward: [P, N, 1], normalised.
      termination: [P, N, 1], 1.0 where the loss is to see an end.
      raw_action: [P, M, A], as sampled; the fields from here on cover the newest M steps alone.
      raw_reward: [P, M].
      terminated: [P, M], 1.0 where the episode ended for good.
      truncated: [P, M], 1.0 where a time limit cut it.
      next_observation: [P, M, O], normalised, of the same episode also where that ends.
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


class Loss(abc.ABC):
    """What teaches an agent. P lives at once; the answer for one never depends on another.

    `agent` is an `agents.agent.Agent`: the policy, memory and value network that the gradient
    moves.
    """

    @abc.abstractmethod
    def prepare(self, agent: Any, experience: Experience) -> Any:
        """Computes what holds for all minibatches of one update; receives no gradient."""

    @abc.abstractmethod
    def per_step(self, agent: Any, prepared: Any, steps: tf.Tensor) -> tf.Tensor:
        """Scores steps of a minibatch, differentiably in the agent's variables.

        Args:
          agent: Who is taught.
          prepared: What `prepare` returned.
          steps: [P, B] int, numbers of steps among the newest M; 0 is the oldest of them.

        Returns:
          [P] losses: the minibatch's per-step losses, reduced.
        """


class GuidedLoss(Loss):
    """(1 - alpha) * learned + alpha * surrogate (EPG, Eq. 10).

    Args:
      learned: L_phi.
      surrogate: L_pg.
    """

    def __init__(self, learned: Loss, surrogate: Loss):
        self.learned, self.surrogate = learned, surrogate
        self.alpha = tf.Variable(0.0, trainable=False, name="alpha")

    def prepare(self, agent: Any, experience: Experience) -> Any:
        """Prepares both losses."""
        return self.learned.prepare(agent, experience), self.surrogate.prepare(agent, experience)

    def per_step(self, agent: Any, prepared: Any, steps: tf.Tensor) -> tf.Tensor:
        """Blends both losses, [P]."""
        learned = self.learned.per_step(agent, prepared[0], steps)
        return (1.0 - self.alpha) * learned + self.alpha * self.surrogate.per_step(
            agent, prepared[1], steps
        )
