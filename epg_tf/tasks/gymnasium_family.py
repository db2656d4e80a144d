"""Makes environments of Gymnasium's registry task families: any of them with one task, or, by a
subclass, with tasks that differ in attributes of the environment or in options of its resets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box

from epg_tf.core.errors import ConfigError
from epg_tf.core.files import one_line
from epg_tf.core.types import Array
from epg_tf.tasks.base import TaskFamily, usable_bounds
from epg_tf.tasks.gymnasium_spaces import Leaf, choices, observed_box, taken_actions
from epg_tf.tasks.quantities import Task

PREFIX = "gymnasium:"
DEFAULT_LIMIT = 1000  # env steps of an episode if the registry sets no limit
SUCCESS = ("is_success", "success")  # what `info` of an env step may call whether a goal is reached


class GymnasiumFamily(TaskFamily):
    """Describes tasks in an environment with Box, Discrete, MultiDiscrete or MultiBinary actions.

    docs/own_family.md shows how to write a subclass. A subclass with `quantities` must define
    `configure`, `reset_options`, or both, so that its tasks differ in the environment too.

    Observations that are no Box (Dict, Tuple, Discrete, ...) are flattened by
    gymnasium.wrappers.FlattenObservation. Actions in a Box are flattened, and rounded if its
    numbers are whole. A Discrete action is the index of the largest entry of the row; the parts of
    MultiDiscrete and MultiBinary ones are rows of their own, side by side.

    Args:
      frame_skip: 1; the environment itself decides how often it repeats an action.
      episode_limit: Env steps after which an episode is truncated; replaces the registered limit.
      task_range: Where tasks are drawn from: see `quantities.ranges`.

    Attributes:
      env_id: Name in Gymnasium's registry, with its version, and maybe keyword arguments of the
        environment: "Ant-v5?healthy_reward=0.5&terminate_when_unhealthy=false".
      render_mode: Of the environments that are made from now on: None or "rgb_array".
      render_modes: That the environment says it has.
      observation_space: Of one environment.
      action_space: Of one environment; the same in all tasks.

    Raises:
      ConfigError: No environment has that name, it cannot be made, or its spaces are not supported.
    """

    env_id: str
    render_mode: str | None = None
    render_modes: tuple[str, ...] = ()
    how_to_bound = (
        "register a version of it with gymnasium.wrappers.TransformAction(env, lambda action: "
        "action, gymnasium.spaces.Box(-1.0, 1.0, env.action_space.shape)), with bounds that fit it"
    )

    def __init__(self, frame_skip: int, episode_limit: int, task_range: str = "training"):
        self._spec = registered(self.env_id, self._named())
        if frame_skip != 1:
            raise ConfigError(
                f"config.task.frame_skip={frame_skip} does not fit {self.name}, which itself "
                "decides how often it repeats an action; set it to 1"
            )
        super().__init__(frame_skip, episode_limit, task_range)
        self._flattens = False
        self.observation_space, self.action_space = self._read_spaces()
        self.observation_size = math.prod(self.observation_space.shape)
        if isinstance(self.action_space, Box):
            self.action_size = math.prod(self.action_space.shape)
            self.action_bounds = usable_bounds(self.action_space.low, self.action_space.high)
        else:
            counts, self.first_action = choices(self.action_space)
            self.discrete_actions, self.action_size = True, sum(counts)
            self.action_parts = counts if self.action_space.shape else ()
            self.action_bounds = np.zeros(self.action_size), np.ones(self.action_size)

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

    def _read_spaces(self) -> tuple[Box, Leaf]:
        """Makes an environment, reads its spaces, and closes it."""
        try:
            env = self.make()
        except Exception as error:  # Gymnasium does not say which errors a missing package gives
            reason = one_line(error)
            remedy = "install what it needs, correct its wrappers, or name another environment"
            if reason.startswith("Box2D is not installed"):  # Gymnasium names an extra that clashes
                reason = "Box2D is not installed"
                remedy = "install the extra that brings it: epg_tf[lunar]"
            elif "?" in self.env_id:
                remedy = "correct the keyword arguments after '?', or " + remedy
            raise ConfigError(f"{self._named()} cannot be made ({reason}); {remedy}") from None
        with contextlib.closing(env):
            seen = env.observation_space
            self.render_modes = tuple(env.metadata.get("render_modes") or ())
            box = observed_box(self._named(), seen)
            self._flattens = box is not seen
            if self._flattens:
                self.notices += (
                    f"{self.name}: observations {one_line(seen)} are flattened to "
                    f"{math.prod(box.shape)} numbers, as gymnasium.spaces.flatten does",
                )
            return box, taken_actions(self._named(), env.action_space)

    def make(self) -> gymnasium.Env:
        """Makes one environment with the family's time limit.

        It passes the spec instead of the id, because for an id Gymnasium recommends newer versions,
        which are other tasks. Gymnasium's passive checker is off: it takes time, and it warns of
        infinite bounds.
        """
        drawn = {} if self.render_mode is None else {"render_mode": self.render_mode}
        env = gymnasium.make(
            self._spec, max_episode_steps=self.episode_limit, disable_env_checker=True, **drawn
        )
        return gymnasium.wrappers.FlattenObservation(env) if self._flattens else env

    def native(self, action: Array) -> tuple[Array, Array]:
        """Converts actions [K, A] to the environment's own.

        Returns:
          K actions in the environment's shape and dtype, and [K] bool: False where an action is not
          a number, and the returned one must not be used.
        """
        space = self.action_space
        if not isinstance(space, Box):
            numbers = self.chosen(action).reshape(-1, *(space.shape or ())).astype(space.dtype)
            return numbers, np.isfinite(action).all(axis=1)
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
      env_id: Its name there, with its version, and maybe "?" and keyword arguments for it.
      named: How messages name it, e.g. "config.task.family='gymnasium:Pendulum-v1'".

    Raises:
      ConfigError: The registry does not have it, or only for vectors of environments, or the
        keyword arguments cannot be read.
    """
    if ":" in env_id.partition("?")[0]:
        raise ConfigError(
            f"{named} would import a module; import that module in your own "
            "code and give only the environment's id"
        )
    if env_id.startswith("epg_tf/"):
        raise ConfigError(
            f"{named} is one of this package's own families; give its name in "
            f"epg_tf.tasks.registry.FAMILIES"
        )
    bare_id, _, words = env_id.partition("?")
    try:
        spec = gymnasium.spec(bare_id)
    except gymnasium.error.Error as error:
        raise ConfigError(
            f"{named} is unknown ({one_line(error)}); name an environment "
            "with its version, e.g. 'gymnasium:Pendulum-v1', or first load the file that registers "
            "yours"
        ) from None
    if spec.entry_point is None:
        raise ConfigError(
            f"{named} is registered for vectors of environments alone, whose members share random "
            "numbers; register it with entry_point, too"
        )
    keywords = _keywords(words, named) if "?" in env_id else {}
    return dataclasses.replace(spec, kwargs={**spec.kwargs, **keywords}) if keywords else spec


def _keywords(words: str, named: str) -> dict[str, Any]:
    """Reads "NAME=VALUE&NAME=VALUE", in which every value is JSON; runs no code.

    Raises:
      ConfigError: It is something else, or a keyword is not for users.
    """
    found: dict[str, Any] = {}
    for word in words.split("&"):
        name, equals, text = word.partition("=")
        try:
            value = json.loads(text)
        except ValueError:
            equals = ""
        if not (name.isidentifier() and equals) or name in found:
            raise ConfigError(
                f"{named}: {word!r} after '?' is no keyword argument; write NAME=VALUE with VALUE "
                "in JSON and each NAME once, joined by '&', e.g. "
                "'gymnasium:Ant-v5?healthy_reward=0.5&terminate_when_unhealthy=false', and a "
                'string as NAME="TEXT"'
            )
        if name == "render_mode":
            raise ConfigError(
                f"{named}: render_mode is chosen by what draws, e.g. epg-tf render; leave it out"
            )
        found[name] = value
    return found


def registered_limit(env_id: str) -> int:
    """Returns the registered time limit of an environment (env steps), or 1000 if it has none."""
    named = f"config.task.family={PREFIX + env_id!r}"
    return registered(env_id, named).max_episode_steps or DEFAULT_LIMIT
