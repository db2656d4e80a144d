"""Builds the action distributions that agents act with and surrogates compare."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow_probability as tfp


def diagonal_gaussian(mean: tf.Tensor, log_std: tf.Tensor) -> tfp.distributions.Distribution:
    """Returns Gaussians of batch shape [P, T] over actions, from means [P, T, A] and log deviations
    [P, A], or [P, T, A] where they depend on the state.
    """
    deviation = tf.broadcast_to(_of_states(tf.exp(log_std)), tf.shape(mean))
    return tfp.distributions.MultivariateNormalDiag(mean, deviation)


def gaussian_log_prob(mean: tf.Tensor, log_std: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns the log density of each component of actions, [P, T, A], from means [P, T, A] and log
    deviations [P, A], or [P, T, A] where they depend on the state.
    """
    return tfp.distributions.Normal(mean, _of_states(tf.exp(log_std))).log_prob(action)


def _of_states(deviation: tf.Tensor) -> tf.Tensor:
    """Returns deviations as [P, 1, A] where they are the same in all states, else as they are."""
    return deviation[:, None] if deviation.shape.rank == 2 else deviation


def one_hot_categoricals(
    logits: tf.Tensor, choices: Sequence[int]
) -> list[tfp.distributions.Distribution]:
    """Returns categorical distributions of batch shape [P, T] over the one-hot float32 rows of each
    of K independent parts, from logits [P, T, A] and how many choices each part has.
    """
    return [
        tfp.distributions.OneHotCategorical(logits=part, dtype=tf.float32)
        for part in tf.split(logits, choices, axis=-1)
    ]
