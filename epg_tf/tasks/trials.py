"""Makes a trial of RL² one episode of TF-Agents: several episodes in one task, and what a
recurrent policy must see to learn the task from them (Duan et al. 2016, section 2.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from epg_tf.core.types import Array, LifeKey
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.episodes import EndedEpisodes
from epg_tf.tasks.tf_agents_environment import PopulationEnvironment, TaskEnvironment


class TrialEnvironment(PopulationEnvironment):
    """Plays P trials of a family in lockstep, each of `env_steps` env steps in a task of its own.

    An observation has the task's observation [O], the action before it [A] (one-hot where actions
    are discrete), the reward of that action and whether an episode ended with it; all but the first
    are 0 at the start of a trial. After the end of an episode, that is the observation with which
    the next episode of the same task starts. Only the last env step of a trial is LAST, with
    discount 0. Continuous actions, [A] float32, are scaled from [-1, 1] to the family's bounds, and
    clipped; discrete ones are [] int32 < A, or a tuple of them where an action has parts. `begin`
    starts trials; `reset` always starts the same ones.

    Args:
      family: The family of the tasks; its time limit ends the episodes.
      population: P, >= 1.
      env_steps: Of a trial, >= 1.

    Attributes:
      family: As given.
      env_steps: As given.
      episode: [P] int, number of the episode in the trial that the newest action was taken in.
      ended: The episodes that ended with that action.
      diverged: [P] bool, whether physics failed in the trial so far.

    Raises:
      ValueError: As by `TaskEnvironment`.
    """

    def __init__(self, family: TaskFamily, population: int, env_steps: int):
        super().__init__()
        self._inner = TaskEnvironment(family, population, 0)
        self.family, self._population, self.env_steps = family, population, env_steps
        size = family.observation_size + family.action_size + 2
        self._observation_spec = array_spec.ArraySpec((size,), np.float32, "observation")
        self._action_spec = array_spec.BoundedArraySpec(
            (family.action_size,), np.float32, -1.0, 1.0, "action"
        )
        if family.discrete_actions:
            parts = tuple(
                array_spec.BoundedArraySpec((), np.int32, 0, count - 1, "action")
                for count in family.spec.choices
            )
            self._action_spec = parts if family.action_parts else parts[0]
        self._forget()

    def _forget(self) -> None:
        """Begins to count anew."""
        self._taken = 0
        self._return = np.zeros(self._population)
        self._next_episode = np.zeros(self._population, np.int64)
        self.episode = self._next_episode.copy()
        self.ended = EndedEpisodes(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool))
        self.diverged = np.zeros(self._population, bool)

    @property
    def divergence(self) -> str:
        """Returns what was wrong where physics failed last; empty before."""
        return self._inner.divergence

    def begin(self, keys: Sequence[LifeKey]) -> ts.TimeStep:
        """Starts new trials at once, in the tasks and from the starts of the lives of P keys."""
        self._inner.set_lives(keys)
        self._forget()
        observation = self._inner.reset().observation
        self._current_time_step = ts.restart(self._seen(observation), self._population)
        return self._current_time_step

    def begin_episodes(self, starts: Sequence[np.random.Generator]) -> ts.TimeStep:
        """Cuts the current episodes off and starts others of the same trials, from P streams."""
        before = self.current_time_step()
        observation = before.observation.copy()
        size = self.family.observation_size
        started = self._inner.begin_anew(starts).observation
        observation[:, :size] = self.family.policy_observation(started)
        observation[:, -1] = 1.0
        self._return[:] = 0.0
        self._next_episode += 1
        self._current_time_step = before._replace(observation=observation)
        return self._current_time_step

    def _reset(self) -> ts.TimeStep:
        return self.begin([LifeKey(0, "environment", 1, i) for i in range(self._population)])

    def _step(self, action: Array) -> ts.TimeStep:
        if self._taken == self.env_steps:
            return self.reset()
        family = self.family
        if family.discrete_actions:
            numbers = np.moveaxis(np.asarray(action), 0, -1) + family.choices[0]
            result, seen = self._inner.step(numbers), family.choice_rows(numbers)
        else:
            seen = np.clip(action, -1.0, 1.0).astype(np.float32)
            result = self._inner.step(family.environment_action(seen).astype(np.float32))
        over = result.step_type == ts.StepType.LAST
        self._count(result.reward, over)
        observation = self._inner.start_next_episodes().observation
        self._taken += 1
        last = self._taken == self.env_steps
        return ts.TimeStep(
            np.full(self._population, ts.StepType.LAST if last else ts.StepType.MID, np.int32),
            result.reward,
            np.full(self._population, 0.0 if last else 1.0, np.float32),
            self._seen(observation, seen, result.reward, over),
        )

    def _count(self, reward: Array, over: Array) -> None:
        """Notes the episodes that the newest step belongs to, and those that it ended."""
        self.diverged |= self._inner.diverged
        self.episode = self._next_episode.copy()
        self._return += reward
        ids = np.flatnonzero(over)
        self.ended = EndedEpisodes(ids, self._return[ids], self._inner.success[ids])
        self._return[ids] = 0.0
        self._next_episode[ids] += 1

    def _seen(
        self,
        observation: Array,
        action: Array | None = None,
        reward: Array | None = None,
        over: Array | None = None,
    ) -> Array:
        """Returns what the policy sees, [P, O + A + 2]."""
        seen = np.zeros((self._population, *self._observation_spec.shape), np.float32)
        size = self.family.observation_size
        seen[:, :size] = self.family.policy_observation(observation)
        if action is not None:
            seen[:, size:-2], seen[:, -2], seen[:, -1] = action, reward, over
        return seen
