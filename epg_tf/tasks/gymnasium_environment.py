"""Makes task families Gymnasium environments: `gymnasium.make("epg_tf/RandomHopper-v0")`.

`import epg_tf` registers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from epg_tf.core.types import Array
from epg_tf.tasks import rendering
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.gymnasium_drawing import MODE, picture_of, prepare_drawing
from epg_tf.tasks.gymnasium_family import GymnasiumFamily
from epg_tf.tasks.gymnasium_simulation import GymnasiumSimulation
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.quantities import Task
from epg_tf.tasks.registry import FAMILIES, make_family, simulate
from epg_tf.tasks.settings import TaskConfig

_LARGEST = 4096  # physics steps per env step, pixels
_NO_LIMIT = 2**31 - 1  # env steps; Gymnasium's TimeLimit ends episodes, not the simulation
_ROW = np.array([0])  # of the only simulation


def register_environments() -> None:
    """Registers every family as epg_tf/CLASS-v0; call it again after `register_family`."""
    for name, family in FAMILIES.items():
        environment_id, settings = f"epg_tf/{family.__name__}-v0", {"family": name}
        known = gymnasium.registry.get(environment_id)
        if known is None or known.kwargs != settings:
            gymnasium.register(
                environment_id,
                "epg_tf.tasks.gymnasium_environment:TaskEnv",
                max_episode_steps=family.default_episode_limit,
                kwargs=settings,
            )


class TaskEnv(gymnasium.Env):
    """Simulates one task of a family at a time.

    It has no time limit itself; `gymnasium.make` adds the family's default.

    The first `reset`, a reset with a seed and one with `options={"task": "new"}` draw a task.
    `options={"task": {...}}` sets the named quantities; the others are nominal. Other resets start
    another episode of the current task, so an agent stays in its MDP. In families that continue,
    that episode starts in the last state, unless it was terminal. All random numbers come from
    `np_random`, so a seed determines both task and start.

    `info["task"]` holds the task in plain numbers. After steps, `info["diverged"]` is whether the
    physics failed, which terminates the episode. In families with a goal, `info["success"]` is
    whether it is reached in this step.

    Args:
      family: Name of the family.
      frame_skip: Physics steps in one env step, >= 1; None: the family's default.
      task_range: Where tasks are drawn from: see `quantities.ranges`.
      render_mode: None, "rgb_array", or "human" (a window, of bodies alone).
      height: Of pictures, in pixels.
      width: Of pictures, in pixels.

    Raises:
      ConfigError: No family has that name, or `task_range` does not fit it.
      RenderError: `render_mode` is "human" and there is no display.
      ValueError: The family cannot be drawn in that mode, or a setting is out of range.
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 50}

    def __init__(
        self,
        family: str,
        frame_skip: int | None = None,
        task_range: str = "training",
        render_mode: str | None = None,
        height: int = 480,
        width: int = 480,
    ):
        _check_numbers({"height": height, "width": width})
        self._family = _endless_family(family, frame_skip, task_range)
        self.metadata = _metadata(self._family)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"render_mode={render_mode!r} must be None or one of "
                f"{self.metadata['render_modes']}"
            )
        if render_mode == "human":
            rendering.check_display()
        if render_mode and isinstance(self._family, GymnasiumFamily):
            prepare_drawing(self._family)
        self._simulation = simulate(self._family, 1)
        self._body = self._simulation if isinstance(self._simulation, BodySimulation) else None
        self.render_mode = render_mode
        self._size = height, width
        self._camera: rendering.Camera | None = None
        self._window: rendering.Window | None = None
        self._task: Task | None = None
        self._observation = np.zeros(0, np.float32)
        self._terminated = False
        self.observation_space, self.action_space = _spaces_of(self._family)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Array, dict[str, object]]:
        """Starts an episode.

        Args:
          seed: Of all following random numbers, >= 0, or None to continue the current stream.
          options: {"task": {name: value}} or {"task": "new"}; see the class.

        Returns:
          (observation [O] float32, info).

        Raises:
          ValueError: `options` names something unknown, or a value has the wrong size.
        """
        wanted = _wanted_task(options)
        given = self._family.complete_task(wanted) if isinstance(wanted, Mapping) else None
        super().reset(seed=seed)
        task = self._task if seed is None and wanted is None else None
        same = task is not None
        if task is None:
            task = self._family.sample_task(self.np_random) if given is None else given
            self._task = task
            self._simulation.set_tasks([task])
            self.close()  # camera and window show the body of the previous task
        if not (same and self._family.continues) or self._terminated:
            self._observation = self._simulation.reset(_ROW, [self.np_random])[0]
        self._terminated = False
        if self.render_mode == "human":
            self.render()
        return self._observation.copy(), {"task": _plain(task)}

    def step(self, action: Array | int) -> tuple[Array, float, bool, bool, dict[str, object]]:
        """Advances by one env step.

        Args:
          action: [A], clipped to the family's bounds, or if actions are discrete one of A choices:
            0 .. A - 1, or the numbers of Gymnasium's own environment; of parts, one for each.

        Returns:
          (observation [O] float32, reward, terminated, truncated, info).

        Raises:
          ResetNeeded: No episode was started.
          ValueError: The action is not valid.
        """
        if self._task is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        result = self._simulation.step(self._row(action)[None])
        self._observation, self._terminated = result.observation[0], bool(result.terminated[0])
        info: dict[str, object] = {
            "task": _plain(self._task),
            "diverged": bool(result.diverged[0]),
        }
        if self._family.goal_reaching:
            info["success"] = bool(result.success[0])
        if self.render_mode == "human":
            self.render()
        truncated = bool(result.truncated[0])
        return self._observation.copy(), float(result.reward[0]), self._terminated, truncated, info

    def render(self) -> Array | None:
        """Returns a picture [height, width, 3] uint8, or shows it in the window; an environment of
        Gymnasium draws itself, in a size of its own.

        Raises:
          RenderError: Nothing can be drawn on this machine.
        """
        if self.render_mode and isinstance(self._simulation, GymnasiumSimulation):
            return picture_of(self._simulation.environment(0))
        if self.render_mode is None or self._body is None:
            gymnasium.logger.warn(
                'render() draws nothing: the environment was made without render_mode="rgb_array"'
            )
            return None
        pose = rendering.Pose.of(self._body, 0)
        if self.render_mode == "human":
            self._window = self._window or rendering.Window(self._body.model(0))
            self._window.show(pose)
            return None
        self._camera = self._camera or rendering.Camera(self._body.model(0), *self._size)
        return self._camera.frame(pose)

    def close(self) -> None:
        """Closes camera and window; `render` opens them again."""
        for view in (self._camera, self._window):
            if view is not None:
                view.close()
        self._camera = self._window = None

    def _row(self, action: Array | int) -> Array:
        """Returns an action in the form that simulations take, [A]."""
        space = self.action_space
        if self._family.discrete_actions:
            if not space.contains(action):
                first, last = self._family.choices
                kind = f"{first.size} whole numbers" if first.ndim else "a whole number"
                raise ValueError(f"action={action!r} must be {kind} within {first} .. {last}")
            return self._family.choice_rows(np.array([action]))[0]
        row = np.asarray(action, np.float32)
        if row.shape != space.shape:
            raise ValueError(f"action has shape {row.shape}; it must be {space.shape}")
        return row


def _check_numbers(numbers: Mapping[str, int]) -> None:
    """Raises ValueError for a setting that is not a whole number within 1 and `_LARGEST`."""
    for name, number in numbers.items():
        whole = isinstance(number, int) and not isinstance(number, bool)
        if not whole or not 1 <= number <= _LARGEST:
            raise ValueError(f"{name}={number!r} must be a whole number within 1 and {_LARGEST}")


def _metadata(family: TaskFamily) -> dict[str, Any]:
    if isinstance(family, BodyFamily):
        fps = round(1.0 / family.seconds_per_step)
        return {"render_modes": ["human", MODE], "render_fps": fps}
    draws = isinstance(family, GymnasiumFamily) and MODE in family.render_modes
    return {"render_modes": [MODE] if draws else [], "render_fps": 50}


def _endless_family(family: str, frame_skip: int | None, task_range: str) -> TaskFamily:
    """Returns a family whose episodes have no time limit; arguments as of `TaskEnv`."""
    if frame_skip is None:
        frame_skip = FAMILIES.get(family, TaskFamily).default_frame_skip
    _check_numbers({"frame_skip": frame_skip})
    if not isinstance(task_range, str):
        raise ValueError(f"task_range={task_range!r} must be a string, such as 'training'")
    return make_family(TaskConfig(family, frame_skip, _NO_LIMIT, task_range))


def _spaces_of(
    family: TaskFamily,
) -> tuple[spaces.Box, spaces.Box | spaces.Discrete | spaces.MultiDiscrete]:
    """Returns the spaces of observations and of actions of one environment of a family."""
    seen = spaces.Box(-np.inf, np.inf, (family.observation_size,), np.float32)
    if family.action_parts:
        return seen, spaces.MultiDiscrete(list(family.action_parts), start=family.choices[0])
    if family.discrete_actions:
        return seen, spaces.Discrete(family.action_size, start=int(family.choices[0]))
    low, high = (bound.astype(np.float32) for bound in family.action_bounds)
    return seen, spaces.Box(low, high, dtype=np.float32)


def _plain(task: Task) -> dict[str, float | list[float]]:
    """Returns a task in plain numbers."""
    return {name: value.tolist() for name, value in task.items()}


def _wanted_task(
    options: Mapping[str, object] | None,
) -> Mapping[str, object] | Literal["new"] | None:
    """Returns the task that the options of a reset name, if any; errors as of `TaskEnv.reset`."""
    if not isinstance(options or {}, Mapping):
        raise ValueError(f"options={options!r} must be a mapping, such as {{'task': 'new'}}")
    unknown = sorted(set(options or ()) - {"task"}, key=str)
    if unknown:
        raise ValueError(f"options names {unknown[0]!r}; the only option is 'task'")
    wanted = (options or {}).get("task")
    if wanted is None or isinstance(wanted, Mapping):
        return wanted
    if wanted == "new":
        return "new"
    raise ValueError(
        f"options['task']={wanted!r} must be 'new' or a mapping from quantities to values"
    )
