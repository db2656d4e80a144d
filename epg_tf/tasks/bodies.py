"""Describes families of MuJoCo bodies: what is randomised, observed, rewarded, and when an episode
ends.

All methods that take `state` work on a whole population at once and on views into the simulation:
they read, and never keep, what they are given.
"""

from __future__ import annotations

import abc
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import gymnasium
import mujoco
import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.quantities import Task

GYMNASIUM_MODELS = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"

# Divergence is reported in results, and what is deprecated in Gymnasium's models is not the user's
# to change; MuJoCo would print both and write MUJOCO_LOG.TXT to the working directory. Errors are
# raised, not warned of.
mujoco.set_mju_user_warning(lambda message: None)


@dataclasses.dataclass(frozen=True)
class State:
    """Where P simulations stand; row i belongs to life i.

    Attributes:
      qpos: [P, nq] generalised positions.
      qvel: [P, nv] generalised velocities.
      goal: [P, G] what the family drew for the episode besides the start state (G may be 0).
      task: Name -> [P] or [P, size], the quantities of each life's task.
      sensed: Name -> [P, ...], the further fields of MjData that the family asked for.
    """

    qpos: Array
    qvel: Array
    goal: Array
    task: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    sensed: Mapping[str, Array] = dataclasses.field(default_factory=dict)

    def rows(self, ids: Array) -> State:
        """Returns the simulations `ids` alone (a copy)."""
        return State(
            self.qpos[ids],
            self.qvel[ids],
            self.goal[ids],
            {name: values[ids] for name, values in self.task.items()},
            {name: values[ids] for name, values in self.sensed.items()},
        )


class BodyFamily(TaskFamily):
    """Tasks around one MuJoCo body. A family of one's own: subclass it, see docs/own_family.md.

    Attributes:
      model_file: MJCF file of the unrandomised body.
      model: That body, compiled.
      goal_size: G, length of what `start` draws besides positions and velocities.
      expanded: Names of the model fields (MuJoCo names, "opt.gravity" style for options) that a
        task sets.
      sensed: Names of the fields of MjData, beyond qpos and qvel, that observing, rewarding or
        controlling needs. What MuJoCo computes (xpos, ...) is as after mj_step: of the state before
        the last physics step.
      settles: Whether `settle` is to be called after each env step.
    """

    default_frame_skip = 4
    model_file: pathlib.Path
    goal_size: int = 0
    expanded: tuple[str, ...] = ()
    sensed: tuple[str, ...] = ()
    settles: bool = False

    def __init__(self, frame_skip: int, episode_limit: int, task_range: str = "training"):
        super().__init__(frame_skip, episode_limit, task_range)
        self.model = mujoco.MjModel.from_xml_path(str(self.model_file))
        self.action_size = self.model.nu
        limited = self.model.actuator_ctrllimited.astype(bool)
        low, high = self.model.actuator_ctrlrange.T
        self.action_bounds = np.where(limited, low, -np.inf), np.where(limited, high, np.inf)

    @property
    def seconds_per_step(self) -> float:
        """Simulated seconds in one env step."""
        return self.model.opt.timestep * self.frame_skip

    def fields(self, task: Task) -> Mapping[str, Array]:
        """Returns a value for every model field in `expanded`, shaped as in the model."""
        del task
        return {}

    @abc.abstractmethod
    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the start of one episode in `task`: qpos [nq], qvel [nv], goal [G]."""

    def control(self, state: State, controls: Array, rows: Array, action: Array) -> None:
        """Writes clipped actions [K, A] of the simulations `rows` into `controls` [P, nu] (or into
        sensed inputs).
        """
        del state
        controls[rows] = action

    def settle(self, state: State, rows: Array) -> None:
        """Puts right, after each env step, what the physics may not move; derived fields then
        follow.
        """

    @abc.abstractmethod
    def observe(self, state: State) -> Array:
        """Returns observations [P, O], float64, sharing no memory with `state`."""

    @abc.abstractmethod
    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns rewards [P] of one env step from `before` to `after` under the clipped `action`
        [P, A].
        """

    def terminated(self, state: State) -> Array:
        """Returns [P] bool: True where the episode ends for good (a time limit is not an end)."""
        return np.zeros(len(state.qpos), bool)

    def succeeded(self, state: State) -> Array:
        """Returns [P] bool: True where the goal is reached just now."""
        return np.zeros(len(state.qpos), bool)

    def look(
        self, center: Sequence[float], extent: float, azimuth: float, elevation: float
    ) -> None:
        """Sets how a model without a camera is seen: what to look at and how much of it (m), from
        where (degrees).
        """
        self.model.stat.center[:], self.model.stat.extent = center, extent
        self.model.vis.global_.azimuth, self.model.vis.global_.elevation = azimuth, elevation

    def place(self, state: State) -> Array | None:
        """Returns where the bodies are on the ground, [P, 2] in m, or None where that says nothing;
        for pictures.
        """
        del state
        return None

    def marker(self, state: State) -> Array | None:
        """Returns where to mark the goal in pictures, [P, 3] in m, or None if the model shows it or
        there is none.
        """
        del state
        return None
