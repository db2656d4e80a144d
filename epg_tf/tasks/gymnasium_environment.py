"""Shows task families as Gymnasium environments: `gymnasium.make("epg_tf/RandomHopper-v0")` after
`import epg_tf`.
"""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium
import numpy as np
from gymnasium import spaces

from epg_tf.core.experiment import TaskConfig
from epg_tf.core.types import Array
from epg_tf.tasks import rendering
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.registry import FAMILIES, make_family, simulate

LARGEST = 4096  # physics steps per env step, pixels
ENDLESS = 2**31 - 1  # env steps; Gymnasium's TimeLimit ends episodes, not the simulation
ONLY = np.array([0])


def register_environments() -> None:
    """Registers every family as epg_tf/<its class>-v0; to be called again after `register_family`."""
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
    """One simulation of a family. It has no time limit of its own; `gymnasium.make` adds the
    family's default.

    The first `reset`, one with a seed and one with `options={"task": "new"}` draw a task;
    `options={"task": {...}}` names its quantities, and what it leaves out is nominal. Other resets
    start another episode in the task there is: an agent stays in its MDP. In families that continue
    they go on where the last episode stopped, unless it terminated. All numbers are drawn from
    `np_random`, so a seed decides task and start alike.

    `info["task"]` holds the task in plain numbers. After steps, `info["diverged"]` says whether
    physics failed, which terminates the episode, and in families with a goal to reach
    `info["success"]` whether it is reached just now.

    Args:
      family: Name of the family.
      frame_skip: Physics steps in one env step, >= 1; None: the family's default.
      task_range: Where tasks are drawn from: see `quantities.ranges`.
      render_mode: None, "rgb_array", or "human" (a window).
      height: Of pictures, in pixels.
      width: Of pictures, in pixels.

    Raises:
      ConfigError: No family has that name, or `task_range` means nothing there.
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
        frame_skip = (
            FAMILIES.get(family, TaskFamily).default_frame_skip
            if frame_skip is None
            else frame_skip
        )
        for name, number in (("frame_skip", frame_skip), ("height", height), ("width", width)):
            if (
                not isinstance(number, int)
                or isinstance(number, bool)
                or not 1 <= number <= LARGEST
            ):
                raise ValueError(f"{name}={number!r} must be a whole number within 1 and {LARGEST}")
        if not isinstance(task_range, str):
            raise ValueError(f"task_range={task_range!r} must be a string, such as 'training'")
        self._family = make_family(TaskConfig(family, frame_skip, ENDLESS, task_range))
        drawn = isinstance(self._family, BodyFamily)
        fps = round(1.0 / self._family.seconds_per_step) if drawn else self.metadata["render_fps"]
        self.metadata = {"render_modes": ["human", "rgb_array"] if drawn else [], "render_fps": fps}
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"render_mode={render_mode!r} must be None or one of "
                f"{self.metadata['render_modes']}"
            )
        if render_mode == "human":
            rendering.check_display()
        self.render_mode = render_mode
        self._size = height, width
        self._camera: rendering.Camera | None = None
        self._window: rendering.Window | None = None
        self._simulation = simulate(self._family, 1)
        self._task = None
        self._observation = np.zeros(0, np.float32)
        self._terminated = False
        self.observation_space = spaces.Box(
            -np.inf, np.inf, (self._family.observation_size,), np.float32
        )
        low, high = (bound.astype(np.float32) for bound in self._family.action_bounds)
        self.action_space = (
            spaces.Discrete(self._family.action_size)
            if self._family.discrete_actions
            else spaces.Box(low, high, dtype=np.float32)
        )

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Array, dict[str, object]]:
        """Starts an episode.

        Args:
          seed: Of everything drawn from now on, >= 0, or None to draw on.
          options: {"task": {name: value}} or {"task": "new"}; see the class.

        Returns:
          (observation [O] float32, info).

        Raises:
          ValueError: `options` names something unknown, or a value has the wrong size.
        """
        wanted = _wanted(options)
        given = None if wanted in (None, "new") else self._family.complete_task(wanted)
        super().reset(seed=seed)
        same = self._task is not None and seed is None and wanted is None
        if not same:
            self._task = self._family.sample_task(self.np_random) if given is None else given
            self._simulation.set_tasks([self._task])
            self.close()  # views show the body of the task before
        if not (same and self._family.continues) or self._terminated:
            self._observation = self._simulation.reset(ONLY, [self.np_random])[0]
        self._terminated = False
        if self.render_mode == "human":
            self.render()
        return self._observation.copy(), {"task": self._plain_task()}

    def step(self, action: Array | int) -> tuple[Array, float, bool, bool, dict[str, object]]:
        """Advances by one env step.

        Args:
          action: [A], clipped to the family's bounds, or a choice 0 .. A - 1 where actions are
          discrete.

        Returns:
          (observation [O] float32, reward, terminated, truncated, info).

        Raises:
          ResetNeeded: No episode was started.
          ValueError: The action is not such a one.
        """
        if self._task is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        result = self._simulation.step(self._row(action)[None])
        self._observation, self._terminated = result.observation[0], bool(result.terminated[0])
        info = {"task": self._plain_task(), "diverged": bool(result.diverged[0])}
        if self._family.goal_reaching:
            info["success"] = bool(result.success[0])
        if self.render_mode == "human":
            self.render()
        ended = self._terminated, bool(result.truncated[0])
        return self._observation.copy(), float(result.reward[0]), *ended, info

    def render(self) -> Array | None:
        """Returns a picture [height, width, 3] uint8, or shows it in the window.

        Raises:
          RenderError: Nothing can be drawn on this machine.
        """
        if self.render_mode is None:
            gymnasium.logger.warn(
                'render() draws nothing: the environment was made without render_mode="rgb_array"'
            )
            return None
        pose, model = rendering.Pose.of(self._simulation, 0), self._simulation.model
        if self.render_mode == "human":
            self._window = self._window or rendering.Window(model(0))
            return self._window.show(pose)
        self._camera = self._camera or rendering.Camera(model(0), *self._size)
        return self._camera.frame(pose)

    def close(self) -> None:
        """Closes camera and window; `render` opens them again."""
        for view in (self._camera, self._window):
            if view is not None:
                view.close()
        self._camera = self._window = None

    def _plain_task(self) -> dict[str, float | list[float]]:
        return {name: value.tolist() for name, value in self._task.items()}

    def _row(self, action: Array | int) -> Array:
        """Returns an action as the simulation takes it, [A]."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            if not space.contains(action):
                raise ValueError(
                    f"action={action!r} must be a whole number within 0 .. {space.n - 1}"
                )
            return np.eye(space.n)[action]
        row = np.asarray(action, np.float32)
        if row.shape != space.shape:
            raise ValueError(f"action has shape {row.shape}; it must be {space.shape}")
        return row


def _wanted(options: Mapping[str, object] | None) -> Mapping[str, object] | str | None:
    """Returns what `options` says of the task."""
    if not isinstance(options or {}, Mapping):
        raise ValueError(f"options={options!r} must be a mapping, such as {{'task': 'new'}}")
    unknown = sorted(set(options or ()) - {"task"}, key=str)
    if unknown:
        raise ValueError(f"options names {unknown[0]!r}; 'task' alone is known")
    wanted = (options or {}).get("task")
    if not (wanted is None or isinstance(wanted, Mapping) or wanted == "new"):
        raise ValueError(
            f"options['task']={wanted!r} must be 'new' or a mapping from quantities to values"
        )
    return wanted
