"""A learned loss for use outside this package: plain variables and functions of fixed, named
inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from epg_tf.core.experiment import LossConfig
from epg_tf.core.types import Array
from epg_tf.losses.contract import Channel
from epg_tf.losses.temporal_conv import TemporalConv, reduced, split

Inputs = Mapping[str, tf.Tensor]

MINIBATCH = "minibatch"  # the one input that is no channel


def input_specs(channels: Sequence[Channel], config: LossConfig) -> dict[str, tf.TensorSpec]:
    """Returns name -> shape and type of what an exported loss is given, for any number P of agents.

    Recorded channels and the policy's answers are [P, N, width], oldest step first, constants [P,
    width], all float32; the minibatch is [P, B] int32, numbers of steps among the newest M.
    """

    def shape(channel: Channel) -> list[int | None]:
        return (
            [None, channel.width]
            if channel.kind == "constant"
            else [None, config.buffer_steps, channel.width]
        )

    specs = {
        channel.name: tf.TensorSpec(shape(channel), tf.float32, channel.name)
        for channel in channels
    }
    return specs | {MINIBATCH: tf.TensorSpec([None, None], tf.int32, MINIBATCH)}


class ExportedLoss(tf.Module):
    """One learned loss that P agents share; each agent's answer depends on its own row alone.

    Args:
      phi: [D] float32.
      channels: Declared inputs, from `declared_channels`.
      config: Sizes, slopes, pooling, reduction.
      update_period: M.
      description: What `describe` returns, JSON.

    Attributes:
      loss: Function of a dict of `input_specs` -> {"loss": [P], "per_step": [P, B]};
      differentiable.
      gradients: Function of the same -> gradients of each agent's loss with respect to what the
        policy answers and to what its states share, by input name.
      describe: Function of nothing -> {"json": the description}.
    """

    def __init__(
        self,
        phi: Array,
        channels: Sequence[Channel],
        config: LossConfig,
        update_period: int,
        description: str,
    ):
        super().__init__(name="learned_loss")
        self._network = TemporalConv(channels, config, update_period)
        self._moved = [channel.name for channel in channels if channel.kind != "history"]
        self._description = description
        self.parts = {
            name: tf.Variable(part[0], trainable=False, name=name)
            for name, part in split(phi[None], self._network.shapes).items()
        }
        specs = [input_specs(channels, config)]
        self.loss = tf.function(self._loss, input_signature=specs)
        self.gradients = tf.function(self._gradients, input_signature=specs)
        self.describe = tf.function(self._describe, input_signature=[])

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Returns the named functions of the SavedModel."""
        return {
            name: getattr(self, name).get_concrete_function()
            for name in ("loss", "gradients", "describe")
        }

    def _loss(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        network, steps = self._network, inputs[MINIBATCH]
        parts = {name: part[None] for name, part in self.parts.items()}
        (answers,) = (
            inputs[channel.name] for channel in network.channels if channel.kind == "policy"
        )
        scored = tf.gather(answers[:, -network.update_period :], steps, batch_dims=1)
        constants = [
            inputs[channel.name] for channel in network.channels if channel.kind == "constant"
        ]
        constants = tf.concat(constants or [tf.zeros([tf.shape(steps)[0], 0])], axis=1)
        prepared = network.prepare(parts, inputs)
        per_step = network.per_step(parts, prepared, answers, scored, constants, steps)
        return {"loss": reduced(per_step, network.config.reduction), "per_step": per_step}

    def _gradients(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        moved = {name: inputs[name] for name in self._moved}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(moved)
            total = tf.reduce_sum(self._loss(inputs | moved)["loss"])
        return tape.gradient(total, moved, unconnected_gradients="zero")

    def _describe(self) -> dict[str, tf.Tensor]:
        return {"json": tf.constant(self._description)}
