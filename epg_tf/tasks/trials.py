"""Plays trials of RL²: several episodes in one task, and what a recurrent policy must see to learn
the task from them (Duan et al. 2016, section 2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.episodes import EndedEpisodes
from epg_tf.tasks.registry import simulate


def trial_specs(family: TaskFamily) -> tuple[ts.TimeStep, Any]:
    """Returns TF-Agents' specs of time steps and actions in trials of a family, without the
    population axis; see `TrialEnvironment`.
    """
    size = family.observation_size + family.action_size + 2
    observation = tensor_spec.TensorSpec([size], tf.float32, "observation")
    if not family.discrete_actions:
        shape = [family.action_size]
        action = tensor_spec.BoundedTensorSpec(shape, tf.float32, -1.0, 1.0, "action")
        return ts.time_step_spec(observation), action
    parts = tuple(
        tensor_spec.BoundedTensorSpec([], tf.int32, 0, count - 1, "action")
        for count in family.spec.choices
    )
    return ts.time_step_spec(observation), parts if family.action_parts else parts[0]


class TrialEnvironment:
    """Plays P trials of a family in lockstep, each of `env_steps` env steps in a task of its own.

    An observation has the task's observation [O], the action before it [A] (one-hot where actions
    are discrete), the reward of that action and whether an episode ended with it; all but the first
    are 0 at the start of a trial. After the end of an episode, that is the observation with which
    the next episode of the same task starts. Only the last env step of a trial is LAST, with
    discount 0.

    Args:
      family: The family of the tasks; its time limit ends the episodes.
      population: P, >= 1.
      env_steps: Of a trial, >= 1.

    Attributes:
      family: As given.
      population: As given.
      env_steps: As given.
      episode: [P] int, number of the episode in the trial that the newest action was taken in.
      ended: The episodes that ended with that action.
      diverged: [P] bool, whether physics failed in the trial so far.
    """

    def __init__(self, family: TaskFamily, population: int, env_steps: int):
        self.family, self.population, self.env_steps = family, population, env_steps
        self._simulation = simulate(family, population)
        self._everyone = np.arange(population)

    @property
    def divergence(self) -> str:
        """Returns what was wrong where physics failed last; empty before."""
        return self._simulation.divergence

    def begin(self, keys: Sequence[LifeKey]) -> ts.TimeStep:
        """Starts new trials, in the tasks and from the starts of the lives of P keys."""
        self._starts = [life_generator(key, "reset") for key in keys]
        self._simulation.set_tasks(
            [self.family.sample_task(life_generator(key, "task")) for key in keys]
        )
        self._taken = 0
        self._return = np.zeros(self.population)
        self._next_episode = np.zeros(self.population, np.int64)
        self.episode = self._next_episode.copy()
        self.ended = EndedEpisodes(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool))
        self.diverged = np.zeros(self.population, bool)
        started = self._simulation.reset(self._everyone, self._starts)
        nothing = np.zeros((self.population, self.family.action_size + 2), np.float32)
        self._time_step = ts.restart(self._seen(started, nothing), self.population)
        return self._time_step

    def begin_episodes(self, starts: Sequence[np.random.Generator]) -> ts.TimeStep:
        """Cuts the current episodes off and starts others of the same trials.

        Args:
          starts: P streams, of these starts and of all that follow.
        """
        self._starts = list(starts)
        started = self._simulation.reset(self._everyone, self._starts)
        observation = self._seen(started, self._time_step.observation[:, started.shape[1] :])
        observation[:, -1] = 1.0
        self._return[:] = 0.0
        self._next_episode += 1
        self._time_step = self._time_step._replace(observation=observation)
        return self._time_step

    def step(self, action: Any) -> ts.TimeStep:
        """Takes an env step in each trial.

        Args:
          action: [P, A] float32, scaled from [-1, 1] to the family's bounds, and clipped; discrete
            ones [P] int32 < A, or a tuple of them where an action has parts.
        """
        family = self.family
        if family.discrete_actions:
            numbers = np.moveaxis(np.asarray(action), 0, -1) + family.choices[0]
            taken = family.choice_rows(numbers)
            result = self._simulation.step(taken)
        else:
            taken = np.clip(action, -1.0, 1.0).astype(np.float32)
            result = self._simulation.step(family.environment_action(taken).astype(np.float32))
        over = result.terminated | result.truncated
        self.diverged |= result.diverged
        self._count(result.reward, over, result.success)
        observation = result.observation
        if self.ended.ids.size:
            observation[over] = self._simulation.next_episode(self.ended.ids, self._starts)
        self._taken += 1
        last = self._taken == self.env_steps
        self._time_step = ts.TimeStep(
            np.full(self.population, ts.StepType.LAST if last else ts.StepType.MID, np.int32),
            result.reward,
            np.full(self.population, 0.0 if last else 1.0, np.float32),
            self._seen(observation, np.column_stack([taken, result.reward, over])),
        )
        return self._time_step

    def _count(self, reward: Array, over: Array, success: Array) -> None:
        """Notes the episodes that the newest step belongs to, and those that it ended."""
        self.episode = self._next_episode.copy()
        self._return += reward
        ids = np.flatnonzero(over)
        self.ended = EndedEpisodes(ids, self._return[ids], success[ids])
        self._return[ids] = 0.0
        self._next_episode[ids] += 1

    def _seen(self, observation: Array, before: Array) -> Array:
        """Returns what the policy sees, [P, O + A + 2] float32; `before` is [P, A + 2]."""
        own = self.family.policy_observation(observation)
        return np.concatenate([own, before], axis=1).astype(np.float32)
