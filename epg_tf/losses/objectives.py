"""Says what every objective computes, learned or hand-made, that deterministic policies minimise on
replayed chunks.

An objective scores each step of chunks of trajectories, differentiably in the action that the
current policy would take there, and in nothing else: values are data. Lower is better, for policies
follow its negative gradient.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import NamedTuple, Protocol

import tensorflow as tf

from epg_tf.core.parameters import Params, Shapes
from epg_tf.losses.surrogates import Steps, advantages

_TINY = 1e-8


class Chunks(NamedTuple):
    """B chunks of at most T consecutive steps of P agents; what follows the end of an episode is
    padding.

    Attributes:
      observation: [P, B, T, O].
      action: [P, B, T, A] in [-1, 1], as taken.
      reward: [P, B, T].
      terminated: [P, B, T], 1.0 where the environment, not a time limit, ended the episode.
      next_observation: [P, B, T, O].
      mask: [P, B, T], 1.0 where there is a step, 0.0 in the padding; its first entry is 1.0.
    """

    observation: tf.Tensor
    action: tf.Tensor
    reward: tf.Tensor
    terminated: tf.Tensor
    next_observation: tf.Tensor
    mask: tf.Tensor


class Trajectories(NamedTuple):
    """What an objective may see of chunks, all [P, B, T] but the action; see `Chunks`.

    Attributes:
      action: [P, B, T, A].
      reward: As received.
      value: V(s_t), without gradient.
      next_value: V(s_{t+1}), without gradient; 0 where the episode has terminated.
      mask: 1.0 where there is a step.
    """

    action: tf.Tensor
    reward: tf.Tensor
    value: tf.Tensor
    next_value: tf.Tensor
    mask: tf.Tensor


class Objective(abc.ABC):
    """What P policies minimise, as a pure function of (params, trajectories, predicted actions).

    Immutable and hashable: equal objectives share one compiled update. The objective of one agent
    never depends on another agent.
    """

    @property
    @abc.abstractmethod
    def shapes(self) -> Shapes:
        """Name -> shape of the parameters of one copy, in the order of the flat vector."""

    @abc.abstractmethod
    def per_step(
        self, params: Params, trajectories: Trajectories, predicted: tf.Tensor
    ) -> tf.Tensor:
        """Scores every step.

        Args:
          params: Name -> [P, ...], one copy per agent; tensors inside a tape will do.
          trajectories: What the agents have recorded.
          predicted: [P, B, T, A], the current policy's actions, through which gradients flow.

        Returns:
          [P, B, T]; 0 in the padding.
        """


class ObjectiveModel(Protocol):
    """An objective with one copy of its parameters per agent."""

    @property
    def function(self) -> Objective:
        """The objective as a pure function."""

    @property
    def params(self) -> Params:
        """Name -> [P, ...], in the order of the flat vector."""


@dataclasses.dataclass(frozen=True)
class OffPolicyReinforce(Objective):
    """REINFORCE with generalised advantages on replayed steps (MetaGenRL, Appendix B.3), biased as
    the paper says.

        L_t = advantage_t * |a_t - pi(s_t)|^2 / 2

    which is -log N(a_t; pi(s_t), 1) times the advantage, up to a constant. Advantages are
    standardised over an agent's batch, so that the step does not depend on the scale of rewards.
    Without parameters, it is its own `ObjectiveModel`.

    Attributes:
      discount: gamma.
      gae_lambda: lambda.
    """

    discount: float
    gae_lambda: float

    @property
    def function(self) -> Objective:
        """Itself."""
        return self

    @property
    def params(self) -> Params:
        """Nothing."""
        return {}

    @property
    def shapes(self) -> Shapes:
        """Nothing."""
        return {}

    def per_step(
        self, params: Params, trajectories: Trajectories, predicted: tf.Tensor
    ) -> tf.Tensor:
        """Scores every step, [P, B, T]."""
        del params
        advantage = self.advantage(trajectories)
        distance = tf.reduce_sum(tf.square(trajectories.action - predicted), axis=-1)
        return 0.5 * advantage * distance * trajectories.mask

    def advantage(self, trajectories: Trajectories) -> tf.Tensor:
        """Computes standardised advantages, [P, B, T]; those in the padding mean nothing."""
        mask = trajectories.mask
        shape = tf.shape(mask)
        flat = [tf.reshape(part, [-1, shape[2]]) for part in trajectories[1:]]
        reward, value, next_value, valid = flat
        # Every chunk's last step is a cut: what follows it is worth next_value, 0 where the episode
        # has ended.
        last = valid * (1.0 - tf.pad(valid[:, 1:], [[0, 0], [0, 1]]))
        steps = Steps(reward, value, next_value, tf.zeros_like(reward), last)
        raw = advantages(steps, self.discount, self.gae_lambda)
        return standardised(tf.reshape(raw, shape), mask)


def standardised(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Shifts and scales each agent's [P, B, T] to mean 0 and deviation 1 over its steps; the
    padding becomes 0.

    What does not vary becomes exactly 0, since values are first counted from the agent's first
    step.
    """
    values = values - values[:, :1, :1]
    steps = tf.reduce_sum(mask, axis=[1, 2], keepdims=True)
    centred = values - tf.reduce_sum(values * mask, axis=[1, 2], keepdims=True) / steps
    variance = tf.reduce_sum(tf.square(centred) * mask, axis=[1, 2], keepdims=True) / steps
    return centred / (tf.sqrt(variance) + _TINY) * mask


def total(per_step: tf.Tensor) -> tf.Tensor:
    """Sums over the steps of a chunk, averages over chunks: [P, B, T] -> [P] (MetaGenRL, section
    3.2).
    """
    return tf.reduce_mean(tf.reduce_sum(per_step, axis=2), axis=1)
