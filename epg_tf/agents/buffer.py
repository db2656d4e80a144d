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
        """[P] bool, True where the environment ended the episode."""

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
      goal_size: G, 0 where goals are not recorded.

    Attributes:
      steps: [P, N, O + A + 3] float32, the next five side by side.
      observation: [P, N, O].
      action: [P, N, A], as sampled.
      reward: [P, N].
      terminated: [P, N], 0 or 1.
      truncated: [P, N], 0 or 1.
      next_observation: [P, M, O] float32, of the newest M steps, never from the next episode.
      goal: [P, N, G] float32, where the goal was before the step (m).
      lived: [N] float32, 1 where a step has been lived, 0 in the padding.
      time_in_life: [N] float32, how many steps of the life came before, as a share of its length; 0
        in the padding, or if the length is not known.
    """

    def __init__(
        self,
        population: int,
        steps: int,
        update_period: int,
        spec: EnvironmentSpec,
        goal_size: int = 0,
    ):
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
        self.goal = np.zeros((population, steps, goal_size), np.float32)
        self.lived = np.zeros(steps, np.float32)
        self.time_in_life = np.zeros(steps, np.float32)
        self._written = 0
        self._life_steps = 0

    def clear(self, life_steps: int = 0) -> None:
        """Fills the buffer with N zero tuples (Algorithm 2, line 1).

        Args:
          life_steps: U, env steps of the life that begins; 0: not known.
        """
        for array in (self.steps, self.goal, self.lived, self.time_in_life):
            array[:] = 0.0
        self._written, self._life_steps = 0, life_steps

    def make_room(self) -> None:
        """Drops the oldest M rows, so that the newest M can be written."""
        period = self.update_period
        self.steps[:, :-period] = self.steps[:, period:]
        self.goal[:, :-period] = self.goal[:, period:]
        for array in (self.lived, self.time_in_life):
            array[:-period] = array[period:]
        self.lived[-period:] = 1.0
        if self._life_steps:
            numbers = np.arange(self._written, self._written + period)
            self.time_in_life[-period:] = numbers / self._life_steps
        self._written += period

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
        """Marks the newest step as cut by a time limit, unless its episode terminated."""
        self.truncated[:, -1] = 1.0 - self.terminated[:, -1]

    def newest(self) -> Array:
        """Returns a view [P, M, O + A + 1] of the newest observations, actions, rewards."""
        return self.steps[:, -self.update_period :, :-2]
