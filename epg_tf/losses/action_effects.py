"""Measures from a life's own history what each component of an action does to the observation."""

from __future__ import annotations

import tensorflow as tf

_RIDGE = 1e-2  # beside 1, the variance of each standardised regressor
_DEVIATION_FLOOR = 1e-2


def action_effects(
    observation: tf.Tensor, action: tf.Tensor, ended: tf.Tensor, lived: tf.Tensor
) -> tf.Tensor:
    """Regresses the change of each observation to the next step on action and observation (ridge
    regression over the steps of the buffer that the episode outlasts).

    Observations are regressors so that what a policy does in answer to them is not taken for what
    its actions do.

    Args:
      observation: [P, N, O], normalised.
      action: [P, N, A], normalised.
      ended: [P, N, 1], 1.0 at the last step of an episode.
      lived: [1, N, 1], 0.0 in the padding.

    Returns:
      [P, A O] coefficients of the actions where all quantities have deviation 1, those of the first
      component first; near [-1, 1], 0 where there is nothing to see.
    """
    counts = ((1.0 - ended) * lived)[:, :-1]
    steps = tf.maximum(tf.reduce_sum(counts, axis=1, keepdims=True), 1.0)

    def standardised(values: tf.Tensor) -> tf.Tensor:
        about = (values - tf.reduce_sum(values * counts, axis=1, keepdims=True) / steps) * counts
        variance = tf.reduce_sum(tf.square(about), axis=1, keepdims=True) / steps
        return about / tf.maximum(tf.sqrt(variance), _DEVIATION_FLOOR)

    change = standardised(observation[:, 1:] - observation[:, :-1])
    regressors = standardised(tf.concat([action, observation], axis=2)[:, :-1])
    gram = tf.matmul(regressors, regressors, transpose_a=True) / steps
    gram += (_RIDGE + 1.0 / steps) * tf.eye(gram.shape[-1])
    with_change = tf.matmul(regressors, change, transpose_a=True) / steps
    effects = tf.linalg.cholesky_solve(tf.linalg.cholesky(gram), with_change)
    actions = action.shape[2]
    return tf.reshape(effects[:, :actions], [-1, actions * observation.shape[2]])
