"""Computes MAML's gradients as pure functions of weights and samples (Finn et al. 2017).

The inner loss is REINFORCE's (Eq. 4), its step plain gradient descent (Algorithm 3, line 7). The
outer loss is PPO's on samples of the adapted policies: several steps on the same samples need a
bound on the change, and PPO's clip is the one that this package has (Finn et al. use TRPO). As in
their code, the dependence of the first samples on the first policy gets no gradient of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from epg_tf.agents.functional_policy import FunctionalPolicy
from epg_tf.agents.policies import Policy, policy_class
from epg_tf.agents.settings import PolicyConfig
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.settings import SurrogateConfig
from epg_tf.losses.surrogates import ProximalPolicyOptimization, Reinforce, Targets

_REINFORCE = Reinforce(SurrogateConfig(kind="reinforce"))


class _Agents(NamedTuple):
    """What surrogates use of P agents; MAML's have no memory and no value network."""

    policy: FunctionalPolicy

    def value(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns zeros [P, T]: values belong to the linear baseline, which gets no gradient."""
        return tf.zeros_like(observation[:, :, 0])

    def memory_output(self) -> tf.Tensor | None:
        """Returns None."""
        return None


def adapted(
    policy: Policy, weights: Sequence[tf.Tensor], batches: Sequence[Targets], learning_rate: float
) -> list[tf.Tensor]:
    """Returns weights after one gradient step for each batch, differentiably in the weights.

        theta <- theta - alpha * gradient of mean(-A log pi_theta(a | s))

    Args:
      policy: Says what the networks are.
      weights: Of P policies, [P, ...] each, in the order of `Policy.variables_in_order`.
      batches: Samples of the policies before each step, oldest first.
      learning_rate: alpha, of gradient descent.
    """
    current = list(weights)
    for samples in batches:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(current)
            total = tf.reduce_sum(_loss(_REINFORCE, policy, current, samples))
        gradients = tape.gradient(
            total, current, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        current = [
            part - learning_rate * gradient
            for part, gradient in zip(current, gradients, strict=True)
        ]
    return current


def meta_gradient(
    policy: Policy,
    weights: Sequence[tf.Tensor],
    batches: Sequence[Targets],
    after: Targets,
    learning_rate: float,
    clip: float,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Returns the outer loss of each life, [P], and its gradients in that life's weights.

    The gradient in an initialisation that all lives share is the sum of the rows.

    Args:
      policy: Says what the networks are.
      weights: The initialisation, repeated for P lives: [P, ...] each.
      batches: Samples before each gradient step, oldest first.
      after: Samples of the adapted policies, with what these policies put out.
      learning_rate: alpha, of gradient descent.
      clip: Of PPO's probability ratio.
    """
    outer = ProximalPolicyOptimization(
        SurrogateConfig(clip=clip, kl_coefficient=0.0, value_coefficient=0.0)
    )
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(weights)
        losses = _loss(outer, policy, adapted(policy, weights, batches, learning_rate), after)
        total = tf.reduce_sum(losses)
    return losses, tape.gradient(total, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def _loss(
    surrogate: Reinforce | ProximalPolicyOptimization,
    policy: Policy,
    weights: Sequence[tf.Tensor],
    samples: Targets,
) -> tf.Tensor:
    """Returns the mean loss of all samples of each life, [P]."""
    population, steps = samples.advantage.shape
    every = tf.tile(tf.range(steps)[None], [population, 1])
    agents = _Agents(FunctionalPolicy(policy, weights))
    return surrogate.minibatch_loss(agents, samples, every)


class Compiled(NamedTuple):
    """The functions above for policies of one kind, compiled; they take and return [P, ...].

    Attributes:
      adapted: Maps weights and batches to new weights.
      meta_gradient: Maps weights, batches and samples of the adapted policies to losses and
        gradients.
      outputs: Maps weights and normalised observations to the policies' outputs and what all
        states share.
    """

    adapted: Callable[..., Any]
    meta_gradient: Callable[..., Any]
    outputs: Callable[..., Any]


@functools.cache
def compiled(
    spec: EnvironmentSpec, config: PolicyConfig, learning_rate: float, clip: float
) -> Compiled:
    """Returns the functions for policies of these settings, the same ones at every call."""
    policy = policy_class(spec, config)(1, spec, config)

    def outputs(weights: Sequence[tf.Tensor], observation: tf.Tensor) -> tuple[tf.Tensor, ...]:
        functional = FunctionalPolicy(policy, weights)
        return functional(observation), functional.shared_output

    return Compiled(
        tf.function(
            lambda weights, batches: adapted(policy, weights, batches, learning_rate),
            autograph=False,
        ),
        tf.function(
            lambda weights, batches, after: meta_gradient(
                policy, weights, batches, after, learning_rate, clip
            ),
            autograph=False,
        ),
        tf.function(outputs, autograph=False),
    )
