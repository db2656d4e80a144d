"""TD3 (Fujimoto et al. 2018) for P agents at once: targets of the twin critics, their error, Polyak
averaging.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from epg_tf.agents.deterministic import Weights, action_values
from epg_tf.core.gradients import own_axes, scaled_rows, squared_norms
from epg_tf.losses.objectives import Chunks

_TINY = 1e-30


def smoothed(action: tf.Tensor, noise: tf.Tensor, deviation: float, clip: float) -> tf.Tensor:
    """Adds clipped noise to target actions, within [-1, 1] (target policy smoothing).

    Args:
      action: [...], in [-1, 1].
      noise: Standard normal, of the same shape.
      deviation: Of the noise.
      clip: Its largest absolute value.
    """
    return tf.clip_by_value(action + tf.clip_by_value(deviation * noise, -clip, clip), -1.0, 1.0)


def targets(
    chunks: Chunks, next_action: tf.Tensor, target_critics: Weights, discount: float
) -> tf.Tensor:
    """Computes r + gamma min(Q1', Q2')(s', a'), or r where the episode terminated (clipped
    double-Q), [P, B, T].

    A time limit is not such an end: the state after it keeps the critics' value.
    """
    next_value = tf.reduce_min(
        action_values(chunks.next_observation, next_action, target_critics), axis=1
    )
    return chunks.reward + discount * (1.0 - chunks.terminated) * next_value


def critic_error(chunks: Chunks, critics: Weights, target: tf.Tensor) -> tf.Tensor:
    """Returns each agent's squared TD error, both critics' added, averaged over its steps, [P]."""
    values = action_values(chunks.observation, chunks.action, critics)
    errors = tf.square(values - target[:, None]) * chunks.mask[:, None]
    return tf.reduce_sum(errors, axis=[1, 2, 3]) / tf.reduce_sum(chunks.mask, axis=[1, 2])


def q_objective(chunks: Chunks, action: tf.Tensor, critic: Weights) -> tf.Tensor:
    """Returns DDPG's objective -Q1(s, a) of each step, [P, B, T], 0 in the padding; differentiable
    in the actions alone.
    """
    return -action_values(chunks.observation, action, critic) * chunks.mask


def averaged(old: tf.Tensor, new: tf.Tensor, rate: float) -> tf.Tensor:
    """Moves target weights by `rate` of the way towards the new ones (Polyak averaging)."""
    return old + rate * (new - old)


def clipped(gradients: Sequence[tf.Tensor], limit: float) -> list[tf.Tensor]:
    """Scales each agent's gradient down to a global norm of at most `limit`; one that is not finite
    becomes 0.

    Args:
      gradients: Parts, [P, ...]; those of twin critics, [P, 2, ...], are one gradient.
      limit: Largest norm, > 0.
    """
    norm = tf.sqrt(squared_norms(gradients))
    factor = tf.where(tf.math.is_finite(norm), limit / tf.maximum(norm, limit), 0.0)
    return scaled_rows(gradients, factor)


def unit(gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Scales each agent's gradient to a global norm of 1, differentiably.

    One that is not finite, or not longer than 1e-15, becomes 0 and has no derivative.
    """
    squares = squared_norms(gradients)
    norm = tf.sqrt(tf.maximum(squares, _TINY))  # the root of 0 has no derivative
    usable = (squares > _TINY) & tf.math.is_finite(norm)
    return scaled_rows(gradients, tf.where(usable, 1.0 / norm, 0.0))


def cosine(first: Sequence[tf.Tensor], second: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the cosine of the angle between two gradients of each agent, [P]; 0 where one of them
    is 0.
    """
    dot, one, other = (
        sum(tf.reduce_sum(a * b, axis=own_axes(a)) for a, b in pairs)
        for pairs in (
            zip(first, second, strict=True),
            zip(first, first, strict=True),
            zip(second, second, strict=True),
        )
    )
    return tf.math.divide_no_nan(dot, tf.sqrt(one) * tf.sqrt(other))
