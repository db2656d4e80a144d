"""Simulates environments of Gymnasium.

Members of a population are separate environments, stepped one after the other. An environment's own
vector version is not used: its members share one generator, but no life may depend on its
neighbours.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

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
            self._members = [family.make() for _ in range(population)]
        weakref.finalize(self, _close, self._members)
        self.set_tasks([family.complete_task({})] * population)

    def _calling(self, doing: str) -> contextlib.AbstractContextManager[None]:
        remedy = "correct the environment, gymnasium.utils.env_checker.check_env may help"
        return reraise_as_config_error(self.family.name, doing, remedy)

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Sets tasks[i] in simulation i; new episodes must be started afterwards."""
        for member, task in zip(self._members, tasks, strict=True):
            with self._calling("configure()"):
                self.family.configure(member, task)
        with self._calling("reset_options()"):
            self._options = [self.family.reset_options(task) for task in tasks]

    def reset(self, ids: Array, generators: Sequence[np.random.Generator]) -> Array:
        """Starts new episodes in the simulations `ids`, each with a seed drawn from generators[id].

        Returns:
          Observations [len(ids), O], float32. One that is not finite is 0, and the next step
          reports the simulation as diverged.
        """
        for row in ids:
            self._seeds[row] = int(generators[row].integers(SEED_LIMIT))
        with self._calling("reset"):
            started = [
                self._members[row].reset(seed=self._seeds[row], options=dict(self._options[row]))
                for row in ids
            ]
            found = self._stacked([observation for observation, _ in started])
        observation = _as_float32(found).reshape(len(ids), -1)
        self._bad_start[ids] = ~np.isfinite(observation).all(axis=1)
        observation[self._bad_start[ids]] = 0.0
        return observation

    def next_episode(self, ids: Array, generators: Sequence[np.random.Generator]) -> Array:
        """Starts the following episodes, as `reset` does."""
        return self.reset(ids, generators)

    def step(self, action: Array, ids: Array | None = None) -> StepResult:
        """Advances the simulations `ids` (all if None) by one env step; see `Simulation.step`.

        A row whose action is not a number is not stepped.
        """
        started = time.perf_counter()
        rows = self._all_rows if ids is None else ids
        native, usable = self.family.native(action)
        self._newest = rows, native
        usable &= ~self._bad_start[rows]
        entered = time.perf_counter()
        with self._calling("step"):
            found, reward, terminated, truncated, success = self._step(rows, native, usable)
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

    def _step(
        self, rows: Array, native: Array, usable: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Steps the usable of `rows`; the others get 0 and False.

        Returns:
          Observations, rewards, terminations, truncations, successes.
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
            reported = [result[4][name] for name in SUCCESS if name in result[4]]
            success[k] = bool(reported and reported[0])
        return self._stacked(found), reward, terminated, truncated, success

    def _stacked(self, observations: Sequence[Array]) -> Array:
        """Returns observations of K environments, [K, ...] in the type of their space."""
        space = self.family.observation_space
        whole = np.zeros((len(observations), *space.shape), space.low.dtype)
        return np.stack(observations, out=whole)

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


def _close(environments: Sequence[gymnasium.Env]) -> None:
    for environment in environments:
        environment.close()


def _as_float32(values: Array) -> Array:
    """Returns a float32 copy; values that are too large become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
