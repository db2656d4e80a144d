"""EPG's learned loss: temporal convolutions over the agent's recent history (EPG, section 3.3, Figure 2).

    x_i      = channels of step i: observation, action, [reward,] termination, policy, memory       Eq. 8, 9
    context  = dense(conv(conv(x_{t-N} ... x_t)))
    L_i      = head(x_i, context)

Two identities make it cheap. A channel that is constant in time meets the convolution as a bias. What the buffer
recorded does not change while one update's minibatches move the policy, so its share of the first convolution is
computed once per update; only the policy's answers are convolved again.

Convolutions are not padded, so a few of the newest steps may lie past the last window (with the paper's sizes, the
newest 7 of 512). The head sees those steps all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from epg_tf.config import LossConfig
from epg_tf.losses.contract import Channel, Experience, Loss
from epg_tf.parallel_layers import convolution_length, parallel_convolution, parallel_dense


class Prepared(NamedTuple):
    """What one update of the learned loss starts from.

    Attributes:
      convolved: [P, T1, F1], the first convolution's answer to the recorded channels.
      observation: [P, N, O], the policy's inputs at all buffered steps.
      newest_observation: [P, M, O].
      newest_history: [P, M, C_h], recorded channels of the newest steps.
    """

    convolved: tf.Tensor
    observation: tf.Tensor
    newest_observation: tf.Tensor
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
        "convolution_1/kernel": (config.widths[0], inputs, first), "convolution_1/bias": (first,),
        "convolution_2/kernel": (config.widths[1], first, second), "convolution_2/bias": (second,),
        "context/kernel": (pooled, config.context), "context/bias": (config.context,),
        "head/kernel": (inputs + config.context, config.head), "head/bias": (config.head,),
        "output/kernel": (config.head, 1), "output/bias": (1,),
    }


def parameter_count(shapes: dict[str, tuple[int, ...]]) -> int:
    """Returns D."""
    return sum(int(np.prod(shape)) for shape in shapes.values())


def initial_parameters(generator: np.random.Generator, channels: Sequence[Channel], config: LossConfig
                       ) -> np.ndarray:
    """Draws phi, [D] float32: kernels N(0, 1 / fan-in), biases 0 (the authors' choice; the paper is silent).

    A random loss has no minimum in the means: Adam drives them on and on, actions saturate, and then small changes
    of phi make no difference. With `config.start` "centred" some hidden units of the head instead begin as a valley,
    sum_j |mean_j|, which holds the means at zero; evolution then moves the valley's floor from state to state.
    """
    parts = {}
    for name, shape in parameter_shapes(channels, config).items():
        fan_in = int(np.prod(shape[:-1]))
        parts[name] = generator.standard_normal(shape) / np.sqrt(fan_in) if len(shape) > 1 else np.zeros(shape)
    if config.start == "centred":
        _centre(parts["head/kernel"], parts["output/kernel"], channels)
    return np.concatenate([part.ravel() for part in parts.values()]).astype(np.float32)


def _centre(head: np.ndarray, output: np.ndarray, channels: Sequence[Channel]) -> None:
    """Makes two hidden units per action, as far as there are any, feel its mean with either sign, and nothing else."""
    starts = np.cumsum([0] + [channel.width for channel in channels])
    rows = [row for channel, start in zip(channels, starts[:-1], strict=True) if channel.kind == "policy"
            for row in range(start, start + channel.width)]
    for unit in range(min(2 * len(rows), head.shape[1])):
        head[:, unit] = 0.0
        head[rows[unit // 2], unit] = 1.0 - 2.0 * (unit % 2)
        output[unit] = 1.0


class TemporalConvLoss(tf.keras.Model, Loss):
    """P learned losses side by side, one per life.

    Args:
      population: P.
      channels: Declared inputs, from `declared_channels`.
      config: Sizes, slopes, pooling, reduction.
      update_period: M.
    """

    def __init__(self, population: int, channels: Sequence[Channel], config: LossConfig, update_period: int):
        super().__init__(name="temporal_conv_loss")
        self.channels = tuple(channels)
        self.config = config
        self.update_period = update_period
        self.shapes = parameter_shapes(channels, config)
        self.parts = {name: self.add_weight(name=name, shape=(population, *shape), initializer="zeros", trainable=False)
                      for name, shape in self.shapes.items()}
        inputs = sum(channel.width for channel in self.channels)
        self._rows = {kind: self._rows_of(kind) for kind in ("history", "policy", "constant")}
        self._rows["context"] = list(range(inputs, inputs + config.context))  # of the head: it follows the channels

    def _rows_of(self, kind: str) -> list[int]:
        starts = np.cumsum([0] + [channel.width for channel in self.channels])
        return [row for channel, start in zip(self.channels, starts[:-1], strict=True) if channel.kind == kind
                for row in range(start, start + channel.width)]

    def load(self, phi: np.ndarray) -> None:
        """Takes the parameters of all lives from phi, [P, D] float32."""
        start = 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            self.parts[name].assign(phi[:, start : start + size].reshape(-1, *shape))
            start += size

    def _activate(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.leaky_relu(inputs, alpha=self.config.leaky_slope)

    def _kernel(self, name: str, *kinds: str) -> tf.Tensor:
        """Returns the rows (last axis but one) of a kernel that meet inputs of these kinds, in this order."""
        rows = [row for kind in kinds for row in self._rows[kind]]
        return tf.gather(self.parts[name], tf.constant(rows, tf.int32), axis=-2)  # there may be none

    def prepare(self, agent: Any, experience: Experience) -> Prepared:
        """Convolves the recorded channels."""
        del agent
        recorded = {"observation": experience.observation, "action": experience.action, "reward": experience.reward,
                    "termination": experience.termination}
        history = tf.concat([recorded[c.name] for c in self.channels if c.kind == "history"], axis=2)
        kernel = self._kernel("convolution_1/kernel", "history")
        convolved = parallel_convolution(history, kernel, self.config.strides[0])
        return Prepared(convolved, experience.observation, experience.observation[:, -self.update_period :],
                        history[:, -self.update_period :])

    def per_step(self, agent: Any, prepared: Prepared, steps: tf.Tensor) -> tf.Tensor:
        """Reduces the losses of a minibatch to [P]; gradient reaches the policy at all N steps, and the memory."""
        losses = self.call(prepared, agent.policy, agent.memory_output(), steps)
        return (tf.reduce_mean if self.config.reduction == "mean" else tf.reduce_sum)(losses, axis=1)

    def call(self, prepared: Prepared, policy: Any, memory: tf.Tensor | None, steps: tf.Tensor) -> tf.Tensor:
        """Scores steps one by one.

        Args:
          prepared: From `prepare`.
          policy: An `agents.policies.Policy`.
          memory: [P, units], or None without a memory unit.
          steps: [P, B] int, among the newest M.

        Returns:
          [P, B] losses L_i.
        """
        constants = tf.concat([policy.state_independent] + ([] if memory is None else [memory]), axis=1)[:, None]
        context = self._context(prepared.convolved, policy.seen_by_losses(prepared.observation), constants)
        recorded = tf.gather(prepared.newest_history, steps, batch_dims=1)
        answer = policy.seen_by_losses(tf.gather(prepared.newest_observation, steps, batch_dims=1))
        varying = tf.concat([recorded, answer], axis=2)
        hidden = tf.matmul(varying, self._kernel("head/kernel", "history", "policy"))
        hidden += tf.matmul(tf.concat([constants, context], axis=2), self._kernel("head/kernel", "constant", "context"))
        hidden = self._activate(hidden + self.parts["head/bias"][:, None])
        return parallel_dense(hidden, self.parts["output/kernel"], self.parts["output/bias"])[:, :, 0]

    def _context(self, convolved: tf.Tensor, answer: tf.Tensor, constants: tf.Tensor) -> tf.Tensor:
        """Finishes the convolutions: [P, T1, F1], [P, N, A], [P, 1, K] -> context [P, 1, 32]."""
        first, second = self.config.strides
        convolved += parallel_convolution(answer, self._kernel("convolution_1/kernel", "policy"), first)
        over_time = tf.reduce_sum(self._kernel("convolution_1/kernel", "constant"), axis=1)
        convolved += tf.matmul(constants, over_time) + self.parts["convolution_1/bias"][:, None]
        hidden = self._activate(convolved)
        hidden = parallel_convolution(hidden, self.parts["convolution_2/kernel"], second)
        hidden = self._activate(hidden + self.parts["convolution_2/bias"][:, None])
        if self.config.pooling == "mean":
            hidden = tf.reduce_mean(hidden, axis=1, keepdims=True)
        else:
            hidden = tf.reshape(hidden, [hidden.shape[0], 1, -1])
        return self._activate(parallel_dense(hidden, self.parts["context/kernel"], self.parts["context/bias"]))
