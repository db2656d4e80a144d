"""Makes environments of Gymnasium's registry task families: any of them with one task, or, by a
subclass, with tasks that differ in attributes of the environment or in options of its resets.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.quantities import Task

PREFIX = "gymnasium:"
DEFAULT_LIMIT = 1000  # env steps of an episode if the registry sets no limit


class GymnasiumFamily(TaskFamily):
    """Describes tasks in an environment with Box observations and Box or Discrete actions.

    docs/own_family.md shows how to write a subclass. A subclass with `quantities` must define
    `configure`, `reset_options`, or both, so that its tasks differ in the environment too.

    Observations are flattened. Actions in a Box are flattened, and rounded if its numbers are
    whole. A Discrete action is the index of the largest entry of the row.

    Args:
      frame_skip: 1; the environment itself decides how often it repeats an action.
      episode_limit: Env steps after which an episode is truncated; replaces the registered limit.
      task_range: Where tasks are drawn from: see `quantities.ranges`.

    Attributes:
      env_id: Name in Gymnasium's registry, with its version.
      observation_space: Of one environment.
      action_space: Of one environment; the same in all tasks.

    Raises:
      ConfigError: No environment has that name, it cannot be made, or its spaces are not supported.
    """

    env_id: str

    def __init__(self, frame_skip: int, episode_limit: int, task_range: str = "training"):
        self._spec = registered(self.env_id, self._named())
        if frame_skip != 1:
            raise ConfigError(
                f"config.task.frame_skip={frame_skip} does not fit {self.name}, which itself "
                "decides how often it repeats an action; set it to 1"
            )
        super().__init__(frame_skip, episode_limit, task_range)
        self.observation_space, self.action_space = self._read_spaces()
        self.observation_size = math.prod(self.observation_space.shape)
        if isinstance(self.action_space, Discrete):
            self.discrete_actions = True
            self.action_size = int(self.action_space.n)
            self.action_bounds = np.zeros(self.action_size), np.ones(self.action_size)
        else:
            self.action_size = math.prod(self.action_space.shape)
            self.action_bounds = (
                self.action_space.low.ravel().astype(np.float64),
                self.action_space.high.ravel().astype(np.float64),
            )

    def configure(self, environment: gymnasium.Env, task: Task) -> None:
        """Sets the attributes of an environment that `task` determines.

        It is called before the first episode of a task. The environment may have had another task
        before, so every attribute must become a value that depends on `task` alone.

        Args:
          environment: As Gymnasium made it; its own attributes are those of
            `environment.unwrapped`.
          task: A value for every quantity, float64 arrays.
        """

    def reset_options(self, task: Task) -> dict[str, Any]:
        """Returns the options that every episode of `task` is started with.

        They are the `options` of the environment's `reset`.
        """
        del task
        return {}

    def _named(self) -> str:
        """Returns how messages name the environment."""
        return f"config.task.family={self.name!r}: env_id={self.env_id!r}"

    def _read_spaces(self) -> tuple[Box, Box | Discrete]:
        """Makes an environment, reads its spaces, and closes it."""
        try:
            env = self.make()
        except Exception as error:  # Gymnasium does not say which errors a missing package gives
            reason, remedy = _one_line(error), "install what it needs, or name another environment"
            if reason.startswith("Box2D is not installed"):  # Gymnasium names an extra that clashes
                reason = "Box2D is not installed"
                remedy = "install the extra that brings it: epg_tf[lunar]"
            raise ConfigError(f"{self._named()} cannot be made ({reason}); {remedy}") from None
        with contextlib.closing(env):
            return _supported_spaces(self._named(), env)

    def make(self) -> gymnasium.Env:
        """Makes one environment with the family's time limit.

        It passes the spec instead of the id, because for an id Gymnasium recommends newer versions,
        which are other tasks. Gymnasium's passive checker is off: it takes time, and it warns of
        infinite bounds.
        """
        return gymnasium.make(
            self._spec, max_episode_steps=self.episode_limit, disable_env_checker=True
        )

    def native(self, action: Array) -> tuple[Array, Array]:
        """Converts actions [K, A] to the environment's own.

        Returns:
          K actions in the environment's shape and dtype, and [K] bool: False where an action is not
          a number, and the returned one must not be used.
        """
        space = self.action_space
        if isinstance(space, Discrete):
            return space.start + action.argmax(axis=1), np.isfinite(action).all(axis=1)
        clipped = np.clip(action, *self.action_bounds)
        usable = np.isfinite(clipped).all(axis=1)
        clipped[~usable] = 0.0
        if np.issubdtype(space.low.dtype, np.integer):
            clipped = np.rint(clipped)
        return clipped.reshape(-1, *space.shape).astype(space.low.dtype), usable


class OneTaskFamily(GymnasiumFamily):
    """Describes a registered environment as it is, with one task; "gymnasium:ID" names it.

    Args:
      env_id: Name in Gymnasium's registry, with its version.
      frame_skip: 1.
      episode_limit: Env steps after which an episode is truncated.
      task_range: "training" or "nominal", which are the same.
    """

    def __init__(
        self, env_id: str, frame_skip: int, episode_limit: int, task_range: str = "training"
    ):
        self.name = PREFIX + env_id
        self.env_id = env_id
        super().__init__(frame_skip, episode_limit, task_range)

    def _named(self) -> str:
        return f"config.task.family={self.name!r}"


def registered(env_id: str, named: str) -> EnvSpec:
    """Finds an environment in Gymnasium's registry.

    It imports no module, because a loss from another user may name any environment.

    Args:
      env_id: Its name there, with its version.
      named: How messages name it, e.g. "config.task.family='gymnasium:Pendulum-v1'".

    Raises:
      ConfigError: The registry does not have it.
    """
    if ":" in env_id:
        raise ConfigError(
            f"{named} would import a module; import that module in your own "
            "code and give only the environment's id"
        )
    if env_id.startswith("epg_tf/"):
        raise ConfigError(
            f"{named} is one of this package's own families; give its name in "
            f"epg_tf.tasks.registry.FAMILIES"
        )
    try:
        return gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        raise ConfigError(
            f"{named} is unknown ({_one_line(error)}); name an environment "
            "with its version, e.g. 'gymnasium:Pendulum-v1', or first load the file that registers "
            "yours"
        ) from None


def registered_limit(env_id: str) -> int:
    """Returns the registered time limit of an environment (env steps), or 1000 if it has none."""
    named = f"config.task.family={PREFIX + env_id!r}"
    return registered(env_id, named).max_episode_steps or DEFAULT_LIMIT


def _supported_spaces(named: str, env: gymnasium.Env) -> tuple[Box, Box | Discrete]:
    """Returns observation and action space.

    Raises:
      ConfigError: One of them is not supported.
    """
    observation, action = env.observation_space, env.action_space
    remedy = "register a version of it with another wrapper"
    if not isinstance(observation, Box):
        raise ConfigError(
            f"{named} has observations {_one_line(observation)}; only Box is "
            f"supported: {remedy}, e.g. gymnasium.wrappers.FlattenObservation"
        )
    if not isinstance(action, (Box, Discrete)):
        raise ConfigError(
            f"{named} has actions {_one_line(action)}; only Box and Discrete "
            f"are supported: {remedy}"
        )
    return observation, action


def _one_line(message: object) -> str:
    return " ".join(str(message).split())
