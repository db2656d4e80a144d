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
      observation: [P, N, O] float32.
      action: [P, N, A] float32, as sampled.
      reward: [P, N] float32.
      terminated: [P, N] float32, 0 or 1.
      truncated: [P, N] float32, 0 or 1.
      next_observation: [P, M, O] float32, of the newest M steps, never from the next episode.
      lived: [N] float32, 1 where a step has been lived, 0 in the padding.
    """

    def __init__(self, population: int, steps: int, update_period: int, spec: EnvironmentSpec):
        observation_size = spec.observation_size
        action_size = spec.action_size
        self.update_period = update_period
        self.observation = np.zeros((population, steps, observation_size), np.float32)
        self.action = np.zeros((population, steps, action_size), np.float32)
        self.reward = np.zeros((population, steps), np.float32)
        self.terminated = np.zeros((population, steps), np.float32)
        self.truncated = np.zeros((population, steps), np.float32)
        self.next_observation = np.zeros((population, update_period, observation_size), np.float32)
        self.lived = np.zeros(steps, np.float32)
        self._history = (
            self.observation,
            self.action,
            self.reward,
            self.terminated,
            self.truncated,
        )

    def clear(self) -> None:
        """Fills the buffer with N zero tuples (Algorithm 2, line 1)."""
        for array in (*self._history, self.lived):
            array[:] = 0.0

    def make_room(self) -> None:
        """Drops the oldest M rows, so that the newest M can be written."""
        period = self.update_period
        for array in self._history:
            array[:, :-period] = array[:, period:]
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

    def newest(self) -> Array:
        """Returns the newest M observations, actions, rewards side by side, [P, M, O + A + 1]."""
        period = self.update_period
        newest: Array = np.concatenate(
            [
                self.observation[:, -period:],
                self.action[:, -period:],
                self.reward[:, -period:, None],
            ],
            axis=2,
        )
        return newest
