"""Updates P agents once: minibatches of a loss, gradients, Adam (Algorithm 2, the block
`t mod M = 0`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from epg_tf.agents import normalizer
from epg_tf.agents.acting import ActingPolicy
from epg_tf.agents.agent import Agent
from epg_tf.agents.buffer import Buffer
from epg_tf.core.experiment import Experiment
from epg_tf.core.gradients import finite_square_rows, zero_rows
from epg_tf.core.optimizers import adam_update
from epg_tf.core.types import Array, EnvironmentSpec, LifeKey
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.contract import Experience, GuidedLoss, Loss
from epg_tf.losses.surrogates import SURROGATES
from epg_tf.losses.temporal_conv import TemporalConvLoss


class RawExperience(NamedTuple):
    """What a `Buffer` and the normalisation hold at an update; nothing is normalised yet.

    Attributes:
      observation: [P, N, O].
      action: [P, N, A], as sampled.
      reward: [P, N].
      terminated: [P, N], 1.0 where the episode ended for good.
      truncated: [P, N], 1.0 where a time limit cut it.
      next_observation: [P, M, O], of the newest M steps, never from the next episode.
      lived: [N], 1.0 where a step has been lived, 0.0 in the padding.
      shift: [P, O + A + 1], of the normalisation of observations, actions and rewards.
      scale: [P, O + A + 1].
    """

    observation: Array
    action: Array
    reward: Array
    terminated: Array
    truncated: Array
    next_observation: Array
    lived: Array
    shift: Array
    scale: Array


class Learner:
    """Owns P agents, their losses and their Adam moments. One thread at a time may use it.

    Args:
      population: P.
      spec: Where the agents live.
      experiment: Settings.
      measure_kl: Whether updates report the KL divergence they cause (a few per cent slower).
    """

    def __init__(
        self,
        population: int,
        spec: EnvironmentSpec,
        experiment: Experiment,
        measure_kl: bool,
    ):
        self.experiment = experiment
        self.measure_kl = measure_kl
        self.agent = Agent(population, spec, experiment)
        channels = declared_channels(spec, experiment.loss)
        self.loss = TemporalConvLoss(
            population, channels, experiment.loss, experiment.inner.update_period
        )
        self.surrogate = SURROGATES[experiment.surrogate.kind](experiment.surrogate)
        self._guided = GuidedLoss(self.loss, self.surrogate)
        self._losses: dict[str, tuple[Loss[Any], list[tf.Variable]]] = {
            "learned": (self.loss, self.agent.moved_by(True, False)),
            "guided": (self._guided, self.agent.moved_by(True, True)),
            "surrogate": (self.surrogate, self.agent.moved_by(False, True)),
        }
        self._adam_moments = {
            variable.ref(): (
                tf.Variable(tf.zeros_like(variable)),
                tf.Variable(tf.zeros_like(variable)),
            )
            for variable in self._losses["guided"][1]
        }
        self._step = tf.Variable(0.0)
        self._learning_rate = tf.Variable(0.0)
        self._kind = "learned"
        self._updates: dict[tuple[str, int], Callable[..., tuple[tf.Tensor, tf.Tensor]]] = {}

    def begin(
        self, keys: Sequence[LifeKey], phi: Array, alpha: float, learning_rate: float
    ) -> None:
        """Starts P new lives: fresh agents, Adam moments at zero.

        Args:
          keys: P keys.
          phi: [P, D] float32, the loss of each life; unused where alpha is 1.
          alpha: Weight of the surrogate, in [0, 1].
          learning_rate: Of Adam, >= 0; 0 keeps the agents as they start.
        """
        self.agent.initialize_agents(keys)
        self._kind = {0.0: "learned", 1.0: "surrogate"}.get(alpha, "guided")
        if alpha < 1.0:
            self.loss.load(phi)
        self._guided.alpha.assign(alpha)
        self._learning_rate.assign(learning_rate)
        self._step.assign(0.0)
        for pair in self._adam_moments.values():
            for moment in pair:
                moment.assign(np.zeros(moment.shape, np.float32))

    def update(
        self, buffer: Buffer, shift: Array, scale: Array, order: Array
    ) -> tuple[Array, Array]:
        """Moves the agents by S minibatch steps.

        Args:
          buffer: Experience of the P lives.
          shift: [P, O + A + 1], of the normalisation of observations, actions and rewards.
          scale: [P, O + A + 1].
          order: [S, P, B] int32, which of the newest M steps each minibatch holds.

        Returns:
          ([P] bool, whether all gradients were finite; [P] KL(before, after) in nats, NaN unless
          measured).
        """
        kind = (self._kind, order.shape[0])
        if kind not in self._updates:
            self._updates[kind] = tf.function(
                lambda raw, order: self._update(*self._losses[kind[0]], raw, order)
            )
        finite, kl = self._updates[kind](
            self.raw_experience(buffer, shift, scale), tf.convert_to_tensor(order)
        )
        return finite.numpy(), kl.numpy()

    @staticmethod
    def raw_experience(buffer: Buffer, shift: Array, scale: Array) -> RawExperience:
        """Returns, as tensors, what an update starts from."""
        raw = RawExperience(
            observation=buffer.observation,
            action=buffer.action,
            reward=buffer.reward,
            terminated=buffer.terminated,
            truncated=buffer.truncated,
            next_observation=buffer.next_observation,
            lived=buffer.lived,
            shift=shift,
            scale=scale,
        )
        return RawExperience(*map(tf.convert_to_tensor, raw))

    def weights(self) -> list[Array]:
        """Returns a copy of the policies' weights, in the order of `Policy.variables_in_order`."""
        return [variable.numpy() for variable in self.agent.policy.variables_in_order]

    def acting_policy(self) -> ActingPolicy:
        """Returns a copy of the policies as they are now, for acting."""
        return self.agent.policy.acting_kind(self.weights(), self.experiment.policy.activation)

    def hashes(self) -> Array:
        """Returns [P] SHA-256 of each agent's policy and memory."""
        arrays = [variable.numpy() for variable in self.agent.moved_by(True, False)]
        return np.array(
            [
                hashlib.sha256(b"".join(array[row].tobytes() for array in arrays)).hexdigest()
                for row in range(len(arrays[0]))
            ]
        )

    def _update(
        self,
        loss: Loss[Any],
        variables: Sequence[tf.Variable],
        raw: RawExperience,
        order: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        experience = self._experience(raw)
        prepared = loss.prepare(self.agent, experience)
        newest = experience.observation[:, -self.experiment.inner.update_period :]
        before = self.agent.policy.distribution(newest) if self.measure_kl else None
        finite = tf.ones([order.shape[1]], tf.bool)
        # A loop in the graph: S steps compile as quickly as one.
        for minibatch in tf.range(order.shape[0]):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                losses = loss.minibatch_loss(self.agent, prepared, order[minibatch])
                total = tf.reduce_sum(losses)
            # REINFORCE, for example, does not use the value network
            gradients = tape.gradient(
                total, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
            )
            fine = finite_square_rows(gradients) & tf.math.is_finite(losses)
            self._apply(variables, [zero_rows(gradient, fine) for gradient in gradients])
            finite &= fine
        if before is None:
            return finite, tf.fill([order.shape[1]], float("nan"))
        after = self.agent.policy.distribution(newest)
        return finite, tf.reduce_mean(before.kl_divergence(after), axis=1)

    def _experience(self, raw: RawExperience) -> Experience:
        """Normalises the buffer by the statistics of now; padding stays zero.

        The termination channel marks the steps after which an episode ended for good and, if
        `loss.truncation_as_end`, also those at which a time limit cut it.
        """
        sizes = [raw.observation.shape[2], raw.action.shape[2], 1]
        shifts, scales = (tf.split(part[:, None], sizes, axis=2) for part in (raw.shift, raw.scale))
        lived = raw.lived[None, :, None]
        observation, action, reward = (
            normalizer.normalize(values, shift, scale) * lived
            for values, shift, scale in zip(
                (raw.observation, raw.action, raw.reward[:, :, None]), shifts, scales, strict=True
            )
        )
        ends = (
            tf.maximum(raw.terminated, raw.truncated)
            if self.experiment.loss.truncation_as_end
            else raw.terminated
        )
        newest = slice(-self.experiment.inner.update_period, None)
        return Experience(
            observation=observation,
            action=action,
            reward=reward,
            termination=ends[:, :, None],
            raw_action=raw.action[:, newest],
            raw_reward=raw.reward[:, newest],
            terminated=raw.terminated[:, newest],
            truncated=raw.truncated[:, newest],
            next_observation=normalizer.normalize(raw.next_observation, shifts[0], scales[0]),
        )

    def _apply(self, variables: Sequence[tf.Variable], gradients: Sequence[tf.Tensor]) -> None:
        step = self._step.assign_add(1.0)
        for variable, gradient in zip(variables, gradients, strict=True):
            first, second = self._adam_moments[variable.ref()]
            change, new_first, new_second = adam_update(
                gradient, first, second, step, learning_rate=self._learning_rate
            )
            first.assign(new_first)
            second.assign(new_second)
            variable.assign_add(change)
