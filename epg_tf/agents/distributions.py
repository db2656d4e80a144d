"""Builds the action distributions that agents act with and surrogates compare."""

from __future__ import annotations

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


def one_hot_categorical(logits: tf.Tensor) -> tfp.distributions.Distribution:
    """Returns categorical distributions of batch shape [P, T] over one-hot float32 actions, from
    logits [P, T, A].
    """
    return tfp.distributions.OneHotCategorical(logits=logits, dtype=tf.float32)
