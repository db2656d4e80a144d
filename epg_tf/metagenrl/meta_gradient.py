"""Computes how an objective's params should change: second-order gradients through the critic
(MetaGenRL, Equation 6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from epg_tf.agents.deterministic import Weights, action_values, policy_action
from epg_tf.core.parameters import flattened, unflattened
from epg_tf.losses.objectives import Chunks, Trajectories, total
from epg_tf.metagenrl import td3

Score = Callable[[Trajectories, tf.Tensor], tf.Tensor]
"""An objective with its params: (trajectories, predicted actions) -> [P, B, T]."""


def trajectories_of(chunks: Chunks, policy: Weights, critic: Weights) -> Trajectories:
    """Returns what an objective sees of chunks: V(s) = Q1(s, pi(s)), without gradient."""
    value, next_value = (
        tf.stop_gradient(action_values(states, policy_action(states, policy), critic))
        for states in (chunks.observation, chunks.next_observation)
    )
    return Trajectories(
        chunks.action, chunks.reward, value, next_value * (1.0 - chunks.terminated), chunks.mask
    )


def policy_gradient(
    score: Score, policy: Weights, observation: tf.Tensor, trajectories: Trajectories
) -> list[tf.Tensor]:
    """Differentiates the objective's value with respect to every agent's policy.

    Args:
      score: L_alpha.
      policy: theta.
      observation: [P, B, T, O], at which the policy acts.
      trajectories: What the objective sees besides.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(policy)
        value = total(score(trajectories, policy_action(observation, policy)))
    gradient: list[tf.Tensor] = tape.gradient(value, policy)
    return gradient


def virtual_policies(
    score: Score,
    policy: Weights,
    observations: Sequence[tf.Tensor],
    trajectories: Sequence[Trajectories],
    learning_rate: float,
    unit: bool = False,
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Takes one step of plain gradient descent on the objective per batch (Appendix B.2).

        theta_{i+1} = theta_i - rate * grad L_alpha(tau_i, V, pi_{theta_i})

    Args:
      score: L_alpha.
      policy: theta_0; the values in `trajectories` are its own, at every step.
      observations: Of tau_0, tau_1, ..., batches without steps in common (`Replay.draw` says when).
      trajectories: The same batches as the objective sees them.
      learning_rate: Of the steps.
      unit: Scale each gradient to norm 1 before its step, so that only directions count.

    Returns:
      (the policies after the last step, differentiable in the objective's params; the gradient of
      the first step).
    """
    weights, shapes = list(policy), [tuple(part.shape[1:]) for part in policy]
    flat = flattened(weights)  # few operations on long vectors instead of many on short ones
    first: list[tf.Tensor] = []
    for observation, recorded in zip(observations, trajectories, strict=True):
        gradient = policy_gradient(score, weights, observation, recorded)
        slope = flattened(gradient)
        flat -= learning_rate * (td3.unit([slope])[0] if unit else slope)
        weights = unflattened(flat, shapes)
        first = first or gradient
    return weights, first


def meta_loss(chunks: Chunks, policy: Weights, critic: Weights) -> tf.Tensor:
    """Returns -Q1(s, pi(s)) averaged over each agent's steps, [P]: what an objective's params are
    to lower.
    """
    values = (
        action_values(chunks.observation, policy_action(chunks.observation, policy), critic)
        * chunks.mask
    )
    return -tf.reduce_sum(values, axis=[1, 2]) / tf.reduce_sum(chunks.mask, axis=[1, 2])
