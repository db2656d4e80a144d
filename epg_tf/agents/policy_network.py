"""The network of policies: a multilayer perceptron, which may also see products of pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from epg_tf.core.parallel_layers import parallel_mlp
from epg_tf.core.products import products_of_pairs


def policy_network(
    observation: tf.Tensor,
    weights: Sequence[tuple[tf.Tensor, tf.Tensor]],
    activation: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Returns the policy_output of P policies, [P, T, A].

    Args:
      observation: [P, T, O], normalised.
      weights: (kernel [P, in, out], bias [P, out]) of each layer, from input to output. The first
        kernel has O inputs, or, with `config.policy.observation_pairs`, as many more as there are
        products of pairs of components.
      activation: Between layers.
    """
    if weights[0][0].shape[1] != observation.shape[-1]:
        observation = tf.concat([observation, products_of_pairs(observation)], axis=-1)
    return parallel_mlp(observation, weights, activation)
