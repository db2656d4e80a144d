"""EPG's learned loss: temporal convolutions over the agent's recent history (EPG, section 3.3,
Figure 2).

    x_i      = channels of step i: observation, action, [reward,] termination, policy, memory       Eq. 8, 9
    context  = dense(conv(conv(x_{t-N} ... x_t)))
    L_i      = head(x_i, context)

Two identities make it cheap. A channel that is constant in time meets the convolution as a bias.
What the buffer recorded does not change while one update's minibatches move the policy, so its
share of the first convolution is computed once per update; only the policy's answers are convolved
again.

Convolutions are not padded, so a few of the newest steps may lie past the last window (with the
paper's sizes, the newest 7 of 512). The head sees those steps all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from epg_tf.core.experiment import LossConfig
from epg_tf.core.parallel_layers import convolution_length, parallel_convolution, parallel_dense
from epg_tf.core.types import Array
from epg_tf.losses.contract import Channel, Experience, Loss

Parts = Mapping[str, tf.Tensor]


class Prepared(NamedTuple):
    """What one update of the learned loss starts from.

    Attributes:
      convolved: [P, T1, F1], the first convolution's answer to the recorded channels.
      newest_history: [P, M, C_h], recorded channels of the newest steps.
    """

    convolved: tf.Tensor
    newest_history: tf.Tensor


def parameter_shapes(channels: Sequence[Channel], config: LossConfig) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the parts of phi, in the order in which the flat vector holds them."""
    inputs = sum(channel.width for channel in channels)
    first, second = config.filters
    steps = config.buffer_steps
    for width, stride in zip(config.widths, config.strides, strict=True):
        steps = convolution_length(steps, width, stride)
    pooled = second * (steps if config.pooling == "flatten" else 1)
    return {
        "convolution_1/kernel": (config.widths[0], inputs, first),
        "convolution_1/bias": (first,),
        "convolution_2/kernel": (config.widths[1], first, second),
        "convolution_2/bias": (second,),
        "context/kernel": (pooled, config.context),
        "context/bias": (config.context,),
        "head/kernel": (inputs + config.context, config.head),
        "head/bias": (config.head,),
        "output/kernel": (config.head, 1),
        "output/bias": (1,),
    }


def split(phi: Array, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Returns name -> [P, ...] of the parts of phi, [P, D]."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]
    return {
        name: part.reshape(-1, *shape)
        for (name, shape), part in zip(shapes.items(), np.split(phi, ends, axis=1), strict=True)
    }


def parameter_count(shapes: dict[str, tuple[int, ...]]) -> int:
    """Returns D."""
    return sum(int(np.prod(shape)) for shape in shapes.values())


class TemporalConv:
    """The network's mathematics; its weights are kept by whoever asks.

    `parts` is name -> weights with a leading axis of P lives, or of 1 where all share them; see
    `parameter_shapes`.

    Args:
      channels: Declared inputs, from `declared_channels`.
      config: Sizes, slopes, pooling.
      update_period: M.
    """

    def __init__(self, channels: Sequence[Channel], config: LossConfig, update_period: int):
        self.channels = tuple(channels)
        self.config = config
        self.update_period = update_period
        self.shapes = parameter_shapes(channels, config)
        inputs = sum(channel.width for channel in self.channels)
        self._rows = {kind: self._rows_of(kind) for kind in ("history", "policy", "constant")}
        self._rows["context"] = list(
            range(inputs, inputs + config.context)
        )  # of the head: it follows the channels

    def _rows_of(self, kind: str) -> list[int]:
        starts = np.cumsum([0] + [channel.width for channel in self.channels])
        return [
            row
            for channel, start in zip(self.channels, starts[:-1], strict=True)
            if channel.kind == kind
            for row in range(start, start + channel.width)
        ]

    def _activate(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.leaky_relu(inputs, alpha=self.config.leaky_slope)

    def _kernel(self, parts: Parts, name: str, *kinds: str) -> tf.Tensor:
        """Returns the rows (last axis but one) of a kernel that meet inputs of these kinds, in this
        order.
        """
        rows = [row for kind in kinds for row in self._rows[kind]]
        return tf.gather(parts[name], tf.constant(rows, tf.int32), axis=-2)  # there may be none

    def prepare(self, parts: Parts, recorded: Mapping[str, tf.Tensor]) -> Prepared:
        """Convolves the recorded channels, given by name as [P, N, width]."""
        history = tf.concat(
            [recorded[c.name] for c in self.channels if c.kind == "history"], axis=2
        )
        kernel = self._kernel(parts, "convolution_1/kernel", "history")
        convolved = parallel_convolution(history, kernel, self.config.strides[0])
        return Prepared(convolved, history[:, -self.update_period :])

    def per_step(
        self,
        parts: Parts,
        prepared: Prepared,
        answers: tf.Tensor,
        scored_answers: tf.Tensor,
        constants: tf.Tensor,
        steps: tf.Tensor,
    ) -> tf.Tensor:
        """Scores steps one by one.

        Args:
          parts: The weights.
          prepared: From `prepare`.
          answers: [P, N, A], the policy's at all buffered steps.
          scored_answers: [P, B, A], those at `steps`.
          constants: [P, K], what all steps share: log deviations, then memory, as far as declared.
          steps: [P, B] int, among the newest M.

        Returns:
          [P, B] losses L_i.
        """
        constants = constants[:, None]
        context = self._context(parts, prepared.convolved, answers, constants)
        varying = tf.concat(
            [tf.gather(prepared.newest_history, steps, batch_dims=1), scored_answers], axis=2
        )
        hidden = tf.matmul(varying, self._kernel(parts, "head/kernel", "history", "policy"))
        shared = tf.concat([constants, context], axis=2)
        hidden += tf.matmul(shared, self._kernel(parts, "head/kernel", "constant", "context"))
        hidden = self._activate(hidden + parts["head/bias"][:, None])
        return parallel_dense(hidden, parts["output/kernel"], parts["output/bias"])[:, :, 0]

    def _context(
        self, parts: Parts, convolved: tf.Tensor, answers: tf.Tensor, constants: tf.Tensor
    ) -> tf.Tensor:
        """Finishes the convolutions: [P, T1, F1], [P, N, A], [P, 1, K] -> context [P, 1, 32]."""
        first, second = self.config.strides
        convolved += parallel_convolution(
            answers, self._kernel(parts, "convolution_1/kernel", "policy"), first
        )
        over_time = tf.reduce_sum(self._kernel(parts, "convolution_1/kernel", "constant"), axis=1)
        convolved += tf.matmul(constants, over_time) + parts["convolution_1/bias"][:, None]
        hidden = self._activate(convolved)
        hidden = parallel_convolution(hidden, parts["convolution_2/kernel"], second)
        hidden = self._activate(hidden + parts["convolution_2/bias"][:, None])
        if self.config.pooling == "mean":
            hidden = tf.reduce_mean(hidden, axis=1, keepdims=True)
        else:
            hidden = tf.reshape(hidden, [-1, 1, hidden.shape[1] * hidden.shape[2]])
        return self._activate(
            parallel_dense(hidden, parts["context/kernel"], parts["context/bias"])
        )


class TemporalConvLoss(tf.keras.Model, Loss):
    """P learned losses side by side, one per life.

    Args:
      population: P.
      channels: Declared inputs, from `declared_channels`.
      config: Sizes, slopes, pooling, reduction.
      update_period: M.
    """

    def __init__(
        self, population: int, channels: Sequence[Channel], config: LossConfig, update_period: int
    ):
        super().__init__(name="temporal_conv_loss")
        self.network = TemporalConv(channels, config, update_period)
        self.shapes = self.network.shapes
        self.parts = {
            name: self.add_weight(
                name=name, shape=(population, *shape), initializer="zeros", trainable=False
            )
            for name, shape in self.shapes.items()
        }

    def load(self, phi: Array) -> None:
        """Takes the parameters of all lives from phi, [P, D] float32."""
        for name, values in split(phi, self.shapes).items():
            self.parts[name].assign(values)

    def prepare(self, agent: Any, experience: Experience) -> tuple[Prepared, tf.Tensor]:
        """Convolves the recorded channels; also returns the policy's inputs [P, N, O]."""
        del agent
        recorded = {
            "observation": experience.observation,
            "action": experience.action,
            "reward": experience.reward,
            "termination": experience.termination,
        }
        return self.network.prepare(self.parts, recorded), experience.observation

    def per_step(
        self, agent: Any, prepared: tuple[Prepared, tf.Tensor], steps: tf.Tensor
    ) -> tf.Tensor:
        """Reduces the losses of a minibatch to [P]; gradient reaches the policy at all N steps, and
        the memory.
        """
        losses = self.call(*prepared, agent.policy, agent.memory_output(), steps)
        return reduced(losses, self.network.config.reduction)

    def call(
        self,
        prepared: Prepared,
        observation: tf.Tensor,
        policy: Any,
        memory: tf.Tensor | None,
        steps: tf.Tensor,
    ) -> tf.Tensor:
        """Scores steps one by one.

        Args:
          prepared: From `prepare`.
          observation: [P, N, O], from there too.
          policy: An `agents.policies.Policy`.
          memory: [P, units], or None without a memory unit.
          steps: [P, B] int, among the newest M.

        Returns:
          [P, B] losses L_i.
        """
        constants = tf.concat([policy.shared_output] + ([] if memory is None else [memory]), axis=1)
        newest = observation[:, -self.network.update_period :]
        scored = policy.seen_by_losses(tf.gather(newest, steps, batch_dims=1))
        return self.network.per_step(
            self.parts, prepared, policy.seen_by_losses(observation), scored, constants, steps
        )


def reduced(losses: tf.Tensor, reduction: str) -> tf.Tensor:
    """Returns [P], the "mean" or "sum" of a minibatch's losses [P, B]."""
    return (tf.reduce_mean if reduction == "mean" else tf.reduce_sum)(losses, axis=1)
