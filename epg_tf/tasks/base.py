"""Says what a task family is: a body, what is randomised about it, what is observed, rewarded and when it ends.

A family describes; `physics.Simulation` steps it. All methods that take `state` work on a whole population at once and
on views into the simulation: they read, and never keep, what they are given.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping

import mujoco
import numpy as np

Task = Mapping[str, np.ndarray]
"""What distinguishes one MDP of a family: named arrays, e.g. {"mass": [nbody], "gravity": [3]}."""


@dataclasses.dataclass(frozen=True)
class State:
    """Where P simulations stand; row i belongs to life i.

    Attributes:
      qpos: [P, nq] generalised positions.
      qvel: [P, nv] generalised velocities.
      goal: [P, G] what the family drew for the episode besides the start state (G may be 0).
    """

    qpos: np.ndarray
    qvel: np.ndarray
    goal: np.ndarray

    def rows(self, ids: np.ndarray) -> State:
        """Returns the simulations `ids` alone (a copy)."""
        return State(self.qpos[ids], self.qvel[ids], self.goal[ids])


class TaskFamily(abc.ABC):
    """A distribution p(M) over MDPs that share sizes, observation, reward and end.

    Attributes:
      name: Name in the registry.
      discrete_actions: Whether an action is one of `action_size` choices, given as a one-hot row.
      model: MuJoCo model of the unrandomised body.
      frame_skip: Physics steps in one env step, >= 1.
      episode_limit: Env steps after which an episode is truncated, >= 1.
      randomize: False makes every task the unrandomised body.
      observation_size: O.
      action_size: A; actions are clipped to the model's control range.
      goal_size: G, length of what `start` draws besides positions and velocities.
      expanded: Names of the model fields (MuJoCo names, "opt.gravity" style for options) that a task sets.
    """

    name: str
    discrete_actions: bool = False
    observation_size: int
    goal_size: int = 0
    expanded: tuple[str, ...] = ()

    def __init__(self, model: mujoco.MjModel, frame_skip: int, episode_limit: int, randomize: bool):
        self.model = model
        self.frame_skip = frame_skip
        self.episode_limit = episode_limit
        self.randomize = randomize
        self.action_size = model.nu

    @property
    def seconds_per_step(self) -> float:
        """Simulated seconds in one env step."""
        return self.model.opt.timestep * self.frame_skip

    @abc.abstractmethod
    def sample_task(self, generator: np.random.Generator) -> Task:
        """Draws one task: a value for every field in `expanded`, shaped as in the model."""

    @abc.abstractmethod
    def start(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws the start of one episode: qpos [nq], qvel [nv], goal [G]."""

    @abc.abstractmethod
    def observe(self, state: State) -> np.ndarray:
        """Returns observations [P, O], float64, sharing no memory with `state`."""

    @abc.abstractmethod
    def reward(self, before: State, after: State, action: np.ndarray) -> np.ndarray:
        """Returns rewards [P] of one env step from `before` to `after` under the clipped `action` [P, A]."""

    @abc.abstractmethod
    def terminated(self, state: State) -> np.ndarray:
        """Returns [P] bool: True where the episode ends for good (a time limit is not an end)."""
