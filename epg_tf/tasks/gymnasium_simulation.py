"""Simulates environments of Gymnasium.

Members of a population are separate environments in a `SyncVectorEnv`. An environment's own vector
version is not used: its members share one generator, but no life may depend on its neighbours.
"""

from __future__ import annotations

import contextlib
import functools
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from epg_tf.core.types import Array
from epg_tf.tasks.base import SEED_LIMIT, Simulation, StepResult
from epg_tf.tasks.checks import reraise_as_config_error
from epg_tf.tasks.gymnasium_family import SUCCESS, GymnasiumFamily
from epg_tf.tasks.quantities import Task


class Moment(NamedTuple):
    """Says how to play one env step again.

    Attributes:
      seed: Of the start of its episode.
      action: As the environment got it.
    """

    seed: int
    action: Any


class _TaskOptions(gymnasium.Wrapper):
    """Gives every reset the options of the environment's task.

    Attributes:
      task_options: Those options.
    """

    def __init__(self, environment: gymnasium.Env):
        super().__init__(environment)
        self.task_options: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; the vector environment has no options for single members."""
        del options
        return self.env.reset(seed=seed, options=dict(self.task_options))


class GymnasiumSimulation(Simulation):
    """Simulates P environments of one id, each in its own task.

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
        self._seeds = [0] * population  # of the current episodes
        self._newest = self._all_rows, np.zeros(population)  # rows and their actions
        self._bad_start = np.zeros(population, bool)  # the first observation was not finite
        with self._calling("making it"):
            self._members = [_TaskOptions(family.make()) for _ in range(population)]
            self._vector = SyncVectorEnv(
                [functools.partial(_itself, member) for member in self._members],
                copy=False,
                autoreset_mode=AutoresetMode.DISABLED,
            )
        weakref.finalize(self, self._vector.close)
        self.set_tasks([family.complete_task({})] * population)
        with self._calling("reset"):  # Gymnasium resets some only after it has reset all once
            self._vector.reset(seed=0)

    def _calling(self, doing: str) -> contextlib.AbstractContextManager[None]:
        remedy = "correct the environment, gymnasium.utils.env_checker.check_env may help"
        return reraise_as_config_error(self.family.name, doing, remedy)

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Sets tasks[i] in simulation i; new episodes must be started afterwards."""
        for member, task in zip(self._members, tasks, strict=True):
            with self._calling("configure()"):
                self.family.configure(member.env, task)
            with self._calling("reset_options()"):
                member.task_options = self.family.reset_options(task)

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
            seeds[row] = self._seeds[row] = int(generators[row].integers(SEED_LIMIT))
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
        self._newest = rows, native
        usable &= ~self._bad_start[rows]
        entered = time.perf_counter()
        with self._calling("step"):
            if ids is None and usable.all():
                found, reward, terminated, truncated, success = self._step_all(native)
            else:
                found, reward, terminated, truncated, success = self._step_some(
                    rows, native, usable
                )
        left = time.perf_counter()
        observation, reward = _as_float32(found).reshape(len(rows), -1), _as_float32(reward)
        diverged = ~(usable & np.isfinite(reward) & np.isfinite(observation).all(axis=1))
        if diverged.any():
            row = int(np.flatnonzero(diverged)[0])
            fine = not self._bad_start[rows[row]] and np.isfinite(observation[row]).all()
            name = "action" if not usable[row] else "reward" if fine else "observation"
            name = "observation" if self._bad_start[rows[row]] else name
            self.divergence = f"the {name} was not finite"
        observation[diverged], reward[diverged] = 0.0, 0.0
        terminated |= diverged
        truncated &= ~terminated
        self.family_seconds += time.perf_counter() - left + entered - started
        success &= ~diverged
        return StepResult(observation, reward, terminated, truncated, diverged, success)

    def _step_all(self, native: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Steps all; returns observations, rewards, terminations, truncations, successes."""
        result: tuple[Array, Array, Array, Array, dict[str, Any]] = self._vector.step(native)
        reported = _success(result[4], np.zeros(self.population))  # None where one says nothing
        return *result[:4], np.array([bool(value) for value in reported])

    def _step_some(
        self, rows: Array, native: Array, usable: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Steps the usable of `rows` one by one; the others get 0 and False.

        The vector environment can only step all. It remembers which members have ended and refuses
        to step them; a reset there clears that, also for members that are stepped here.
        """
        space, count = self.family.observation_space, len(rows)
        found = [np.zeros(space.shape, space.low.dtype)] * count
        reward = np.zeros(count)
        terminated = np.zeros(count, bool)
        truncated = np.zeros(count, bool)
        success = np.zeros(count, bool)
        for k in np.flatnonzero(usable):
            result = self._members[rows[k]].step(native[k])
            found[k], reward[k], terminated[k], truncated[k] = result[:4]
            success[k] = bool(_success(result[4], False))
        observations = np.zeros((count, *space.shape), space.low.dtype)
        return np.stack(found, out=observations), reward, terminated, truncated, success

    def moment(self, row: int) -> Moment:
        """Returns how to play the newest env step of simulation `row` again."""
        rows, actions = self._newest
        return Moment(self._seeds[row], actions[np.flatnonzero(rows == row)[0]])

    def environment(self, row: int) -> gymnasium.Env:
        """Returns the environment of simulation `row`."""
        return self._members[row]

    def advance(self, action: Array) -> Array:
        """Advances all simulations by one env step, with all the work of `step`."""
        result = self.step(action)
        return np.flatnonzero(result.terminated | result.truncated)


def _itself(member: _TaskOptions) -> _TaskOptions:
    return member


def _success(info: Mapping[str, Any], unknown: Any) -> Any:
    """Returns what `info` says about whether the goal is reached, or `unknown`."""
    return next((info[name] for name in SUCCESS if name in info), unknown)


def _as_float32(values: Array) -> Array:
    """Returns a float32 copy; values that are too large become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
