"""Makes a population of tasks one batched environment for TF-Agents' drivers and agents."""

from __future__ import annotations

import numpy as np
from tf_agents.environments import py_environment, tf_py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.registry import make_family, named_environment, simulate
from epg_tf.tasks.settings import TaskConfig


def load_environment(
    task: str | TaskConfig, population: int = 1, seed: int = 0
) -> tf_py_environment.TFPyEnvironment:
    """Returns P tasks of a family as one batched environment of TF-Agents.

    Args:
      task: "FAMILY" or "FAMILY@EPISODE_LIMIT", with the family's own frame skip, or the settings of
        an experiment.
      population: P, >= 1.
      seed: Of tasks and starts, >= 0.

    Raises:
      ConfigError: No family has that name, or its settings do not fit it.
      ValueError: As of `TaskEnvironment`.
    """
    family = named_environment(task) if isinstance(task, str) else make_family(task)
    return tf_py_environment.TFPyEnvironment(TaskEnvironment(family, population, seed))


class TaskEnvironment(py_environment.PyEnvironment):
    """Simulates P members of one family; each keeps its own task.

    The task and the starts of member i are functions of (seed, i) only. After its last step, a
    member starts its next episode in the next step, which ignores its action and returns FIRST
    (reward 0, discount 1). LAST has discount 0 after a termination (a simulation that diverged
    counts as terminated) and discount 1 at the time limit.

    Observations are [O] float32; TF-Agents replaces infinite bounds by the limits of float32.
    Actions are [A] float32 within the family's bounds, or its choices, int32 [], or [K] of K parts.

    Args:
      family: The family of the tasks; its time limit applies.
      population: P, >= 1. The environment is batched for P = 1 too.
      seed: Of tasks and starts, >= 0.

    Attributes:
      diverged: [P] bool, whether physics failed in the newest step.
      success: [P] bool, whether the goal was reached in it.

    Raises:
      ValueError: An argument is out of range, or the family has unbounded actions, which TF-Agents'
        policies cannot draw.
    """

    def __init__(self, family: TaskFamily, population: int, seed: int):
        super().__init__()
        for name, number, least in (("population", population, 1), ("seed", seed, 0)):
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise ValueError(f"{name}={number!r} must be a whole number, at least {least}")
        low, high = (bound.astype(np.float32) for bound in family.action_bounds)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError(
                f"family {family.name!r} has unbounded actions; TF-Agents needs finite bounds"
            )
        self._family = family
        self._population = population
        self._all_rows = np.arange(population)
        self._simulation = simulate(family, population)
        self._ended = np.zeros(population, bool)
        self.diverged = np.zeros(population, bool)
        self.success = np.zeros(population, bool)
        self._observation_spec = array_spec.BoundedArraySpec(
            (family.observation_size,), np.float32, name="observation"
        )
        if family.discrete_actions:
            first, last = family.choices
            self._action_spec = array_spec.BoundedArraySpec(
                first.shape, np.int32, first, last, "action"
            )
        else:
            self._action_spec = array_spec.BoundedArraySpec(
                (family.action_size,), np.float32, low, high, "action"
            )
        self.seed(seed)

    @property
    def batched(self) -> bool:
        """Returns True: every array has a leading axis P, which the specs do not contain."""
        return True

    @property
    def batch_size(self) -> int:
        """Returns P."""
        return self._population

    def observation_spec(self) -> array_spec.ArraySpec:
        """Returns the spec of one member's observation."""
        return self._observation_spec

    def action_spec(self) -> array_spec.BoundedArraySpec:
        """Returns the spec of one member's action."""
        return self._action_spec

    def seed(self, seed: int) -> None:
        """Draws new tasks of all members; the next `step` or `reset` starts new episodes."""
        keys = [LifeKey(seed, "environment", 0, number) for number in range(self._population)]
        self._starts = [life_generator(key, "reset") for key in keys]
        self._simulation.set_tasks(
            [self._family.sample_task(life_generator(key, "task")) for key in keys]
        )
        self._current_time_step = None

    def _reset(self) -> ts.TimeStep:
        """Starts new episodes of all members in their tasks."""
        for flags in (self._ended, self.diverged, self.success):
            flags[:] = False
        return ts.restart(self._simulation.reset(self._all_rows, self._starts), self._population)

    def _step(self, action: Array) -> ts.TimeStep:
        """Advances members within an episode and restarts the others.

        Args:
          action: [P, A], or if actions are discrete [P], or [P, K] of K parts.
        """
        rows = self._rows(action)
        ended, moving = np.flatnonzero(self._ended), np.flatnonzero(~self._ended)
        step_type = np.full(self._population, ts.StepType.FIRST, np.int32)
        reward = np.zeros(self._population, np.float32)
        discount = np.ones(self._population, np.float32)
        observation = np.empty((self._population, self._family.observation_size), np.float32)
        self.diverged[:] = self.success[:] = False
        if ended.size:
            observation[ended] = self._simulation.next_episode(ended, self._starts)
            self._ended[ended] = False
        if moving.size:
            result = self._simulation.step(rows[moving], moving)
            self._ended[moving] = result.terminated | result.truncated
            observation[moving], reward[moving] = result.observation, result.reward
            self.diverged[moving], self.success[moving] = result.diverged, result.success
            discount[moving] = ~result.terminated
            step_type[moving] = np.where(self._ended[moving], ts.StepType.LAST, ts.StepType.MID)
        return ts.TimeStep(step_type, reward, discount, observation)

    def _rows(self, action: Array) -> Array:
        """Returns actions in the form that simulations take, [P, A] float32."""
        spec, given = self._action_spec, np.asarray(action)
        if given.shape != (self._population, *spec.shape):
            raise ValueError(
                f"action has shape {given.shape}; it must be {(self._population, *spec.shape)}"
            )
        if not self._family.discrete_actions:
            return given.astype(np.float32)
        if ((given < spec.minimum) | (given > spec.maximum)).any():
            raise ValueError(
                f"action={given.tolist()} must be within {spec.minimum} .. {spec.maximum}"
            )
        return self._family.choice_rows(given)
