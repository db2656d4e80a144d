"""Defines families of MuJoCo bodies: what is randomised, observed, rewarded, and ends an episode.

All methods that take `state` work on a whole population at once. They receive views into the
simulation: they may read them during the call, and must not keep them.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence

import gymnasium
import mujoco
import numpy as np

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.tasks.base import TaskFamily, usable_bounds
from epg_tf.tasks.quantities import Task

GYMNASIUM_MODELS = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"

# MuJoCo would print warnings and write MUJOCO_LOG.TXT to the working directory. Results already
# report divergence, and users cannot change what is deprecated in Gymnasium's models. Errors are
# raised and stay visible.
mujoco.set_mju_user_warning(lambda message: None)


@dataclasses.dataclass(frozen=True)
class State:
    """Holds the state of P simulations; row i belongs to life i.

    Attributes:
      qpos: [P, nq] generalised positions.
      qvel: [P, nv] generalised velocities.
      goal: [P, G] what the family drew for the episode besides the start state (G may be 0).
      task: Name -> [P] or [P, size], the quantities of each life's task.
      sensed: Name -> [P, ...], the further fields of MjData that the family requests.
      found: What `once` has computed of this state; None where the state may still change.
    """

    qpos: Array
    qvel: Array
    goal: Array
    task: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    sensed: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    found: dict[str, Array] | None = None

    def once(self, name: str, compute: Callable[[State], Array]) -> Array:
        """Returns compute(state), computed once an env step for all methods of a family.

        Args:
          name: Of the quantity; in a state it names one alone.
          compute: Of the state.
        """
        if self.found is None:
            return compute(self)
        if name not in self.found:
            self.found[name] = compute(self)
        return self.found[name]

    def rows(self, ids: Array) -> State:
        """Returns a copy of the simulations `ids`."""
        return State(
            self.qpos[ids],
            self.qvel[ids],
            self.goal[ids],
            {name: values[ids] for name, values in self.task.items()},
            {name: values[ids] for name, values in self.sensed.items()},
            {},
        )


@dataclasses.dataclass(frozen=True)
class CoarsePhysics:
    """Physics that is faster than a body's own, and near enough to it to evolve a loss in.

    Attributes:
      integrator: Of MuJoCo; `implicitfast` evaluates the dynamics once a physics step, RK4 four
        times.
      timestep_factor: Times the body's own timestep, at most; >= 1. An env step takes the fewest
        physics steps of equal length that are no longer.

    Raises:
      ConfigError: The factor is below 1.
    """

    integrator: mujoco.mjtIntegrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    timestep_factor: float = 1.0

    def __post_init__(self) -> None:
        """Checks the factor."""
        if not self.timestep_factor >= 1.0:
            raise ConfigError(
                f"CoarsePhysics(timestep_factor={self.timestep_factor}): coarse timesteps are no "
                "shorter than the body's own; choose at least 1"
            )


class BodyFamily(TaskFamily):
    """Describes tasks around one MuJoCo body; docs/own_family.md shows how to write a subclass.

    Attributes:
      model_file: MJCF file of the unrandomised body; a relative path starts at the folder of the
        file that sets it.
      model: That body, compiled.
      goal_size: G, length of what `start` draws besides positions and velocities.
      expanded: Names of the model fields (MuJoCo names, "opt.gravity" style for options) that a
        task sets.
      sensed: Names of the fields of MjData, besides qpos and qvel, that observing, rewarding or
        controlling needs. Fields that MuJoCo computes (xpos, ...) are as after mj_step: they belong
        to the state before the last physics step.
      settles: Whether `settle` is called after each env step.
      coarse: Physics to evolve in; None where only the body's own is known to do.
      physics_steps: Physics steps in one env step: `frame_skip`, fewer in coarse physics.
    """

    default_frame_skip = 4
    how_to_bound = "give its actuators a ctrlrange"
    model_file: pathlib.Path
    goal_size: int = 0
    expanded: tuple[str, ...] = ()
    sensed: tuple[str, ...] = ()
    settles: bool = False
    coarse: CoarsePhysics | None = None

    def __init__(self, frame_skip: int, episode_limit: int, task_range: str = "training"):
        super().__init__(frame_skip, episode_limit, task_range)
        self.model_file = _model_path(self)
        self.model = mujoco.MjModel.from_xml_path(str(self.model_file))
        self.physics_steps = frame_skip
        self.action_size = self.model.nu
        limited = self.model.actuator_ctrllimited.astype(bool)
        low, high = self.model.actuator_ctrlrange.T
        self.action_bounds = usable_bounds(
            np.where(limited, low, -np.inf), np.where(limited, high, np.inf)
        )

    @property
    def seconds_per_step(self) -> float:
        """Returns the simulated seconds in one env step."""
        return self.model.opt.timestep * self.physics_steps

    @property
    def has_coarse_physics(self) -> bool:
        """Whether the family declares coarse physics."""
        return self.coarse is not None

    def use_coarse_physics(self) -> None:
        """Replaces integrator and timestep by the coarse ones, before anything is simulated.

        An env step takes as many seconds as before.

        Raises:
          ConfigError: The family declares no coarse physics.
        """
        if self.coarse is None:
            super().use_coarse_physics()
            return
        self.physics_steps = math.ceil(self.frame_skip / self.coarse.timestep_factor)
        self.model.opt.timestep *= self.frame_skip / self.physics_steps
        self.model.opt.integrator = self.coarse.integrator

    def fields(self, task: Task) -> Mapping[str, Array]:
        """Returns a value for every model field in `expanded`, shaped as in the model."""
        del task
        return {}

    @abc.abstractmethod
    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the start of one episode in `task`: qpos [nq], qvel [nv], goal [G]."""

    def control(self, state: State, controls: Array, rows: Array, action: Array) -> None:
        """Writes clipped actions to the simulations.

        Args:
          state: Of all P simulations; sensed inputs (mocap_pos, ...) may be written.
          controls: [P, nu], written here.
          rows: [K] simulations to control.
          action: [K, A].
        """
        del state
        controls[rows] = action

    def settle(self, state: State, rows: Array) -> None:
        """Overwrites positions of `rows` after an env step where the task fixes them.

        MuJoCo then computes derived fields again. It is called only if `settles` is True.
        """

    @abc.abstractmethod
    def observe(self, state: State) -> Array:
        """Returns observations [P, O], float64, that share no memory with `state`."""

    @abc.abstractmethod
    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns rewards [P] of one env step under the clipped `action` [P, A]."""

    def terminated(self, state: State) -> Array:
        """Returns [P] bool: True where the episode terminates (a time limit only truncates)."""
        return np.zeros(len(state.qpos), bool)

    def succeeded(self, state: State) -> Array:
        """Returns [P] bool: True where the goal is reached in this state."""
        return np.zeros(len(state.qpos), bool)

    def set_view(
        self, center: Sequence[float], extent: float, azimuth: float, elevation: float
    ) -> None:
        """Sets the view of a model without a camera.

        Args:
          center: (x, y, z) in the middle of pictures (m).
          extent: Size of what is visible (m).
          azimuth: Direction of view around the vertical axis (degrees).
          elevation: Direction of view above the ground (degrees).
        """
        self.model.stat.center[:] = center
        self.model.stat.extent = extent
        self.model.vis.global_.azimuth = azimuth
        self.model.vis.global_.elevation = elevation

    def place(self, state: State) -> Array | None:
        """Returns the bodies' positions on the ground for pictures, [P, 2] in m.

        It is None in families whose bodies stay in one place.
        """
        del state
        return None

    def marker(self, state: State) -> Array | None:
        """Returns the positions of the goals for pictures, [P, 3] in m.

        It is None if the model shows the goal or there is none.
        """
        del state
        return None

    def told_goal(self, state: State) -> Array | None:
        """Returns what a loss with the channel "goal" sees, [P, 3]; by default the goals' places
        (m, in the world), None where there are none.
        """
        return self.marker(state)


def _model_path(family: BodyFamily) -> pathlib.Path:
    """Returns where the model of a family is, from any working folder."""
    kind = type(family)
    owner = next((base for base in kind.__mro__ if "model_file" in vars(base)), kind)
    module = sys.modules.get(owner.__module__)
    folder = pathlib.Path(getattr(module, "__file__", None) or "here").resolve().parent
    return folder / family.model_file
