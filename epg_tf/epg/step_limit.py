"""Holds back updates that change policies too much."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow_probability as tfp

from epg_tf.agents.policies import Policy

_POWERS = (0.5, 1.0)  # of limit / divergence, one after the other


def clip_kl_step(
    policy: Policy,
    start: Sequence[tf.Tensor],
    before: tfp.distributions.Distribution,
    observation: tf.Tensor,
    limit: float,
) -> None:
    """Shortens the step from `start` to the policies' weights where it causes more than `limit` of
    KL divergence.

    For short steps the divergence is quadratic in their length, so sqrt(limit / divergence) of the
    step causes about `limit`. Where it still causes more, as when a deviation grows, it is
    shortened once more, by limit / divergence, which is enough where the divergence is convex along
    the step. Steps within the limit keep their bits. Policies that are no longer finite get their
    weights at the start back.

    Args:
      policy: P policies, after the update.
      start: Their weights before it, in the order of `Policy.variables_in_order`.
      before: Their distributions before it, of batch shape [P, T].
      observation: [P, T, O], normalised, where to compare.
      limit: Nats, mean over the T steps; > 0.
    """
    for power in _POWERS:
        divergence = tf.reduce_mean(before.kl_divergence(policy.distribution(observation)), axis=1)
        within = divergence <= limit  # False for NaN
        finite = tf.math.is_finite(divergence)
        share = tf.where(finite, tf.pow(limit / divergence, power), 0.0)
        for variable, old in zip(policy.variables_in_order, start, strict=True):
            axes = [-1] + [1] * (len(variable.shape) - 1)
            part = tf.reshape(share, axes)
            shortened = tf.where(part > 0.0, old + part * (variable - old), old)
            variable.assign(tf.where(tf.reshape(within, axes), variable, shortened))
