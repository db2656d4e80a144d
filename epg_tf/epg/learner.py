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
from epg_tf.core.gradients import finite_square_rows
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import Array, EnvironmentSpec, LifeKey, SavedAgent
from epg_tf.epg.agent_optimizer import AgentOptimizer
from epg_tf.epg.meta_parameters import evolves_loss, evolves_policy
from epg_tf.epg.settings import Experiment
from epg_tf.epg.step_limit import clip_kl_step
from epg_tf.losses.channel_checks import check_channels
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.contract import Experience, GuidedLoss, Loss
from epg_tf.losses.extra_channels import Recorded, extra_values
from epg_tf.losses.shared_conv import learned_loss
from epg_tf.losses.surrogates import SURROGATES


class RawExperience(NamedTuple):
    """What a `Buffer` and the normalisation hold at an update; nothing is normalised yet.

    Attributes:
      steps: [P, N, O + A + 3], see `Buffer.steps`.
      next_observation: [P, M, O], of the newest M steps, never from the next episode.
      lived: [N], 1.0 where a step has been lived, 0.0 in the padding.
      shift: [P, O + A + 1], of the normalisation of observations, actions and rewards.
      scale: [P, O + A + 1].
      time_in_life: [N], see `Buffer.time_in_life`.
      goal: [P, N, G], see `Buffer.goal`.
    """

    steps: Array
    next_observation: Array
    lived: Array
    shift: Array
    scale: Array
    time_in_life: Array
    goal: Array


class Learner:
    """Owns P agents, their losses and their Adam moments. One thread at a time may use it.

    Args:
      population: P.
      spec: Where the agents live.
      experiment: Settings.
      measure_kl: Whether updates report the KL divergence they cause (a few per cent slower).

    Attributes:
      observer: Called before each update with the learner, what the update starts from, and its
        minibatches [S, P, B]; None: not called.
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
        self.agent = make_agents(population, spec, experiment)
        channels = declared_channels(spec, experiment.loss, experiment.policy.state_dependent_std)
        check_channels(experiment.loss, spec)
        self.loss = learned_loss(
            population, channels, experiment.loss, experiment.inner.update_period
        )
        self.surrogate = SURROGATES[experiment.surrogate.kind](experiment.surrogate)
        self._guided = GuidedLoss(self.loss, self.surrogate)
        self._losses: dict[str, tuple[Loss[Any], AgentOptimizer]] = {
            "learned": (self.loss, AgentOptimizer(self.agent.trainable_variables_of(True, False))),
            "guided": (self._guided, AgentOptimizer(self.agent.trainable_variables_of(True, True))),
            "surrogate": (
                self.surrogate,
                AgentOptimizer(self.agent.trainable_variables_of(False, True)),
            ),
        }
        self._learning_rate = tf.Variable(0.0)
        self._kind = "learned"
        self._updates: dict[tuple[str, int], Callable[..., Any]] = {}
        self._weights: list[Array] = []
        self.observer: Callable[[Learner, RawExperience, tf.Tensor], None] | None = None

    def begin(
        self,
        keys: Sequence[LifeKey],
        phi: Array,
        alpha: float,
        learning_rate: float,
        fresh: bool = False,
        starts: Sequence[SavedAgent | None] = (),
    ) -> None:
        """Starts P new lives. Agents are fresh, or start from an evolved initial policy, or from an
        agent of an earlier life. Adam's moments are zero.

        Args:
          keys: P keys.
          phi: [P, D] float32, what evolution moves, see `meta_parameters`: the loss of each life
            (unused where alpha is 1), its initial policy, or both.
          alpha: Weight of the surrogate, in [0, 1].
          learning_rate: Of Adam, >= 0; 0 keeps the agents as they start.
          fresh: Whether policies are fresh ones even if the vectors hold initial policies.
          starts: P agents of earlier lives, None where a life does not start from one; empty: none
            does.
        """
        self.agent.initialize_agents(keys)
        self._kind = {0.0: "learned", 1.0: "surrogate"}.get(alpha, "guided")
        size = parameter_count(self.loss.shapes) if evolves_loss(self.experiment) else 0
        loss = phi[:, :size] if evolves_policy(self.experiment) else phi
        if alpha < 1.0 and evolves_loss(self.experiment):
            self.loss.load(loss)
        if evolves_policy(self.experiment) and not fresh:
            self.agent.policy.load(phi[:, size:])
        earlier = {row: agent.weights for row, agent in enumerate(starts) if agent is not None}
        self.agent.load_weights(earlier)
        self._guided.alpha.assign(alpha)
        self._learning_rate.assign(learning_rate)
        self._losses[self._kind][1].reset()
        self._weights = [variable.numpy() for variable in self.agent.policy.variables_in_order]

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
        raw = self.raw_experience(buffer, shift, scale)
        minibatches = tf.convert_to_tensor(order)
        if self.observer is not None:
            self.observer(self, raw, minibatches)
        kind = (self._kind, order.shape[0])
        if kind not in self._updates:
            self._updates[kind] = tf.function(
                lambda *inputs: self._update(
                    *self._losses[kind[0]], RawExperience(*inputs[:-1]), inputs[-1]
                ),
                autograph=False,
            ).get_concrete_function(*raw, minibatches)
        finite, kl, *weights = self._updates[kind](*raw, minibatches)
        self._weights = [weight.numpy() for weight in weights]
        return finite.numpy(), kl.numpy()

    @staticmethod
    def raw_experience(buffer: Buffer, shift: Array, scale: Array) -> RawExperience:
        """Returns, as tensors, what an update starts from."""
        raw = RawExperience(
            steps=buffer.steps,
            next_observation=buffer.next_observation,
            lived=buffer.lived,
            shift=shift,
            scale=scale,
            time_in_life=buffer.time_in_life,
            goal=buffer.goal,
        )
        return RawExperience(*map(tf.convert_to_tensor, raw))

    def weights(self) -> list[Array]:
        """Returns the policies' weights after the newest update, in the order of
        `Policy.variables_in_order`.
        """
        return list(self._weights)

    def acting_policy(self) -> ActingPolicy:
        """Returns a copy of the policies as they are now, for acting."""
        policy, activation = self.agent.policy, self.experiment.policy.activation
        return policy.acting_kind(self.weights(), activation, policy.spec.action_parts)

    def hashes(self) -> Array:
        """Returns [P] SHA-256 of each agent's policy and memory."""
        arrays = [variable.numpy() for variable in self.agent.trainable_variables_of(True, False)]
        return np.array(
            [
                hashlib.sha256(b"".join(array[row].tobytes() for array in arrays)).hexdigest()
                for row in range(len(arrays[0]))
            ]
        )

    def _update(
        self,
        loss: Loss[Any],
        optimizer: AgentOptimizer,
        raw: RawExperience,
        order: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        """Returns finite [P], KL [P], then the policies' new weights."""
        variables = optimizer.variables
        experience = self.experience(raw)
        prepared = loss.prepare(self.agent, experience)
        newest = experience.observation[:, -self.experiment.inner.update_period :]
        policy = self.agent.policy
        # The surrogate alone is a baseline, tuned without a limit.
        limit = 0.0 if loss is self.surrogate else self.experiment.inner.kl_limit
        before = policy.distribution(newest) if self.measure_kl or limit else None
        start = [tf.identity(variable) for variable in policy.variables_in_order] if limit else []

        def take_step(number: tf.Tensor, finite: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                losses = loss.minibatch_loss(self.agent, prepared, order[number])
                total = tf.reduce_sum(losses)
            # REINFORCE, for example, does not use the value network
            gradients = tape.gradient(
                total, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
            )
            finite_now = finite_square_rows(gradients) & tf.math.is_finite(losses)
            optimizer.apply(gradients, finite_now, self._learning_rate)
            return number + 1, finite & finite_now

        # A loop in the graph: S steps compile as quickly as one.
        steps, finite = order.shape[0], tf.ones([order.shape[1]], tf.bool)
        _, finite = tf.while_loop(lambda number, _: number < steps, take_step, (0, finite))
        if before is not None and limit:
            clip_kl_step(policy, start, before, newest, limit)
        kl = tf.fill([order.shape[1]], float("nan"))
        if before is not None and self.measure_kl:
            kl = tf.reduce_mean(before.kl_divergence(policy.distribution(newest)), axis=1)
        # As outputs they cost less than reading each variable from Python.
        weights = [tf.identity(variable) for variable in policy.variables_in_order]
        return finite, kl, *weights

    def experience(self, raw: RawExperience) -> Experience:
        """Normalises the buffer by the statistics of now; padding stays zero.

        The termination channel marks the steps after which an episode terminated and, if
        `loss.truncation_as_end`, also those at which a time limit cut it.
        """
        spec = self.agent.policy.spec
        sizes = [spec.observation_size, spec.action_size, 1]
        shift, scale = raw.shift[:, None], raw.scale[:, None]
        recorded, terminated, truncated = tf.split(raw.steps, [sum(sizes), 1, 1], axis=2)
        normalised = normalizer.normalize(recorded, shift, scale) * raw.lived[None, :, None]
        observation, action, reward = tf.split(normalised, sizes, axis=2)
        inputs = Recorded(
            observation=observation,
            action=action,
            reward=reward,
            ended=tf.maximum(terminated, truncated),
            lived=raw.lived[None, :, None],
            time_in_life=raw.time_in_life[None, :, None],
            goal=raw.goal,
            raw_observation=recorded[:, :, : spec.observation_size],
            raw_reward=recorded[:, :, -1:],
            terminated=terminated,
            turning=spec.turning,
        )
        marks_both = self.experiment.loss.truncation_as_end
        newest = slice(-self.experiment.inner.update_period, None)
        _, raw_action, raw_reward = tf.split(recorded[:, newest], sizes, axis=2)
        seen = slice(spec.observation_size)
        return Experience(
            observation=observation,
            action=action,
            reward=reward,
            termination=tf.maximum(terminated, truncated) if marks_both else terminated,
            raw_action=raw_action,
            raw_reward=raw_reward[:, :, 0],
            terminated=terminated[:, newest, 0],
            truncated=truncated[:, newest, 0],
            next_observation=normalizer.normalize(
                raw.next_observation, shift[:, :, seen], scale[:, :, seen]
            ),
            extra=extra_values(inputs, self.experiment.loss) or None,
        )


def make_agents(population: int, spec: EnvironmentSpec, experiment: Experiment) -> Agent:
    """Returns P agents of an experiment, whose weights are not drawn yet."""
    loss, hidden = experiment.loss, experiment.surrogate.value_hidden
    memory = loss.memory_inputs, loss.memory_units
    return Agent(population, spec, experiment.policy, memory, hidden)
