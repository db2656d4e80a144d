"""Says what every objective answers, learned or hand-made, that teaches deterministic policies from
replayed chunks.

An objective scores each step of chunks of trajectories, differentiably in the action that the
current policy would take there, and in nothing else: values are data. Lower is better, for policies
follow its negative gradient.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from epg_tf.losses.surrogates import advantages

_TINY = 1e-8


class Chunks(NamedTuple):
    """B chunks of at most T consecutive steps of P agents; what follows the end of an episode is
    padding.

    Attributes:
      observation: [P, B, T, O].
      action: [P, B, T, A] in [-1, 1], as taken.
      reward: [P, B, T].
      terminated: [P, B, T], 1.0 where the episode ended for good; a time limit is not such an end.
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
      reward: As met.
      value: V(s_t), without gradient.
      next_value: V(s_{t+1}), without gradient; 0 where the episode has ended for good.
      mask: 1.0 where there is a step.
    """

    action: tf.Tensor
    reward: tf.Tensor
    value: tf.Tensor
    next_value: tf.Tensor
    mask: tf.Tensor


class Recipe(abc.ABC):
    """Makes an objective from its weights; compares equal to others that do the same.

    Attributes:
      names: Of the weights' parts, in the order of the flat vector.
    """

    names: tuple[str, ...]

    @abc.abstractmethod
    def objective(self, parts: Mapping[str, tf.Tensor]) -> Objective:
        """Returns the objective with weights name -> [P, ...], of one copy per agent."""


class Objective(abc.ABC):
    """What teaches P policies. The answer for one never depends on another.

    Attributes:
      recipe: Makes the same objective from other weights.
      parts: Its weights, name -> [P, ...]; none where it has nothing to learn.
    """

    recipe: Recipe
    parts: Mapping[str, tf.Tensor]

    @abc.abstractmethod
    def per_step(self, trajectories: Trajectories, predicted: tf.Tensor) -> tf.Tensor:
        """Scores every step.

        Args:
          trajectories: What has been met.
          predicted: [P, B, T, A], the current policy's actions, through which gradients flow.

        Returns:
          [P, B, T]; 0 in the padding.
        """


@dataclasses.dataclass(frozen=True)
class OffPolicyReinforce(Objective, Recipe):
    """REINFORCE with generalised advantages on replayed steps (MetaGenRL, Appendix B.3), biased as
    the paper says.

        L_t = advantage_t * |a_t - pi(s_t)|^2 / 2

    which is -log N(a_t; pi(s_t), 1) times the advantage, up to a constant. Advantages are
    standardised over an agent's batch, lest the step depend on the scale of rewards.

    Attributes:
      discount: gamma.
      gae_lambda: lambda.
    """

    discount: float
    gae_lambda: float

    @property
    def recipe(self) -> Recipe:
        """Itself, for it has no weights."""
        return self

    @property
    def parts(self) -> Mapping[str, tf.Tensor]:
        """Nothing."""
        return {}

    @property
    def names(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def objective(self, parts: Mapping[str, tf.Tensor]) -> Objective:
        """Returns itself."""
        del parts
        return self

    def per_step(self, trajectories: Trajectories, predicted: tf.Tensor) -> tf.Tensor:
        """Scores every step, [P, B, T]."""
        advantage = self.advantage(trajectories)
        distance = tf.reduce_sum(tf.square(trajectories.action - predicted), axis=-1)
        return 0.5 * advantage * distance * trajectories.mask

    def advantage(self, trajectories: Trajectories) -> tf.Tensor:
        """Computes standardised advantages, [P, B, T]; what they are in the padding means nothing."""
        mask = trajectories.mask
        shape = tf.shape(mask)
        flat = [tf.reshape(part, [-1, shape[2]]) for part in trajectories[1:]]
        reward, value, next_value, valid = flat
        # Every chunk's last step is a cut: what follows it is worth next_value, 0 where the episode
        # has ended.
        last = valid * (1.0 - tf.pad(valid[:, 1:], [[0, 0], [0, 1]]))
        raw = advantages(
            reward, value, next_value, tf.zeros_like(reward), last, self.discount, self.gae_lambda
        )
        return standardised(tf.reshape(raw, shape), mask)


def standardised(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Shifts and scales each agent's [P, B, T] to mean 0 and deviation 1 over its steps; the
    padding becomes 0.

    What does not vary becomes 0: counted from an agent's first step it is so exactly, whatever the
    rounding of means.
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


def flattened(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Lines up parts [P, ...] as [P, D]."""
    return tf.concat([tf.reshape(part, [tf.shape(part)[0], -1]) for part in parts], axis=1)
