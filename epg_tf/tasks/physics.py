"""Steps P randomised simulations of one family on one thread and isolates those that diverge."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError

from epg_tf.tasks.base import State, Task, TaskFamily

# MuJoCo resets a simulation whose state explodes and counts one of these; the episode is then meaningless.
_DIVERGENCE = [int(w) for w in (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL,
                                mujoco.mjtWarning.mjWARN_BADQACC, mujoco.mjtWarning.mjWARN_BADCTRL)]


# Divergence is reported in results; MuJoCo would also print it and write MUJOCO_LOG.TXT to the working directory.
mujoco.set_mju_user_warning(lambda message: None)

# MuJoCo itself only minds 1e10; a life must not win by a velocity that no body has.
_TOP_SPEED = 1e4  # m/s, rad/s


@dataclasses.dataclass(frozen=True)
class StepResult:
    """One env step of the simulations that were stepped, in the order of their ids.

    Attributes:
      observation: [K, O] float32, after the step and before any reset.
      reward: [K] float32.
      terminated: [K] bool.
      truncated: [K] bool, time limit reached and not terminated.
      diverged: [K] bool; such a row's observation and reward are 0 and its episode counts as terminated.
    """

    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    diverged: np.ndarray


class Simulation:
    """P simulations of `family`, each with its own task and its own stream of resets.

    Args:
      family: What is simulated.
      population: P.
      threads: Native threads of the physics; a shard uses 1.
    """

    def __init__(self, family: TaskFamily, population: int, threads: int = 1):
        self.family = family
        self.population = population
        self._batch = Batch(family.model, population, threads)
        self._fields = {name: self._batch.expand(name) for name in family.expanded}
        self._control = self._batch.bind("ctrl")
        goal = np.zeros((population, family.goal_size))
        self._state = State(self._batch.bind("qpos"), self._batch.bind("qvel"), goal)
        limited = family.model.actuator_ctrllimited.astype(bool)
        self._low = np.where(limited, family.model.actuator_ctrlrange[:, 0], -np.inf)
        self._high = np.where(limited, family.model.actuator_ctrlrange[:, 1], np.inf)
        self._age = np.zeros(population, np.int64)
        self._everyone = np.arange(population)

    @property
    def state(self) -> State:
        """Live views of where the simulations stand."""
        return self._state

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Gives simulation i the body of tasks[i]; derived constants (inertia sums, ...) follow."""
        for name, values in self._fields.items():
            for row, task in enumerate(tasks):
                values[row] = task[name]
        if self._fields:
            self._batch.set_const()

    def reset(self, ids: np.ndarray, generators: Sequence[np.random.Generator]) -> np.ndarray:
        """Starts new episodes in the simulations `ids`, each drawn from generators[id].

        Returns:
          Observations [len(ids), O], float32.
        """
        self._batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        for row in ids:
            self._state.qpos[row], self._state.qvel[row], self._state.goal[row] = self.family.start(generators[row])
        self._batch.warning[ids] = 0
        self._age[ids] = 0
        return self.family.observe(self._state.rows(ids)).astype(np.float32)

    def step(self, action: np.ndarray, ids: np.ndarray | None = None) -> StepResult:
        """Advances the simulations `ids` (all if None) by one env step.

        Args:
          action: [K, A], clipped here to the control range.
          ids: [K] sorted simulation numbers.

        Returns:
          A `StepResult` with K rows. Ended episodes stay as they are until `reset`.
        """
        rows = self._everyone if ids is None else ids
        clipped = np.clip(action, self._low, self._high)
        before = self._state.rows(rows)
        self._control[rows] = clipped
        diverged = self._advance(ids, rows)
        after = self._state if ids is None else self._state.rows(rows)
        self._age[rows] += 1
        observation = self.family.observe(after).astype(np.float32)
        reward = self.family.reward(before, after, clipped).astype(np.float32)
        terminated = self.family.terminated(after)
        diverged |= _exploded(after.qvel) | ~np.isfinite(reward + observation.sum(axis=1))
        if diverged.any():
            observation[diverged], reward[diverged] = 0.0, 0.0
            terminated = terminated | diverged
        truncated = (self._age[rows] >= self.family.episode_limit) & ~terminated
        return StepResult(observation, reward, terminated, truncated, diverged)

    def advance(self, action: np.ndarray) -> np.ndarray:
        """Advances all simulations by one env step without observing or rewarding; returns those that ended, [K]."""
        self._control[:] = np.clip(action, self._low, self._high)
        diverged = self._advance(None, self._everyone)
        self._age += 1
        over = self.family.terminated(self._state) | (self._age >= self.family.episode_limit)
        over |= diverged | _exploded(self._state.qvel)
        return np.flatnonzero(over)

    def _advance(self, ids: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
        """Runs frame_skip physics steps; returns [K] bool, True where MuJoCo failed or reset the state itself."""
        failed = np.zeros(self.population, bool)
        try:
            self._batch.step(ids, nstep=self.family.frame_skip)
        except SimulationError as error:
            failed[error.ids] = True
        return failed[rows] | self._batch.warning[rows][:, _DIVERGENCE, 1].any(axis=1)


def _exploded(qvel: np.ndarray) -> np.ndarray:
    """Returns [K] bool: True where a velocity is beyond reason or not a number."""
    return ~(np.abs(qvel).max(axis=1) < _TOP_SPEED)
