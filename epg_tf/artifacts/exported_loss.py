"""A learned loss for use outside this package: plain variables and functions of fixed, named
inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from epg_tf.artifacts.exported_start import ExportedStart
from epg_tf.core.loss_settings import LossConfig
from epg_tf.core.parameters import split
from epg_tf.core.types import Array
from epg_tf.losses.channels import CONSTANT, HISTORY, MINIBATCH, Channel
from epg_tf.losses.shared_conv import learned_network

Inputs = Mapping[str, tf.Tensor]


def input_specs(channels: Sequence[Channel], config: LossConfig) -> dict[str, tf.TensorSpec]:
    """Returns name -> shape and type of what an exported loss is given, for any number P of agents.

    Recorded, policy and scored channels are [P, N, width], oldest step first, constants [P,
    width], all float32; the minibatch is [P, B] int32, numbers of steps among the newest M.
    """

    def shape(channel: Channel) -> list[int | None]:
        return (
            [None, channel.width]
            if channel.kind == CONSTANT
            else [None, config.buffer_steps, channel.width]
        )

    specs = {
        channel.name: tf.TensorSpec(shape(channel), tf.float32, channel.name)
        for channel in channels
    }
    return specs | {MINIBATCH: tf.TensorSpec([None, None], tf.int32, MINIBATCH)}


class ExportedLoss(ExportedStart):
    """One learned loss that P agents share; each agent's loss depends on its own row alone.

    Args:
      phi: [D] float32.
      channels: Declared inputs, from `declared_channels`.
      config: Sizes, slopes, pooling.
      update_period: M.
      description: What `describe` returns, JSON.
      initial_policy: Name -> weights of the policy that agents start from; empty where evolution
        did not move it.

    Attributes:
      loss: Function of a dict of `input_specs` -> {"loss": [P], "per_step": [P, B]};
      differentiable.
      gradients: Function of the same -> gradients of each agent's loss with respect to the policy
        and constant channels, by input name.
      params: Name -> variable [1, ...], the weights of the loss.
    """

    def __init__(
        self,
        phi: Array,
        channels: Sequence[Channel],
        config: LossConfig,
        update_period: int,
        description: str,
        initial_policy: Mapping[str, Array] | None = None,
    ):
        super().__init__(initial_policy or {}, description, name="learned_loss")
        self._network = network = learned_network(channels, config, update_period)
        self._moved = [channel.name for channel in channels if channel.kind != HISTORY]
        self.params = {
            name: tf.Variable(values, trainable=False, name=name)
            for name, values in split(phi[None], network.shapes).items()
        }
        specs = [input_specs(channels, config)]
        self.loss = tf.function(self._loss, input_signature=specs, autograph=False)
        self.gradients = tf.function(self._gradients, input_signature=specs, autograph=False)

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Returns the named functions of the SavedModel."""
        functions = {"loss": self.loss, "gradients": self.gradients}
        own = {name: function.get_concrete_function() for name, function in functions.items()}
        return own | super().signatures()

    def _loss(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        per_step = self._network.losses(self.params, inputs)
        return {"loss": tf.reduce_mean(per_step, axis=1), "per_step": per_step}

    def _gradients(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        moved = {name: inputs[name] for name in self._moved}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(moved)
            total = tf.reduce_sum(self._loss({**inputs, **moved})["loss"])
        return tape.gradient(total, moved, unconnected_gradients="zero")
