"""Makes any environment of Gymnasium's registry a family with one task.

Members of a population are separate environments in a `SyncVectorEnv`. An environment's own vector
version is not used: its members share one generator, but no life may depend on its neighbours.
"""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.tasks.base import SEED_LIMIT, Simulation, StepResult, TaskFamily
from epg_tf.tasks.checks import reraise_as_config_error
from epg_tf.tasks.quantities import Task

PREFIX = "gymnasium:"
DEFAULT_LIMIT = 1000  # env steps of an episode if the registry sets no limit


class GymnasiumFamily(TaskFamily):
    """Describes a registered environment with Box observations and Box or Discrete actions.

    Observations are flattened. Actions in a Box are flattened, and rounded if its numbers are
    whole. A Discrete action is the index of the largest entry of the row.

    Args:
      env_id: Name in Gymnasium's registry, with its version.
      frame_skip: 1; the environment itself decides how often it repeats an action.
      episode_limit: Env steps after which an episode is truncated; replaces the registered limit.
      task_range: "training" or "nominal", which are the same.

    Attributes:
      observation_space: Of one environment.
      action_space: Of one environment.

    Raises:
      ConfigError: No environment has that name, it cannot be made, or its spaces are not supported.
    """

    def __init__(
        self, env_id: str, frame_skip: int, episode_limit: int, task_range: str = "training"
    ):
        self.name = PREFIX + env_id
        self._spec = registered(env_id)
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

    def _read_spaces(self) -> tuple[Box, Box | Discrete]:
        """Makes an environment, reads its spaces, and closes it."""
        try:
            env = self.make()
        except Exception as error:  # Gymnasium does not say which errors a missing package gives
            reason, remedy = _one_line(error), "install what it needs, or name another environment"
            if reason.startswith("Box2D is not installed"):  # Gymnasium names an extra that clashes
                reason = "Box2D is not installed"
                remedy = "install the extra that brings it: epg_tf[lunar]"
            raise ConfigError(
                f"config.task.family={self.name!r} cannot be made ({reason}); {remedy}"
            ) from None
        with contextlib.closing(env):
            return _supported_spaces(self.name, env)

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


class GymnasiumSimulation(Simulation):
    """Simulates P environments of one id.

    Every episode starts with a new seed, so it does not depend on earlier episodes.

    Args:
      family: The family of the environments.
      population: P.

    Raises:
      ConfigError: From any method, if an environment raises an exception.
    """

    family: GymnasiumFamily

    def __init__(self, family: GymnasiumFamily, population: int):
        self.family = family
        self.population = population
        self.family_seconds = 0.0
        self._all_rows = np.arange(population)
        self._bad_start = np.zeros(population, bool)  # the first observation was not finite
        with self._calling("making it"):
            self._vector = SyncVectorEnv(
                [family.make] * population, copy=False, autoreset_mode=AutoresetMode.DISABLED
            )
        weakref.finalize(self, self._vector.close)
        with self._calling("reset"):  # Gymnasium resets some only after it has reset all once
            self._vector.reset(seed=0)

    def _calling(self, doing: str) -> contextlib.AbstractContextManager[None]:
        remedy = "correct the environment, gymnasium.utils.env_checker.check_env may help"
        return reraise_as_config_error(self.family.name, doing, remedy)

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Changes nothing: there is only one task."""
        del tasks

    def reset(self, ids: Array, generators: Sequence[np.random.Generator]) -> Array:
        """Starts new episodes in the simulations `ids`, each with a seed drawn from generators[id].

        Returns:
          Observations [len(ids), O], float32. One that is not finite is 0, and the next step
          reports the simulation as diverged.
        """
        mask = np.zeros(self.population, bool)
        mask[ids] = True
        seeds: list[int | None] = [None] * self.population
        for row in ids:
            seeds[row] = int(generators[row].integers(SEED_LIMIT))
        with self._calling("reset"):
            started: tuple[Array, dict[str, Any]] = self._vector.reset(
                seed=seeds, options={"reset_mask": mask}
            )
        observation = _as_float32(started[0][ids]).reshape(len(ids), -1)
        self._bad_start[ids] = ~np.isfinite(observation).all(axis=1)
        observation[self._bad_start[ids]] = 0.0
        return observation

    def next_episode(self, ids: Array, generators: Sequence[np.random.Generator]) -> Array:
        """Starts the following episodes, as `reset` does."""
        return self.reset(ids, generators)

    def step(self, action: Array, ids: Array | None = None) -> StepResult:
        """Advances the simulations `ids` (all if None) by one env step; see `Simulation.step`.

        A row whose action is not a number is not stepped. Before the whole population is stepped
        again, new episodes must be started where episodes ended.
        """
        started = time.perf_counter()
        rows = self._all_rows if ids is None else ids
        native, usable = self.family.native(action)
        usable &= ~self._bad_start[rows]
        entered = time.perf_counter()
        with self._calling("step"):
            if ids is None and usable.all():
                found, reward, terminated, truncated = self._step_all(native)
            else:
                found, reward, terminated, truncated = self._step_some(rows, native, usable)
        left = time.perf_counter()
        observation, reward = _as_float32(found).reshape(len(rows), -1), _as_float32(reward)
        diverged = ~(usable & np.isfinite(reward) & np.isfinite(observation).all(axis=1))
        observation[diverged], reward[diverged] = 0.0, 0.0
        terminated |= diverged
        truncated &= ~terminated
        self.family_seconds += time.perf_counter() - left + entered - started
        success = np.zeros(len(rows), bool)
        return StepResult(observation, reward, terminated, truncated, diverged, success)

    def _step_all(self, native: Array) -> tuple[Array, Array, Array, Array]:
        """Steps all; returns observations, rewards, terminations, truncations."""
        result: tuple[Array, Array, Array, Array, dict[str, Any]] = self._vector.step(native)
        return result[:4]

    def _step_some(
        self, rows: Array, native: Array, usable: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Steps the usable of `rows` one by one; the others get 0 and False.

        The vector environment can only step all. It remembers which members have ended and refuses
        to step them; a reset there clears that, also for members that are stepped here.
        """
        space, count = self.family.observation_space, len(rows)
        found = [np.zeros(space.shape, space.low.dtype)] * count
        reward = np.zeros(count)
        terminated = np.zeros(count, bool)
        truncated = np.zeros(count, bool)
        for k in np.flatnonzero(usable):
            result = self._vector.envs[rows[k]].step(native[k])
            found[k], reward[k], terminated[k], truncated[k] = result[:4]
        observations = np.zeros((count, *space.shape), space.low.dtype)
        return np.stack(found, out=observations), reward, terminated, truncated

    def advance(self, action: Array) -> Array:
        """Advances all simulations by one env step, with all the work of `step`."""
        result = self.step(action)
        return np.flatnonzero(result.terminated | result.truncated)


def registered(env_id: str) -> EnvSpec:
    """Finds an environment in Gymnasium's registry.

    It imports no module, because a loss from another user may name any environment.

    Raises:
      ConfigError: The registry does not have it.
    """
    name = PREFIX + env_id
    if ":" in env_id:
        raise ConfigError(
            f"config.task.family={name!r} would import a module; import that module in your own "
            "code and give only the environment's id"
        )
    if env_id.startswith("epg_tf/"):
        raise ConfigError(
            f"config.task.family={name!r} is one of this package's own families; give its name in "
            f"epg_tf.tasks.registry.FAMILIES"
        )
    try:
        return gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        raise ConfigError(
            f"config.task.family={name!r} is unknown ({_one_line(error)}); name an environment "
            "with its version, e.g. 'gymnasium:Pendulum-v1', or first load the file that registers "
            "yours"
        ) from None


def registered_limit(env_id: str) -> int:
    """Returns the registered time limit of an environment (env steps), or 1000 if it has none."""
    return registered(env_id).max_episode_steps or DEFAULT_LIMIT


def _supported_spaces(name: str, env: gymnasium.Env) -> tuple[Box, Box | Discrete]:
    """Returns observation and action space.

    Raises:
      ConfigError: One of them is not supported.
    """
    observation, action = env.observation_space, env.action_space
    remedy = "register a version of it with another wrapper"
    if not isinstance(observation, Box):
        raise ConfigError(
            f"config.task.family={name!r} has observations {_one_line(observation)}; only Box is "
            f"supported: {remedy}, e.g. gymnasium.wrappers.FlattenObservation"
        )
    if not isinstance(action, (Box, Discrete)):
        raise ConfigError(
            f"config.task.family={name!r} has actions {_one_line(action)}; only Box and Discrete "
            f"are supported: {remedy}"
        )
    return observation, action


def _as_float32(values: Array) -> Array:
    """Returns a float32 copy; values that are too large become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _one_line(message: object) -> str:
    return " ".join(str(message).split())
