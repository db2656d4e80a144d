"""The N newest steps of P lives, oldest first, as plain arrays."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from epg_tf.core.types import Array, EnvironmentSpec


class Step(Protocol):
    """One env step of P lives, as a simulation returns it; `tasks.base.StepResult` is one."""

    @property
    def observation(self) -> Array:
        """[P, O], after the step, never from the next episode."""

    @property
    def reward(self) -> Array:
        """[P]."""

    @property
    def terminated(self) -> Array:
        """[P] bool, True where the episode ended for good."""

    @property
    def truncated(self) -> Array:
        """[P] bool, True where a time limit cut it."""


class Buffer:
    """Holds raw experience; rows of steps that no life has reached yet are zero.

    Args:
      population: P.
      steps: N.
      update_period: M; the newest M rows are the ones being filled.
      spec: Sizes of observations and actions.

    Attributes:
      steps: [P, N, O + A + 3] float32, all that follows but the last two, side by side.
      observation: [P, N, O].
      action: [P, N, A], as sampled.
      reward: [P, N].
      terminated: [P, N], 0 or 1.
      truncated: [P, N], 0 or 1.
      next_observation: [P, M, O] float32, of the newest M steps, never from the next episode.
      lived: [N] float32, 1 where a step has been lived, 0 in the padding.
    """

    def __init__(self, population: int, steps: int, update_period: int, spec: EnvironmentSpec):
        observation_size = spec.observation_size
        acted = observation_size + spec.action_size
        self.update_period = update_period
        self.steps = np.zeros((population, steps, acted + 3), np.float32)
        self.observation = self.steps[:, :, :observation_size]
        self.action = self.steps[:, :, observation_size:acted]
        self.reward = self.steps[:, :, acted]
        self.terminated = self.steps[:, :, acted + 1]
        self.truncated = self.steps[:, :, acted + 2]
        self.next_observation = np.zeros((population, update_period, observation_size), np.float32)
        self.lived = np.zeros(steps, np.float32)

    def clear(self) -> None:
        """Fills the buffer with N zero tuples (Algorithm 2, line 1)."""
        self.steps[:] = 0.0
        self.lived[:] = 0.0

    def make_room(self) -> None:
        """Drops the oldest M rows, so that the newest M can be written."""
        period = self.update_period
        self.steps[:, :-period] = self.steps[:, period:]
        self.lived[:-period] = self.lived[period:]
        self.lived[-period:] = 1.0

    def write(self, step: int, observation: Array, action: Array, result: Step) -> None:
        """Records step number `step` of the newest M.

        Args:
          step: 0 to M - 1.
          observation: [P, O], before the step.
          action: [P, A].
          result: Of all P lives.
        """
        row = step - self.update_period
        self.observation[:, row] = observation
        self.action[:, row] = action
        self.reward[:, row] = result.reward
        self.terminated[:, row] = result.terminated
        self.truncated[:, row] = result.truncated
        self.next_observation[:, step] = result.observation

    def cut(self) -> None:
        """Marks the newest step as cut by a time limit, unless its episode ended for good."""
        self.truncated[:, -1] = 1.0 - self.terminated[:, -1]

    def newest(self) -> Array:
        """Returns a view [P, M, O + A + 1] of the newest observations, actions, rewards."""
        return self.steps[:, -self.update_period :, :-2]
