"""Fits phi to a surrogate before evolution, in place of hundreds of guided epochs (our own; see docs/evolution.md).

Lives are taught as in guided evolution, by a mixture that goes from the surrogate to the learned loss. Before each
update phi takes a few gradient steps such that what the learned loss wants of the policy's answers, step by step, is
what the surrogate wants, who alone sees the reward. All lives of a round share one phi.
"""

from __future__ import annotations

import dataclasses
import threading
import types
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.adam import adam_update
from epg_tf.agents.policies import Policy
from epg_tf.algorithms import es_math
from epg_tf.algorithms.inner_loop import InnerLoop, Teaching
from epg_tf.algorithms.learner import Learner, finite_rows, zero_rows
from epg_tf.config import Experiment
from epg_tf.losses.contract import Experience
from epg_tf.tasks.registry import make_family
from epg_tf.types import LifeKey

_TINY = 1e-8


@dataclasses.dataclass(frozen=True)
class Round:
    """One round of distillation.

    Attributes:
      phi: [D] float32, after it.
      env_steps: Env steps spent so far.
      agreement: Mean cosine between the two gradients during the round.
    """

    phi: np.ndarray
    env_steps: int
    agreement: float


class Nudged:
    """A policy whose answers at its newest M steps, and whose state-independent part, are moved a little.

    Args:
      policy: The policy.
      answer: [P, M, A], added to means or logits.
      state_independent: [P, K], added to what all states share.
    """

    def __init__(self, policy: Policy, answer: tf.Tensor, state_independent: tf.Tensor):
        self._policy, self._answer = policy, answer
        self.state_independent = policy.state_independent + state_independent
        self.distribution_from = policy.distribution_from

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns answers [P, T, A], T >= M, at normalised observations that end with the newest M steps."""
        older = observation.shape[1] - self._answer.shape[1]
        return self._policy(observation) + tf.pad(self._answer, [[0, 0], [older, 0], [0, 0]])

    def seen_by_losses(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns what a learned loss sees, [P, T, A]."""
        return self._policy.seen_from(self(observation))

    def distribution(self, observation: tf.Tensor):
        """Returns action distributions of batch shape [P, T]."""
        return self.distribution_from(self(observation), self.state_independent)


class Distiller(Learner):
    """A learner that also fits phi, which its lives share.

    Attributes:
      steps: Gradient steps on phi per update of the agents.
      rate: Learning rate of phi's Adam.
      agreements: One number per update so far: the mean cosine between both losses' gradients.
    """

    def __init__(self, population: int, observation_size: int, action_size: int, discrete_actions: bool,
                 experiment: Experiment, measure_kl: bool):
        super().__init__(population, observation_size, action_size, discrete_actions, experiment, measure_kl)
        self.steps, self.rate = experiment.distillation.steps, experiment.distillation.learning_rate
        self.agreements: list[float] = []
        parts = list(self.loss.parts.values())
        self._phi_moments = [(tf.Variable(tf.zeros(part.shape[1:])), tf.Variable(tf.zeros(part.shape[1:])))
                             for part in parts]
        self._phi_step = tf.Variable(0.0)
        self._compiled_fit = tf.function(self._fit)

    def begin(self, keys: Sequence[LifeKey], phi: np.ndarray, alpha: float, learning_rate: float) -> None:
        """Starts P new lives; phi, the same in all rows, is needed also where alpha is 1."""
        super().begin(keys, phi, alpha, learning_rate)
        self.loss.load(phi)

    def update(self, buffer, shift, scale, order) -> tuple[np.ndarray, np.ndarray]:
        """Fits phi, then moves the agents as any learner."""
        raw = self.raw_experience(buffer, shift, scale)
        self.agreements.append(float(np.mean([self._compiled_fit(raw).numpy() for _ in range(self.steps)])))
        return super().update(buffer, shift, scale, order)

    def phi(self) -> np.ndarray:
        """Returns phi as it is now, [D] float32."""
        return np.concatenate([part[0].numpy().ravel() for part in self.loss.parts.values()])

    def _fit(self, raw) -> tf.Tensor:
        """Takes one step; returns the mean cosine between the gradients before it."""
        experience, parts = self._normalised(raw), list(self.loss.parts.values())
        wanted = self._gradients(self.surrogate, experience)
        wanted = [gradient / (_length(gradient) + _TINY) for gradient in wanted]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parts)
            found = self._gradients(self.loss, experience)
            error = tf.add_n([tf.reduce_mean(tf.square(one - other)) for one, other in zip(found, wanted, strict=True)
                              if one.shape[-1]])
        gradients = tape.gradient(error, parts, unconnected_gradients="zero")
        fine = finite_rows(gradients)  # a life that failed has no say in the phi of the others
        step = self._phi_step.assign_add(1.0)
        for part, gradient, (first, second) in zip(parts, gradients, self._phi_moments, strict=True):
            change, new_first, new_second = adam_update(tf.reduce_sum(zero_rows(gradient, fine), axis=0), first, second,
                                                        step, learning_rate=self.rate)
            first.assign(new_first)
            second.assign(new_second)
            part.assign_add(tf.broadcast_to(change[None], part.shape))
        cosines = tf.reduce_mean(found[0] / (_length(found[0]) + _TINY) * wanted[0], axis=[1, 2])
        return tf.reduce_mean(tf.boolean_mask(cosines, fine))

    def _gradients(self, loss, experience: Experience) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns a loss's gradients with respect to the answers at the newest M steps [P, M, A], as if each step were
        the whole minibatch, and to what states share [P, K]."""
        agent, period = self.agent, self.experiment.inner.update_period
        prepared = loss.prepare(agent, experience)
        newest = agent.policy(experience.observation[:, -period:])
        answer, shared = tf.zeros_like(newest), tf.zeros_like(agent.policy.state_independent)
        steps = tf.tile(tf.range(period)[None], [newest.shape[0], 1])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([answer, shared])
            nudged = types.SimpleNamespace(policy=Nudged(agent.policy, answer, shared), value=agent.value,
                                           memory_output=agent.memory_output)
            total = tf.reduce_sum(loss.per_step(nudged, prepared, steps))
        answers, shared = tape.gradient(total, [answer, shared], unconnected_gradients="zero")
        steps_counted = float(period) if self.experiment.loss.reduction == "mean" else 1.0
        return steps_counted * answers, steps_counted / period * shared


def _length(gradient: tf.Tensor) -> tf.Tensor:
    """Returns the root mean square of each row of [P, ...], with axes kept."""
    axes = list(range(1, gradient.shape.rank))
    return tf.sqrt(tf.reduce_mean(tf.square(gradient), axis=axes, keepdims=True))


def distil(experiment: Experiment, seed: int, phi: np.ndarray, stop: threading.Event | None = None) -> Iterator[Round]:
    """Fits phi in `experiment.distillation.rounds` rounds of one shard of lives each.

    Args:
      experiment: Settings.
      seed: Of all randomness.
      phi: [D] float32, where to start.
      stop: When set, rounds end early with `Interrupted`.

    Yields:
      A `Round` after each.
    """
    settings, population = experiment.distillation, experiment.compute.shard_lives
    loop = InnerLoop(experiment, make_family(experiment.task), stop=stop, learner_kind=Distiller)
    env_steps = 0
    for number in range(settings.rounds):
        keys = [LifeKey(seed, "distillation", number, index) for index in range(population)]
        alpha = es_math.annealed(1.0, settings.final_alpha, max(settings.rounds - 1, 1), number)
        before = len(loop.learner.agreements)
        teaching = Teaching(alpha, experiment.inner.learning_rate)
        lives = loop.run(keys, np.repeat(phi[None], population, axis=0), teaching)
        phi, env_steps = loop.learner.phi(), env_steps + int(lives.env_steps.sum())
        yield Round(phi, env_steps, float(np.nanmean(loop.learner.agreements[before:])))
