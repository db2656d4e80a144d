"""EPG's learned loss: temporal convolutions over the agent's recent history (EPG, section 3.3,
Figure 2).

    x_i      = channels of step i: observation, action, [reward,] termination, policy, memory
    context  = dense(conv(conv(x_{t-N} ... x_t)))                                  Eq. 8, 9
    L_i      = head(x_i, context)

Two identities make it cheap. A channel that is constant in time meets the convolution as a bias.
What the buffer recorded does not change while one update's minibatches move the policy, so its
share of the first convolution is computed once per update; only the policy's outputs are convolved
again.

With `config.mean_limit` the loss of a step also has what holds policies within limits; see
`losses.policy_limits`.

With `config.products` the head also has product units, which alone see the log probability of the
action taken (unless `config.without` has it); see `losses.product_units`.

Convolutions are not padded, so a few of the newest steps may lie past the last window (with the
paper's sizes, the newest 7 of 512). The head sees those steps all the same.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from epg_tf.core.parallel_layers import parallel_convolution, parallel_matmul
from epg_tf.core.parallel_models import ParallelModel, layers_of
from epg_tf.core.parameters import Params
from epg_tf.losses.channels import (
    CONSTANT,
    EFFECTS,
    HISTORY,
    MINIBATCH,
    POLICY,
    SCORED,
    Channel,
    input_width,
    kernel_rows,
    scored_width,
)
from epg_tf.losses.contract import AgentLike, Experience, Loss
from epg_tf.losses.identifying import distance_to_floor, floors
from epg_tf.losses.parameter_shapes import parameter_shapes
from epg_tf.losses.policy_limits import excess
from epg_tf.losses.product_units import product_units
from epg_tf.losses.settings import LossConfig

_CONTEXT = "context"  # rows of the head's kernel after those of the channels


class RecordedHistory(NamedTuple):
    """What the buffer recorded, as the minibatches of one update use it.

    Attributes:
      convolved: [P, T1, F1], the first convolution of the recorded channels.
      newest_history: [P, M, C_h], recorded channels of the newest steps.
      floor: [P, A, 1 + inputs], see `losses.identifying`; None without such a part.
    """

    convolved: tf.Tensor
    newest_history: tf.Tensor
    floor: tf.Tensor | None = None


class PolicyChannels(NamedTuple):
    """The policy's outputs that the loss sees at one minibatch; gradient flows through them.

    Attributes:
      buffered: [P, N, C_p], policy channels at all buffered steps.
      scored: [P, B, C_p], the same at the minibatch's steps.
      constants: [P, C_c], constant channels; C_c may be 0.
      log_prob: [P, B, C_s], of the actions taken at the minibatch's steps; None where no product
        units see it.
    """

    buffered: tf.Tensor
    scored: tf.Tensor
    constants: tf.Tensor
    log_prob: tf.Tensor | None = None


class PreparedUpdate(NamedTuple):
    """What holds for all minibatches of one update.

    Attributes:
      recorded: From `TemporalConv.prepare`.
      observation: [P, N, O], normalised.
      newest_action: [P, M, A], as sampled.
    """

    recorded: RecordedHistory
    observation: tf.Tensor
    newest_action: tf.Tensor


@dataclasses.dataclass(frozen=True)
class TemporalConv:
    """The network as a pure function of (params, inputs).

    `params` is name -> weights with a leading axis of P lives, or of 1 where all share them; see
    `shapes`.

    Attributes:
      channels: Declared inputs, from `declared_channels`.
      config: Sizes, slopes, pooling.
      update_period: M.
    """

    channels: tuple[Channel, ...]
    config: LossConfig
    update_period: int

    @functools.cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns name -> shape of the parameters, in the order of the flat vector phi."""
        return parameter_shapes(self.channels, self.config)

    @functools.cached_property
    def _rows(self) -> dict[str, list[int]]:
        """Returns the rows of a kernel that meet each kind of channel; those of the context and of
        `SCORED` channels follow the others where there are some.
        """
        by_name = kernel_rows(self.channels)
        rows = {
            kind: [row for c in self.channels if c.kind == kind for row in by_name[c.name]]
            for kind in (HISTORY, POLICY, CONSTANT)
        }
        width = input_width(self.channels)
        end = width + self.config.context
        rows[_CONTEXT] = list(range(width, end))
        rows[SCORED] = list(range(end, end + scored_width(self.channels)))
        return rows

    def names(self, kind: str) -> list[str]:
        """Returns the names of the channels of one kind, in order."""
        return [channel.name for channel in self.channels if channel.kind == kind]

    def prepare(self, params: Params, inputs: Mapping[str, tf.Tensor]) -> RecordedHistory:
        """Convolves the recorded channels.

        Args:
          params: The weights.
          inputs: Name -> [P, N, width] of the history channels, and [P, width] of the effects of
            actions where the loss sees them; others are ignored.
        """
        history = tf.concat([inputs[name] for name in self.names(HISTORY)], axis=2)
        kernel = self._kernel(params, "convolution_1/kernel", HISTORY)
        convolved = parallel_convolution(history, kernel, self.config.strides[0])
        floor = None
        if self.config.identifying:
            (effects,) = self.names(EFFECTS)
            floor = floors(params, inputs[effects])
        return RecordedHistory(convolved, history[:, -self.update_period :], floor)

    def per_step(
        self, params: Params, recorded: RecordedHistory, policy: PolicyChannels, steps: tf.Tensor
    ) -> tf.Tensor:
        """Scores steps one by one.

        Args:
          params: The weights.
          recorded: From `prepare`.
          policy: What the gradient flows through.
          steps: [P, B] int, among the newest M.

        Returns:
          [P, B] losses L_i.
        """
        constants = policy.constants[:, None]
        context = self._context(params, recorded.convolved, policy.buffered, constants)
        history = tf.gather(recorded.newest_history, steps, batch_dims=1)
        varying = tf.concat([history, policy.scored], axis=2)
        hidden = parallel_matmul(varying, self._kernel(params, "head/kernel", HISTORY, POLICY))
        shared = tf.concat([constants, context], axis=2)
        hidden += parallel_matmul(shared, self._kernel(params, "head/kernel", CONSTANT, _CONTEXT))
        hidden = self._activate(hidden + params["head/bias"][:, None])
        if self.config.products:
            products = self._products(params, varying, shared, policy.log_prob)
            hidden = tf.concat([hidden, products], axis=2)
        outputs = parallel_matmul(hidden, params["output/kernel"])
        losses = (outputs + params["output/bias"][:, None])[:, :, 0]
        if recorded.floor is not None:
            losses += distance_to_floor(recorded.floor, self.channels, history, policy.scored)
        if self.config.mean_limit:
            losses += excess(self.channels, self.config, policy.scored, constants)
        return losses

    def losses(self, params: Params, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Scores steps from all inputs by name, in one go; differentiable in them.

        Args:
          params: The weights.
          inputs: By channel: history, policy and scored channels [P, N, width], oldest step first,
            constants and effects [P, width]; "minibatch": [P, B] int, steps among the newest M.

        Returns:
          [P, B] losses L_i.
        """
        steps = inputs[MINIBATCH]

        def at_steps(values: tf.Tensor) -> tf.Tensor:
            return tf.gather(values[:, -self.update_period :], steps, batch_dims=1)

        nothing = tf.zeros([tf.shape(steps)[0], 0])
        unseen = [tf.zeros([tf.shape(steps)[0], self.config.buffer_steps, 0])]
        buffered = tf.concat([inputs[name] for name in self.names(POLICY)] or unseen, axis=2)
        log_probs = [at_steps(inputs[name]) for name in self.names(SCORED)]
        constants = [inputs[name] for name in self.names(CONSTANT)] or [nothing]
        policy = PolicyChannels(
            buffered,
            at_steps(buffered),
            tf.concat(constants, axis=1),
            tf.concat(log_probs, axis=2) if log_probs else None,
        )
        return self.per_step(params, self.prepare(params, inputs), policy, steps)

    def _activate(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.leaky_relu(inputs, alpha=self.config.leaky_slope)

    def _products(
        self, params: Params, varying: tf.Tensor, shared: tf.Tensor, log_prob: tf.Tensor | None
    ) -> tf.Tensor:
        """Computes the product units, [P, B, K], from what differs between steps and what does
        not.
        """
        kernel = self._kernel(params, "products/kernel", HISTORY, POLICY, SCORED)
        seen = varying if log_prob is None else tf.concat([varying, log_prob], axis=2)
        forms = parallel_matmul(seen, kernel)
        forms += parallel_matmul(
            shared, self._kernel(params, "products/kernel", CONSTANT, _CONTEXT)
        )
        return product_units(forms + params["products/bias"][:, None], self.config.factors)

    def _kernel(self, params: Params, name: str, *kinds: str) -> tf.Tensor:
        """Returns the rows (last axis but one) of a kernel that meet inputs of these kinds."""
        rows = [row for kind in kinds for row in self._rows[kind]]
        return tf.gather(params[name], tf.constant(rows, tf.int32), axis=-2)  # there may be none

    def _context(
        self, params: Params, convolved: tf.Tensor, policy: tf.Tensor, constants: tf.Tensor
    ) -> tf.Tensor:
        """Finishes the convolutions: [P, T1, F1], [P, N, C_p], [P, 1, C_c] -> [P, 1, context]."""
        first, second = self.config.strides
        if self.names(POLICY):
            convolved += parallel_convolution(
                policy, self._kernel(params, "convolution_1/kernel", POLICY), first
            )
        over_time = tf.reduce_sum(self._kernel(params, "convolution_1/kernel", CONSTANT), axis=1)
        convolved += parallel_matmul(constants, over_time) + params["convolution_1/bias"][:, None]
        hidden = self._activate(convolved)
        hidden = parallel_convolution(hidden, params["convolution_2/kernel"], second)
        hidden = self._activate(hidden + params["convolution_2/bias"][:, None])
        if self.config.pooling == "mean":
            hidden = tf.reduce_mean(hidden, axis=1, keepdims=True)
        else:
            hidden = tf.reshape(hidden, [-1, 1, hidden.shape[1] * hidden.shape[2]])
        hidden = parallel_matmul(hidden, params["context/kernel"])
        return self._activate(hidden + params["context/bias"][:, None])


class TemporalConvLoss(ParallelModel, Loss[PreparedUpdate]):
    """P learned losses side by side, one per life.

    Called with a dict of inputs by name (see `TemporalConv.losses`) it returns the per-step losses
    [P, B]. An update of agents goes through `prepare` and `minibatch_loss` instead, which compute
    their means, and share among minibatches what they can.

    Args:
      population: P.
      channels: Declared inputs, from `declared_channels`.
      config: Sizes, slopes, pooling.
      update_period: M.

    Attributes:
      network: The pure function.
    """

    network_class: type[TemporalConv] = TemporalConv

    def __init__(
        self, population: int, channels: Sequence[Channel], config: LossConfig, update_period: int
    ):
        super().__init__(population, "temporal_conv_loss")
        self.network = self.network_class(tuple(channels), config, update_period)
        self.stages = layers_of(population, self.network.shapes)
        self.build()
        self.trainable = False  # evolution moves it, not gradients

    def call(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns losses [P, B] of inputs by name; see `TemporalConv.losses`."""
        return self.network.losses(self.params, inputs)

    def prepare(self, agent: AgentLike, experience: Experience) -> PreparedUpdate:
        """Convolves the recorded channels."""
        del agent
        names = self.network.names(HISTORY) + self.network.names(EFFECTS)
        inputs = {name: experience.channel(name) for name in names}
        recorded = self.network.prepare(self.params, inputs)
        return PreparedUpdate(recorded, experience.observation, experience.raw_action)

    def minibatch_loss(
        self, agent: AgentLike, prepared: PreparedUpdate, steps: tf.Tensor
    ) -> tf.Tensor:
        """Reduces the losses of a minibatch to [P]; gradient reaches the policy at all N steps, and
        the memory.
        """
        network = self.network
        recorded, observation, newest_action = prepared
        policy, memory = agent.policy, agent.memory_output()

        def seen(values: tf.Tensor) -> tf.Tensor:
            """Returns what the policy provides, or nothing of it (`loss.without`)."""
            return values if network.names(POLICY) else values[..., :0]

        constants = [seen(policy.shared_output)] + ([] if memory is None else [memory])
        newest = observation[:, -network.update_period :]
        output = policy(tf.gather(newest, steps, batch_dims=1))
        log_prob = None
        if network.names(SCORED):
            action = tf.gather(newest_action, steps, batch_dims=1)
            log_prob = policy.log_prob_from(output, policy.shared_output, action)
        channels = PolicyChannels(
            buffered=seen(policy.loss_input(observation)),
            scored=seen(policy.loss_input_from(output)),
            constants=tf.concat(constants, axis=1),
            log_prob=log_prob,
        )
        losses = network.per_step(self.params, recorded, channels, steps)
        return tf.reduce_mean(losses, axis=1)
