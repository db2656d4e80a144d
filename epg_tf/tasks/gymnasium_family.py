"""Lets agents live in any environment that Gymnasium knows, as a family of one task.

Members of a population are separate environments in a `SyncVectorEnv`, never in an environment's
own vector version: its members share one generator, and a life must not depend on its neighbours.
"""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from collections.abc import Iterator, Sequence

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.tasks.base import SEED_LIMIT, Simulation, StepResult, TaskFamily
from epg_tf.tasks.checks import blame
from epg_tf.tasks.quantities import Task

PREFIX = "gymnasium:"
UNLIMITED = 1000  # env steps of an episode where the registry sets no limit


class GymnasiumFamily(TaskFamily):
    """A registered environment with Box observations and Box or Discrete actions; all agents live
    in the same task.

    Observations are flattened. Actions in a Box are flattened, and rounded where its numbers are
    whole; of Discrete actions, the one is taken whose entry in the row is the largest.

    Args:
      env_id: Name in Gymnasium's registry, with its version.
      frame_skip: 1; how often an action is repeated is the environment's own affair.
      episode_limit: Env steps after which an episode is truncated, in place of the registered
        limit.
      task_range: "training" or "nominal", which are the same.

    Raises:
      ConfigError: There is no such environment, it cannot be made, or its spaces are of other
      kinds.
    """

    def __init__(
        self, env_id: str, frame_skip: int, episode_limit: int, task_range: str = "training"
    ):
        self.name = PREFIX + env_id
        self._spec = registered(env_id)
        if frame_skip != 1:
            raise ConfigError(
                f"config.task.frame_skip={frame_skip} does not fit {self.name}, which repeats "
                "actions "
                f"itself if at all; set it to 1"
            )
        super().__init__(frame_skip, episode_limit, task_range)
        with self._made() as env:
            _check_spaces(self.name, env.observation_space, env.action_space)
            self.observation_size = math.prod(env.observation_space.shape)
            self._space = env.action_space
        self.discrete_actions = isinstance(self._space, Discrete)
        if self.discrete_actions:
            self.action_size = int(self._space.n)
            self.action_bounds = np.zeros(self.action_size), np.ones(self.action_size)
        else:
            self.action_size = math.prod(self._space.shape)
            self.action_bounds = (
                self._space.low.ravel().astype(np.float64),
                self._space.high.ravel().astype(np.float64),
            )

    @contextlib.contextmanager
    def _made(self) -> Iterator[gymnasium.Env]:
        """Makes an environment for reading its spaces, and closes it."""
        try:
            env = self.make()
        except Exception as error:  # what is missing may show as anything
            reason, remedy = _line(error), "install what it needs, or name another environment"
            if reason.startswith(
                "Box2D is not installed"
            ):  # Gymnasium's own extra clashes, see setup.py
                reason, remedy = (
                    "Box2D is not installed",
                    "install the extra that brings it: epg_tf[lunar]",
                )
            raise ConfigError(
                f"config.task.family={self.name!r} cannot be made ({reason}); {remedy}"
            ) from None
        with contextlib.closing(env):
            yield env

    def make(self) -> gymnasium.Env:
        """Makes one environment with the family's time limit.

        From the spec, for by its id Gymnasium would recommend newer versions, which are other
        tasks; without its passive checker, which takes time and warns of infinite bounds and the
        like.
        """
        return gymnasium.make(
            self._spec, max_episode_steps=self.episode_limit, disable_env_checker=True
        )

    def native(self, action: Array) -> tuple[Array, Array]:
        """Translates actions [K, A] into the environment's own.

        Returns:
          (K actions in the environment's shape and dtype; [K] bool, False where an action is not a
          number and what is returned in its place means nothing).
        """
        if self.discrete_actions:
            return self._space.start + action.argmax(axis=1), np.isfinite(action).all(axis=1)
        clipped = np.clip(action, *self.action_bounds)
        usable = np.isfinite(clipped).all(axis=1)
        clipped[~usable] = 0.0
        if np.issubdtype(self._space.dtype, np.integer):
            clipped = np.rint(clipped)
        return clipped.reshape(-1, *self._space.shape).astype(self._space.dtype), usable


class GymnasiumSimulation(Simulation):
    """P environments of one id. Every episode starts from a seed of its own: none depends on what
    was before it.

    Args:
      family: What is simulated.
      population: P.

    Raises:
      ConfigError: From any method, where an environment raises: it is broken, and the user must
      know.
    """

    def __init__(self, family: GymnasiumFamily, population: int):
        self.family = family
        self.population = population
        self.family_seconds = 0.0
        self._everyone = np.arange(population)
        self._lost = np.zeros(population, bool)  # started from what is no number
        with self._blame("making it"):
            self._vector = SyncVectorEnv(
                [family.make] * population, copy=False, autoreset_mode=AutoresetMode.DISABLED
            )
        weakref.finalize(self, self._vector.close)
        with self._blame("reset"):  # only after everyone was reset once can some be reset alone
            self._vector.reset(seed=0)

    def _blame(self, doing: str) -> contextlib.AbstractContextManager[None]:
        return blame(
            self.family.name,
            doing,
            "mend the environment, gymnasium.utils.env_checker.check_env may help",
        )

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Changes nothing: there is one task."""
        del tasks

    def reset(self, ids: Array, generators: Sequence[np.random.Generator]) -> Array:
        """Starts new episodes in the simulations `ids`, each with a seed drawn from generators[id].

        Returns:
          Observations [len(ids), O], float32; 0 where one is not finite, and the next step reports
          it as diverged.
        """
        mask, seeds = np.zeros(self.population, bool), [None] * self.population
        mask[ids] = True
        for row in ids:
            seeds[row] = int(generators[row].integers(SEED_LIMIT))
        with self._blame("reset"):
            native, _ = self._vector.reset(seed=seeds, options={"reset_mask": mask})
        observation = _single(native[ids]).reshape(len(ids), -1)
        self._lost[ids] = ~np.isfinite(observation).all(axis=1)
        observation[self._lost[ids]] = 0.0
        return observation

    def next_episode(self, ids: Array, generators: Sequence[np.random.Generator]) -> Array:
        """Starts the episodes that follow: as `reset`."""
        return self.reset(ids, generators)

    def step(self, action: Array, ids: Array | None = None) -> StepResult:
        """Advances the simulations `ids` (all if None) by one env step; see `Simulation.step`.

        A row whose action is not a number is not stepped. Ended episodes must be followed by others
        before the whole population is stepped again.
        """
        started = time.perf_counter()
        rows = self._everyone if ids is None else ids
        native, usable = self.family.native(action)
        usable &= ~self._lost[rows]
        entered = time.perf_counter()
        with self._blame("step"):
            if ids is None and usable.all():
                found, reward, terminated, truncated, _ = self._vector.step(native)
            else:
                found, reward, terminated, truncated = self._step_some(rows, native, usable)
        left = time.perf_counter()
        observation, reward = _single(found).reshape(len(rows), -1), _single(reward)
        diverged = ~(usable & np.isfinite(reward) & np.isfinite(observation).all(axis=1))
        observation[diverged], reward[diverged] = 0.0, 0.0
        terminated |= diverged
        truncated &= ~terminated
        self.family_seconds += time.perf_counter() - left + entered - started
        return StepResult(
            observation, reward, terminated, truncated, diverged, np.zeros(len(rows), bool)
        )

    def _step_some(self, rows: Array, native: Array, usable: Array) -> tuple[Array, ...]:
        """Steps the usable of `rows`, one by one as the vector environment does; 0 and False for
        the others.

        The vector environment itself can step none but all. It keeps which members have ended, to
        refuse to step them; a reset there clears that, whoever stepped them.
        """
        space, count = self._vector.single_observation_space, len(rows)
        found = [np.zeros(space.shape, space.dtype)] * count
        reward, terminated, truncated = (
            np.zeros(count),
            np.zeros(count, bool),
            np.zeros(count, bool),
        )
        for k in np.flatnonzero(usable):
            found[k], reward[k], terminated[k], truncated[k], _ = self._vector.envs[rows[k]].step(
                native[k]
            )
        return (
            concatenate(space, found, create_empty_array(space, count)),
            reward,
            terminated,
            truncated,
        )

    def advance(self, action: Array) -> Array:
        """Advances all simulations by one env step; observing is the environments' own work, and
        part of it.
        """
        result = self.step(action)
        return np.flatnonzero(result.terminated | result.truncated)


def registered(env_id: str) -> EnvSpec:
    """Finds an environment in Gymnasium's registry; imports nothing, for ids come with other
    people's losses.

    Raises:
      ConfigError: It is not there.
    """
    name = PREFIX + env_id
    if ":" in env_id:
        raise ConfigError(
            f"config.task.family={name!r} would import a module; import it in your --config file "
            f"instead and leave the environment's id alone here"
        )
    if env_id.startswith("epg_tf/"):
        raise ConfigError(
            f"config.task.family={name!r} is one of this package's own families; name it as "
            f"launch.list_tasks does"
        )
    try:
        return gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        raise ConfigError(
            f"config.task.family={name!r} is unknown ({_line(error)}); name an environment with "
            "its "
            f"version, e.g. 'gymnasium:Pendulum-v1', or a --config that registers yours"
        ) from None


def registered_limit(env_id: str) -> int:
    """Returns the time limit an environment is registered with (env steps), or 1000 if there is
    none.
    """
    return registered(env_id).max_episode_steps or UNLIMITED


def _check_spaces(name: str, observation: gymnasium.Space, action: gymnasium.Space) -> None:
    remedy = "register a wrapped one in your --config file"
    if not isinstance(observation, Box):
        raise ConfigError(
            f"config.task.family={name!r} has observations {_line(observation)}; only Box is "
            "supported: "
            f"{remedy}, e.g. with gymnasium.wrappers.FlattenObservation"
        )
    if not isinstance(action, (Box, Discrete)):
        raise ConfigError(
            f"config.task.family={name!r} has actions {_line(action)}; only Box and Discrete are "
            f"supported: {remedy}"
        )


def _single(values: Array) -> Array:
    """Returns a copy in float32, infinite where that is too small."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _line(message: object) -> str:
    return " ".join(str(message).split())
