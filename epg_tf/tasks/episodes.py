"""Plays episodes: the one loop between agents and simulations.

`Episodes` steps P simulations and starts the next episode where one has ended. `play_episodes`
plays a fixed number of whole episodes with a policy that does not learn. Both speak a policy's
units, whatever those of the environment: actions in [-1, 1], observations near 1.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.base import Simulation, StepResult, TaskFamily

Watch = Callable[[Simulation, StepResult], None]
"""Observes every env step: the simulation after it, and the result of those that were stepped."""


@dataclasses.dataclass(frozen=True)
class EndedEpisodes:
    """Holds the episodes that ended with one env step; row i belongs to simulation ids[i].

    Attributes:
      ids: [K] int.
      returns: [K] float64, sums of rewards.
      success: [K] bool, whether the episode ended at the goal.
    """

    ids: Array
    returns: Array
    success: Array


class Episodes:
    """Plays episode after episode in P simulations, in lockstep.

    Args:
      simulation: P simulations; the episodes before are given up.
      resets: P streams, of starts.
      limit: Number of episodes that each simulation plays; None: without end.
      watch: Called after every env step, before the next episodes start.

    Attributes:
      simulation: As given.
      watch: As given.
      observation: [P, O] float32, what the policies see next, in their units; after an end that is
        the first observation of the next episode. Rows of simulations that have finished mean
        nothing.
      playing: [K] ids of the simulations that have not played all their episodes.
      engine_seconds: Time spent in the simulations' engine so far (s), without the family's code.
    """

    def __init__(
        self,
        simulation: Simulation,
        resets: Sequence[np.random.Generator],
        limit: int | None = None,
        watch: Watch | None = None,
    ) -> None:
        population = simulation.population
        self.simulation = simulation
        self._resets = resets
        self.watch = watch
        self._left = None if limit is None else np.full(population, limit)
        self._running_return = np.zeros(population)
        self.engine_seconds = 0.0
        self.playing = np.arange(population)
        self._family = simulation.family
        self._action_units = simulation.family.action_units
        self.observation = self._family.policy_observation(simulation.reset(self.playing, resets))

    def step(self, action: Array) -> tuple[StepResult, EndedEpisodes]:
        """Takes one env step in all simulations that still play.

        Args:
          action: [P, A], in a policy's units.

        Returns:
          The result, with one row for each of `playing` before the step, its observations in a
          policy's units; and the ended episodes.
        """
        ids = self.playing
        result = self._step(action, ids)
        if self.watch is not None:
            self.watch(self.simulation, result)
        self._running_return[ids] += result.reward
        if ids.size == self.simulation.population:
            self.observation = result.observation
        else:
            self.observation = self.observation.copy()  # it may belong to an earlier result
            self.observation[ids] = result.observation
        rows = (result.terminated | result.truncated).nonzero()[0]
        ended = EndedEpisodes(ids[rows], self._running_return[ids[rows]], result.success[rows])
        if rows.size:
            self._continue_after(ended.ids)
        return result, ended

    def begin_anew(self) -> None:
        """Gives up the current episodes and starts others, e.g. after tasks were set."""
        self._running_return[:] = 0.0
        self.observation = self.observation.copy()  # it may belong to an earlier result
        started = self.simulation.reset(self.playing, self._resets)
        self.observation[self.playing] = self._family.policy_observation(started)

    def _step(self, action: Array, ids: Array) -> StepResult:
        simulation = self.simulation
        if self._action_units is not None:
            middle, half = self._action_units
            action = middle + half * action
        family_seconds = simulation.family_seconds
        started = time.perf_counter()
        if ids.size == simulation.population:
            result = simulation.step(action)
        else:
            result = simulation.step(action[ids], ids)
        spent = time.perf_counter() - started
        self.engine_seconds += spent - (simulation.family_seconds - family_seconds)
        if self._family.observation_units is None:
            return result
        seen = self._family.policy_observation(result.observation)
        seen[result.diverged] = 0.0
        return dataclasses.replace(result, observation=seen)

    def _continue_after(self, ids: Array) -> None:
        """Starts the next episodes of simulations whose episode has ended, if any are left."""
        self._running_return[ids] = 0.0
        if self._left is not None:
            self._left[ids] -= 1
            ids = ids[self._left[ids] > 0]
            self.playing = self.playing[self._left[self.playing] > 0]
        if ids.size:
            self.observation = self.observation.copy()  # a result is never written to
            started = self.simulation.next_episode(ids, self._resets)
            self.observation[ids] = self._family.policy_observation(started)


@dataclasses.dataclass(frozen=True)
class PlayedEpisodes:
    """Holds the outcome of a fixed number of episodes in each of P simulations.

    Attributes:
      mean_return: [P] float64, mean over the episodes.
      success_rate: [P] share of the episodes that ended at the goal.
      env_steps: [P] int, taken in all of them.
      diverged: [P] bool, whether physics failed in one of them.
      engine_seconds: Time spent in the simulations' engine (s).
    """

    mean_return: Array
    success_rate: Array
    env_steps: Array
    diverged: Array
    engine_seconds: float


def success_or_failure(family: TaskFamily, rate: Array, failed: Array) -> Array:
    """Returns [P] success rates: 0 where an agent failed; NaN in a family without goals."""
    return np.where(failed, 0.0, rate) if family.goal_reaching else np.full(len(failed), np.nan)


def play_episodes(
    simulation: Simulation,
    act: Callable[[Array], Array],
    resets: Sequence[np.random.Generator],
    count: int,
    watch: Watch | None = None,
) -> PlayedEpisodes:
    """Plays the same number of whole episodes in every simulation.

    Args:
      simulation: P simulations; the episodes before are given up.
      act: Maps observations [P, O] to actions [P, A], both in a policy's units; rows of simulations
        that have finished mean nothing.
      resets: P streams, of starts.
      count: Number of episodes of each simulation, >= 1.
      watch: As in `Episodes`.

    Returns:
      The outcome.
    """
    population = simulation.population
    episodes = Episodes(simulation, resets, count, watch)
    total_return = np.zeros(population)
    successes = np.zeros(population)
    env_steps = np.zeros(population, np.int64)
    diverged = np.zeros(population, bool)
    while episodes.playing.size:
        ids = episodes.playing
        result, ended = episodes.step(act(episodes.observation))
        total_return[ids] += result.reward
        env_steps[ids] += 1
        diverged[ids] |= result.diverged
        successes[ended.ids] += ended.success
    return PlayedEpisodes(
        total_return / count, successes / count, env_steps, diverged, episodes.engine_seconds
    )
