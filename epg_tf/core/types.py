"""Holds the legend of axes and the records that modules pass to each other.

Axes, cited by these letters everywhere (paper letters in brackets):

    W  lives per epoch (W)                 N  steps in the loss's buffer (N)
    V  noise vectors per epoch (V)         M  env steps between updates (M)
    L  lives that one call runs            U  env steps in a life (U)
    P  lives in one shard, in lockstep     B  steps in a minibatch (32), chunks in a batch
    O  observation size                    S  minibatches in an update
    A  action size                         T  steps of any number, consecutive in time
    G  size of an episode's goal           C  channels of the loss
    K  rows or quantities, where said      D  parameters of the loss (dim phi)

A *life* is one inner loop: a fresh agent, one sampled task, U env steps, one loss. An *env step* is
one agent action. Returns are maximised, losses minimised.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""A NumPy array; docstrings say its shape and type."""


@dataclasses.dataclass(frozen=True)
class EnvironmentSpec:
    """Holds the sizes of an environment that agents and losses depend on.

    Attributes:
      observation_size: O.
      action_size: A, components of an action, or the number of choices.
      discrete_actions: Whether an action is one of A choices, given as a one-hot row, or one choice
        in each of several parts, given as their rows side by side.
      turning: What a turn of the world about the vertical does to observations: (i, j, share) means
        that components i and j turn by that share of the angle, 1 for the x and y of a vector, 1/2
        for the w and z, and the x and y, of a quaternion. The first is the velocity; empty where
        it is not known.
      action_parts: How many choices each part of a discrete action has, together A; empty where it
        is one number.
    """

    observation_size: int
    action_size: int
    discrete_actions: bool = False
    turning: tuple[tuple[int, int, float], ...] = ()
    action_parts: tuple[int, ...] = ()

    @property
    def choices(self) -> tuple[int, ...]:
        """Returns how many choices each part of a discrete action has; (A,) without parts."""
        return self.action_parts or (self.action_size,)


@dataclasses.dataclass(frozen=True)
class LifeKey:
    """Names the random streams of one life.

    Two lives with the same key share task, policy initialisation, action noise, resets and
    minibatch order; they differ only in the loss that they minimise.

    Attributes:
      seed: The run's seed, >= 0.
      phase: What the life is for, one of `random_streams.PHASES`; tasks of different phases never
        coincide.
      epoch: Epoch of evolution, >= 0 (0 outside evolution).
      index: Number within the epoch, >= 0. Outside evolution each life has its own; in evolution
        several lives share one with common random numbers or where `evolution.tasks` is set.
    """

    seed: int
    phase: str
    epoch: int
    index: int


class SavedAgent(NamedTuple):
    """What a life that goes on where another ended takes over; its value network, buffer and
    optimiser begin afresh.

    Attributes:
      weights: [K] float32, of the policy, then of the memory, see `Agent.weights_of`.
      moments: [1 + 2 (O + A + 1)] float64, of the normalisation, see `normalizer.packed`.
    """

    weights: Array
    moments: Array


@dataclasses.dataclass(frozen=True)
class LifeOutcomes:
    """What evolution uses of L lives; row i belongs to life i.

    Attributes:
      final_return: [L] mean return of the final episodes, or of those used in their place; NaN
        where the life failed.
      success: [L] share of those episodes that ended at the goal; NaN in families without a goal to
        reach.
      failed: [L] bool, True where physics diverged or a gradient was not finite.
      env_steps: [L] int, env steps taken, final episodes included.
      goals_reached: [L] how many episodes of the life itself ended at the goal; NaN in families
        without one.
      memory_norm: [L] Euclidean norm of the weights of the final agent's memory; NaN without one.
      means_beyond: [L] share of the components of the final policy's mean actions that are beyond
        the bounds of actions, at the newest M env steps of the life; NaN where actions are
        discrete, or without such steps.
      final_agent: [L] objects, the `SavedAgent` of a life that was to be kept, None of others.
    """

    final_return: Array
    success: Array
    failed: Array
    env_steps: Array
    goals_reached: Array = dataclasses.field(kw_only=True)
    memory_norm: Array = dataclasses.field(kw_only=True)
    means_beyond: Array = dataclasses.field(kw_only=True)
    final_agent: Array = dataclasses.field(kw_only=True)

    def __len__(self) -> int:
        return len(self.final_return)


@dataclasses.dataclass(frozen=True)
class LifeResults(LifeOutcomes):
    """All that is measured in L lives; row i belongs to life i. Adds to `LifeOutcomes`:

    Attributes:
      episode_return: [L, updates] return of the newest episode finished by each update, NaN before
        the first.
      kl: [L, updates] mean KL divergence (nats) between the policies before and after each update;
        NaN if not measured.
      policy_hash: [L] str, SHA-256 of the final policy's and memory's parameters.
    """

    episode_return: Array
    kl: Array
    policy_hash: Array

    def head(self, count: int) -> LifeResults:
        """Returns the first `count` lives."""
        return self.take(np.arange(count))

    def take(self, rows: Array) -> LifeResults:
        """Returns the lives of these rows, in their order.

        Args:
          rows: int.
        """
        return LifeResults(
            **{f.name: getattr(self, f.name)[rows] for f in dataclasses.fields(self)}
        )

    @staticmethod
    def join(results: Sequence[LifeResults]) -> LifeResults:
        """Returns the lives of all results, in order."""
        names = [f.name for f in dataclasses.fields(LifeResults)]
        return LifeResults(
            **{
                name: np.concatenate([getattr(result, name) for result in results])
                for name in names
            }
        )
