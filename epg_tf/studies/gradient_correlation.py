"""Measures how the policy gradient of a learned loss goes with PPO's (EPG, section 4.1: about 0.5,
"Spearman's rank correlation coefficient"; first version, section 4.3).

The papers do not say of which gradients. Here, just before each update of a life under the learned
loss alone, two gradients are taken by the same policy parameters theta, those of the policy network
and its log deviations, flattened; the memory and the value network are left out, since one of the
losses does not depend on them. Both are of the same batch, all M newest steps at once:

    g_learned = d/dtheta of the mean over them of L_phi
    g_ppo     = d/dtheta of the mean over them of PPO's loss = -mean of A d/dtheta log pi(a | s)

At the policy that acted PPO's ratio is 1, so it is not clipped and its KL penalty has no slope. A
are generalised advantages of the raw rewards, standardised over the batch. The value network they
need learns along: after the gradients are taken, from the same batch, with the learning rate and
the epochs of PPO at EPG's M (`surrogate.baseline_learning_rate`, `surrogate.baseline_epochs`). It
changes nothing in the life. A positive correlation means that both losses fall the same way.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from scipy import stats

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.baselines.method import Request
from epg_tf.core.types import Array
from epg_tf.epg.agent_optimizer import AgentOptimizer
from epg_tf.epg.learner import Learner, RawExperience
from epg_tf.evaluation.statistics import confidence_interval
from epg_tf.losses.contract import Experience, Loss
from epg_tf.losses.surrogates import standardised
from epg_tf.studies.analysed_lives import observe_lives

MEASURES = ("spearman", "cosine", "ppo_halves")


@dataclasses.dataclass(frozen=True, eq=False)
class GradientCorrelation:
    """How two gradients of the policies go together, of L lives before each of T updates.

    Attributes:
      spearman: [L, T] Spearman's rank correlation of the K components; NaN where a gradient is not
        finite or all its components are equal.
      cosine: [L, T] cosine of the angle between the gradients; NaN where one is not finite or zero.
      ppo_halves: [L, T] Spearman's rank correlation of PPO's gradients over the older and the newer
        half of the batch: how far PPO agrees with itself on so few steps.
      parameters: K, of one policy.
    """

    spearman: Array
    cosine: Array
    ppo_halves: Array
    parameters: int


def measure_gradient_correlation(learned: LearnedLoss, request: Request) -> GradientCorrelation:
    """Trains L agents by the loss alone and compares its gradient with PPO's before each update.

    Args:
      learned: The loss; its experiment holds the settings of PPO.
      request: From `analysed_lives.analysis_request`.
    """
    found: list[tuple[Array, ...]] = []  # of each update, each [L]
    comparison: list[_Comparison] = []
    parameters = 0

    def look(learner: Learner, raw: RawExperience, order: tf.Tensor) -> None:
        nonlocal parameters
        if not comparison:
            comparison.append(_Comparison(learner))
        one, ppo, *halves = (gradient.numpy() for gradient in comparison[0].step(raw, order))
        found.append((rank_correlation(one, ppo), cosines(one, ppo), rank_correlation(*halves)))
        parameters = one.shape[1]

    observe_lives(learned, request, look)
    spearman, cosine, halves = (np.stack(column, axis=1) for column in zip(*found, strict=True))
    return GradientCorrelation(spearman, cosine, halves, parameters)


class Gradients(NamedTuple):
    """Gradients [P, K] by the K weights of each of P policies, in the order of
    `Policy.variables_in_order`.

    Attributes:
      learned: Of the learned loss, mean over the newest M steps.
      ppo: Of the surrogate, the same.
      older: Of the surrogate, over the older half of these steps alone, whose advantages are
        standardised on their own.
      newer: Of the surrogate, the same over the newer half.
    """

    learned: tf.Tensor
    ppo: tf.Tensor
    older: tf.Tensor
    newer: tf.Tensor


class _Comparison:
    """Takes both gradients at the updates of P lives, and teaches their value networks."""

    def __init__(self, learner: Learner) -> None:
        surrogate = learner.experiment.surrogate
        self._learner = learner
        self._values = AgentOptimizer(learner.agent.value.trainable_variables)
        self._learning_rate = tf.constant(surrogate.baseline_learning_rate)
        self._epochs = surrogate.baseline_epochs
        self._compiled = tf.function(self._step, autograph=False)

    def step(self, raw: RawExperience, order: tf.Tensor) -> Gradients:
        """Returns the gradients, then moves the value networks."""
        return self._compiled(raw, tf.tile(order, [self._epochs, 1, 1]))

    def _step(self, raw: RawExperience, order: tf.Tensor) -> Gradients:
        learner = self._learner
        experience = learner.experience(raw)
        gradients = policy_gradients(learner, experience)
        with tf.control_dependencies(list(gradients)):
            prepared = learner.surrogate.prepare(learner.agent, experience)
            variables = self._values.variables
            everyone = tf.ones([order.shape[1]], tf.bool)

            def take_step(number: tf.Tensor) -> tuple[tf.Tensor]:
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(variables)
                    loss = learner.surrogate.minibatch_loss(learner.agent, prepared, order[number])
                    total = tf.reduce_sum(loss)
                slopes = tape.gradient(total, variables)
                self._values.apply(slopes, everyone, self._learning_rate)
                return (number + 1,)

            steps = order.shape[0]
            tf.while_loop(lambda number: number < steps, take_step, (0,))
        return gradients


def policy_gradients(learner: Learner, experience: Experience) -> Gradients:
    """Differentiates the learned loss and the surrogate of the newest M steps by the policies.

    Args:
      learner: Has P agents, their losses, and the surrogate.
      experience: The buffer.
    """
    period = learner.experiment.inner.update_period
    half = period // 2
    surrogate = learner.surrogate.prepare(learner.agent, experience)
    # Of advantages whose mean over both halves is 0, those of one half would tell of the other's.
    apart = [standardised(part) for part in tf.split(surrogate.advantage, [half, -1], axis=1)]
    halves = surrogate._replace(advantage=tf.concat(apart, axis=1))
    return Gradients(
        _gradient(learner, learner.loss, learner.loss.prepare(learner.agent, experience), period),
        _gradient(learner, learner.surrogate, surrogate, period),
        _gradient(learner, learner.surrogate, halves, half),
        _gradient(learner, learner.surrogate, halves, period, half),
    )


def _gradient(
    learner: Learner, loss: Loss[Any], prepared: Any, end: int, start: int = 0
) -> tf.Tensor:
    """Returns the gradient [P, K] of the mean loss over steps of the newest M, from one number to
    before another.
    """
    agent, variables = learner.agent, learner.agent.policy.variables_in_order
    population = agent.policy.population
    steps = tf.tile(tf.range(start, end)[None], [population, 1])
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        total = tf.reduce_sum(loss.minibatch_loss(agent, prepared, steps))
    slopes = tape.gradient(total, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return tf.concat([tf.reshape(slope, [population, -1]) for slope in slopes], axis=1)


def rank_correlation(one: Array, other: Array) -> Array:
    """Returns Spearman's rank correlation of each row of [P, K] with that of another, [P].

    It is Pearson's correlation of their ranks; equal values share the mean of their ranks. NaN
    where a row is not finite or all its values are equal.
    """
    finite = np.isfinite(one).all(axis=1) & np.isfinite(other).all(axis=1)
    ranks = [stats.rankdata(np.nan_to_num(values), axis=1) for values in (one, other)]
    centred = [rank - rank.mean(axis=1, keepdims=True) for rank in ranks]
    return np.where(finite, cosines(*centred), np.nan)


def cosines(one: Array, other: Array) -> Array:
    """Returns the cosine of the angle between each row of [P, K] and that of another, [P]; NaN
    where a row is not finite or zero.
    """
    one, other = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        found: Array = np.sum(one * other, axis=1) / lengths
    return np.where(np.isfinite(found), found, np.nan)


def summarize_gradient_correlation(found: GradientCorrelation) -> dict[str, Any]:
    """Returns the numbers of section 4.1, with tasks as units.

    Returns:
      "spearman", "cosine" and "ppo_halves", each with `mean` over lives of the mean over a life's
      updates and `ci95`; "parameters", "updates", "lives", and "failed_lives", which have no finite
      gradient and are left out.
    """
    lives, updates = found.spearman.shape
    known = np.isfinite(found.spearman).any(axis=1)
    summary: dict[str, Any] = {name: _numbers(getattr(found, name)[known]) for name in MEASURES}
    return summary | {
        "parameters": found.parameters,
        "updates": updates,
        "lives": lives,
        "failed_lives": int((~known).sum()),
    }


def _numbers(values: Array) -> dict[str, Any]:
    """Returns the numbers of one measure of lives, [L, T]."""
    if not len(values):
        return {"mean": float("nan"), "ci95": (-np.inf, np.inf)}
    by_life = np.nanmean(values, axis=1)
    return {"mean": float(by_life.mean()), "ci95": confidence_interval(by_life)}


def gradient_correlation_rows(found: GradientCorrelation) -> list[dict[str, float | int | str]]:
    """Returns the tidy table: one row per life and update (from 1)."""
    return [
        {
            "life": life,
            "update": update + 1,
            **{name: float(getattr(found, name)[life, update]) for name in MEASURES},
        }
        for life, update in np.ndindex(found.spearman.shape)
    ]
