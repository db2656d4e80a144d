"""A learned loss for any body: one temporal-convolutional network for all components of an action.

MetaGenRL's objective shares the weights that meet components of an action and averages what they
give (Kirsch et al. 2019, Appendix B.1); it sees no observations. EPG's loss has parameters for each
component and each dimension. Here, for component d of the action,

    f_k(o)  = mean over j of leaky relu(w_k o_j + b_k)
    x_i,d   = features f(o_i), a_i,d, [reward,] termination, mean_d, log_std_d, memory, further ones
    L_i     = sum over d of head(x_i,d, context of component d)

with the same parameters for all j and d. So phi fits any O and A, and the loss stays the same where
dimensions of observations, or components of actions, change places. Features of pairs (o_j, a_d)
would add little: where they are products of powers, the average over j is a power of a_d times an
average over j alone, which the head's units can multiply. The sum over d makes a policy gradient,
whose log probability is a sum over d, one of these losses.

The components stand beside each other on the population axis, [P A, ...].
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import tensorflow as tf

from epg_tf.core.parameters import Params
from epg_tf.losses.channels import (
    BY_COMPONENT,
    CONSTANT,
    FEATURES,
    HISTORY,
    Channel,
    network_channels,
)
from epg_tf.losses.settings import LossConfig
from epg_tf.losses.temporal_conv import (
    PolicyChannels,
    RecordedHistory,
    TemporalConv,
    TemporalConvLoss,
)


@dataclasses.dataclass(frozen=True)
class SharedConv(TemporalConv):
    """The network as a pure function of (params, inputs) of a body, whatever its sizes.

    Attributes:
      channels: Declared inputs of the body, from `declared_channels`.
    """

    @functools.cached_property
    def _one(self) -> TemporalConv:
        """Returns the network of one component."""
        channels = network_channels(self.channels, self.config)
        return TemporalConv(channels, self.config, self.update_period)

    @functools.cached_property
    def _components(self) -> int:
        """Returns A."""
        return next(channel.width for channel in self.channels if channel.name == "action")

    def prepare(self, params: Params, inputs: Mapping[str, tf.Tensor]) -> RecordedHistory:
        """Convolves the recorded channels, of each component; [P A, ...].

        Args:
          params: The weights.
          inputs: Name -> [P, N, width] of the body's history channels; others are ignored.
        """
        recorded = {name: inputs[name] for name in self.names(HISTORY)}
        recorded[FEATURES] = self._features(params, recorded.pop("observation"))
        apart = {
            name: self._apart(values) if name in BY_COMPONENT else self._alike(values)
            for name, values in recorded.items()
        }
        return self._one.prepare(self._params_of_all(params), apart)

    def per_step(
        self, params: Params, recorded: RecordedHistory, policy: PolicyChannels, steps: tf.Tensor
    ) -> tf.Tensor:
        """Scores steps one by one; see `TemporalConv.per_step`."""
        components = self._components
        own = components if "policy_log_std" in self.names(CONSTANT) else 0
        log_std, memory = policy.constants[:, :own], self._alike(policy.constants[:, own:])
        apart = PolicyChannels(
            buffered=self._apart(policy.buffered),
            scored=self._apart(policy.scored),
            constants=tf.concat([tf.reshape(log_std, [-1, 1]), memory], axis=1) if own else memory,
            log_prob=None if policy.log_prob is None else self._apart(policy.log_prob),
        )
        losses = self._one.per_step(
            self._params_of_all(params), recorded, apart, self._alike(steps)
        )
        return tf.reduce_sum(tf.reshape(losses, [-1, components, tf.shape(steps)[1]]), axis=1)

    def _features(self, params: Params, observation: tf.Tensor) -> tf.Tensor:
        """Averages functions of one dimension over dimensions: [P, N, O] -> [P, N, K]."""
        kernel = params[f"{FEATURES}/kernel"][:, :, None]
        bias = params[f"{FEATURES}/bias"][:, None, None]
        return tf.reduce_mean(self._activate(observation[..., None] * kernel + bias), axis=2)

    def _params_of_all(self, params: Params) -> Params:
        """Repeats the biases of each life for its components; a kernel serves all of them as it is
        (`parallel_matmul`), and so do weights of all lives.
        """
        return {
            name: self._alike(values) if values.shape[0] > 1 and "/bias" in name else values
            for name, values in params.items()
        }

    def _alike(self, values: tf.Tensor) -> tf.Tensor:
        """Gives all components the same: [P, ...] -> [P A, ...]."""
        return tf.repeat(values, self._components, axis=0)

    def _apart(self, values: tf.Tensor) -> tf.Tensor:
        """Gives each component its own, of each of K quantities: [P, T, K A] -> [P A, T, K]."""
        steps, components = tf.shape(values)[1], self._components
        apart = tf.reshape(values, [-1, steps, values.shape[2] // components, components])
        return tf.reshape(tf.transpose(apart, [0, 3, 1, 2]), [-1, steps, apart.shape[2]])


class SharedConvLoss(TemporalConvLoss):
    """P learned losses side by side, each shared over the components of an action."""

    network_class = SharedConv


def learned_network(
    channels: Sequence[Channel], config: LossConfig, update_period: int
) -> TemporalConv:
    """Returns the network that the settings mean."""
    return _loss_class(config).network_class(tuple(channels), config, update_period)


def learned_loss(
    population: int, channels: Sequence[Channel], config: LossConfig, update_period: int
) -> TemporalConvLoss:
    """Returns P losses side by side of the kind that the settings mean."""
    return _loss_class(config)(population, channels, config, update_period)


def _loss_class(config: LossConfig) -> type[TemporalConvLoss]:
    return SharedConvLoss if config.shared_over_actions else TemporalConvLoss
