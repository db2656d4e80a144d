"""Compares learned losses that begin as a policy gradient with it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf


def assert_is_reinforce(score: Callable[[], tf.Tensor], agent, experience, name, steps):
    """Value and gradients of all policy weights are those of -mean(A log pi(a | s)), where A is the
    channel `name`.

    Args:
      score: Returns the loss of each life, [P], at `steps`.
      agent: P agents.
      experience: Of which the steps are.
      name: Of a history channel of width 1.
      steps: [P, B], among the newest M.

    Returns:
      The losses [P], and the tape that saw them.
    """
    newest = slice(-experience.raw_action.shape[1], None)
    observation, advantage = (
        tf.gather(part[:, newest], steps, batch_dims=1)
        for part in (experience.observation, experience.channel(name)[:, :, 0])
    )
    action = tf.gather(experience.raw_action, steps, batch_dims=1)
    variables = agent.policy.variables_in_order
    with tf.GradientTape(persistent=True) as tape:
        losses = score()
        log_prob = agent.policy.distribution(observation).log_prob(action)
        surrogate = -tf.reduce_mean(advantage * log_prob, axis=1)
    np.testing.assert_allclose(losses, surrogate, rtol=1e-5, atol=1e-5)
    expected = tape.gradient(surrogate, variables)
    for found, gradient in zip(tape.gradient(losses, variables), expected, strict=True):
        scale = np.abs(gradient).max()
        assert scale > 1e-2
        np.testing.assert_allclose(found, gradient, rtol=1e-5, atol=1e-5 * scale)
    return losses, tape
