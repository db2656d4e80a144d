"""Steps P randomised MuJoCo bodies of one family on one thread; a diverged one affects no other."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError

from epg_tf.core.types import Array
from epg_tf.tasks.base import Simulation, StepResult
from epg_tf.tasks.bodies import BodyFamily, State
from epg_tf.tasks.quantities import Task

# MuJoCo resets a simulation whose state diverges and counts one of these warnings; the rest of the
# episode would be meaningless.
_DIVERGENCE = slice(
    int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADCTRL) + 1
)

# MuJoCo itself accepts velocities up to 1e10; a life must not win by an unphysical velocity.
_MAXIMUM_SPEED = 1e4  # m/s, rad/s


class BodySimulation(Simulation):
    """Simulates P tasks of a family of MuJoCo bodies.

    Args:
      family: The family of the tasks.
      population: P.
    """

    family: BodyFamily

    def __init__(self, family: BodyFamily, population: int):
        self.family = family
        self.population = population
        self.family_seconds = 0.0
        self._batch = Batch(family.model, population, 1)
        self._fields = {name: self._batch.expand(name) for name in family.expanded}
        self._control = self._batch.bind("ctrl")
        self._tasks: list[Task] = [family.complete_task({})] * population
        self._state = State(
            self._batch.bind("qpos"),
            self._batch.bind("qvel"),
            np.zeros((population, family.goal_size)),
            {
                name: np.repeat(value[None], population, axis=0)
                for name, value in self._tasks[0].items()
            },
            {name: self._batch.bind(name) for name in family.sensed},
        )
        self._before = dataclasses.replace(  # goals and tasks are the same before a step and after
            self._state.rows(np.arange(population)),
            goal=self._state.goal,
            task=self._state.task,
            found=None,
        )
        self._found: dict[str, Array] = {}
        self._after = dataclasses.replace(self._state, found=self._found)
        self._fresh = self._batch.state.copy()
        self._divergence = self._batch.warning[:, _DIVERGENCE, 1]
        self._bounds = family.action_bounds
        self._age = np.zeros(population, np.int64)
        self._stopped_by_time = np.zeros(population, bool)
        self._all_rows = np.arange(population)

    @property
    def state(self) -> State:
        """Returns live views of the state of all simulations."""
        return self._state

    def goals(self) -> Array | None:
        """Returns what losses are told of the goals now, [P, 3], or None; see
        `BodyFamily.told_goal`.
        """
        return self.family.told_goal(self._state)

    def model(self, row: int) -> mujoco.MjModel:
        """Returns a copy of the model of simulation `row`, for rendering."""
        return self._batch.get_model(row)

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Sets tasks[i] in simulation i, with all constants that MuJoCo derives from the model."""
        started = time.perf_counter()
        self._tasks = list(tasks)
        for row, task in enumerate(tasks):
            for name, value in task.items():
                self._state.task[name][row] = value
            fields = self.family.fields(task)
            for name, values in self._fields.items():
                values[row] = fields[name]
        self.family_seconds += time.perf_counter() - started
        if self._fields:
            self._batch.set_const()
        self._batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        self._fresh = self._batch.state.copy()

    def reset(self, ids: Array, generators: Sequence[np.random.Generator]) -> Array:
        """Starts new episodes in the simulations `ids`; see `Simulation.reset`."""
        self._start_episodes(ids, generators)
        return self._observe(ids)

    def next_episode(self, ids: Array, generators: Sequence[np.random.Generator]) -> Array:
        """Starts the following episodes in `ids`; see `Simulation.next_episode`."""
        restarted = ids[~self._stopped_by_time[ids]] if self.family.continues else ids
        if restarted.size:
            self._start_episodes(restarted, generators)
        self._age[ids] = 0
        return self._observe(ids)

    def _start_episodes(self, ids: Array, generators: Sequence[np.random.Generator]) -> None:
        family, state = self.family, self._state
        started = time.perf_counter()
        self._batch.state[ids] = self._fresh[ids]  # a reset, in a tenth of the time of one
        for row in ids:
            state.qpos[row], state.qvel[row], state.goal[row] = family.start(
                generators[row], self._tasks[row]
            )
        self.family_seconds += time.perf_counter() - started
        if family.sensed:
            self._batch.forward(ids)
        self._batch.warning[ids] = 0
        self._age[ids] = 0
        self._stopped_by_time[ids] = False

    def _observe(self, ids: Array) -> Array:
        started = time.perf_counter()
        observation = self.family.observe(self._state.rows(ids)).astype(np.float32)
        self.family_seconds += time.perf_counter() - started
        return observation

    def step(self, action: Array, ids: Array | None = None) -> StepResult:
        """Advances the simulations `ids` (all if None) by one env step; see `Simulation.step`."""
        started = time.perf_counter()
        family, rows = self.family, self._all_rows if ids is None else ids
        clipped = self._clip(action)
        before = self._remember() if ids is None else self._state.rows(ids)
        family.control(self._state, self._control, rows, clipped)
        failed, engine_seconds = self._advance(ids, rows)
        self._found.clear()
        after = self._after if ids is None else self._state.rows(ids)
        self._age[rows] += 1
        observation = family.observe(after).astype(np.float32)
        reward = family.reward(before, after, clipped).astype(np.float32)
        terminated, success = family.terminated(after), family.succeeded(after)
        diverged = _diverged(failed, after.qvel, (observation, reward, clipped))
        if diverged.any():
            self.divergence = _reason(
                int(np.flatnonzero(diverged)[0]), observation, reward, clipped
            )
            observation[diverged], reward[diverged] = 0.0, 0.0
            terminated, success = terminated | diverged, success & ~diverged
        truncated = (self._age[rows] >= family.episode_limit) & ~terminated
        self._stopped_by_time[rows] = truncated
        self.family_seconds += time.perf_counter() - started - engine_seconds
        return StepResult(observation, reward, terminated, truncated, diverged, success)

    def advance(self, action: Array) -> Array:
        """Advances all simulations by one env step; see `Simulation.advance`."""
        self.family.control(self._state, self._control, self._all_rows, self._clip(action))
        diverged, _ = self._advance(None, self._all_rows)
        self._age += 1
        terminated = self.family.terminated(self._state) | diverged | _too_fast(self._state.qvel)
        self._stopped_by_time[:] = (self._age >= self.family.episode_limit) & ~terminated
        return np.flatnonzero(terminated | self._stopped_by_time)

    def _clip(self, action: Array) -> Array:
        low, high = self._bounds
        clipped: Array = np.minimum(np.maximum(action, low), high)  # np.clip takes thrice as long
        return clipped

    def _remember(self) -> State:
        """Returns the state of all simulations before a step."""
        before, state = self._before, self._state
        np.copyto(before.qpos, state.qpos)
        np.copyto(before.qvel, state.qvel)
        for name, values in state.sensed.items():
            np.copyto(before.sensed[name], values)
        return before

    def _advance(self, ids: Array | None, rows: Array) -> tuple[Array, float]:
        """Runs the physics steps of one env step.

        Returns:
          [K] bool, True where MuJoCo failed or reset the state itself, and the seconds in MuJoCo.
        """
        failed = np.zeros(self.population, bool)
        steps = self.family.physics_steps
        seconds = self._call_engine(failed, lambda: self._batch.step(ids, nstep=steps))
        if self.family.settles:
            self.family.settle(self._state, rows)
            seconds += self._call_engine(failed, lambda: self._batch.forward(ids))
        if self._divergence.any():
            failed |= self._divergence.any(axis=1)
        return failed[rows], seconds

    def _call_engine(self, failed: Array, call: Callable[[], None]) -> float:
        """Calls MuJoCo, marks in `failed` [P] where it raised, and returns the seconds it took."""
        started = time.perf_counter()
        try:
            call()
        except SimulationError as error:
            failed[error.ids] = True
        return time.perf_counter() - started


def _diverged(failed: Array, qvel: Array, outcomes: Sequence[Array]) -> Array:
    """Returns [K] bool: True where the engine failed, a velocity is unphysical, or a number of the
    outcomes, [K] or [K, ...] each, is not finite.
    """
    # Sums of squares first, one call each: they are small only if every number is.
    if _square(qvel) < _MAXIMUM_SPEED**2 and all(math.isfinite(_square(part)) for part in outcomes):
        return failed
    finite = [np.isfinite(part).reshape(len(part), -1).all(axis=1) for part in outcomes]
    return failed | _too_fast(qvel) | ~np.logical_and.reduce(finite)


def _square(values: Array) -> float:
    """Returns the sum of squares of all numbers, infinite where it is too large."""
    flat = values.ravel()
    return float(flat.dot(flat))


def _reason(row: int, observation: Array, reward: Array, action: Array) -> str:
    """Returns what was wrong with a simulation that diverged."""
    for name, values in (("action", action), ("observation", observation), ("reward", reward)):
        if not np.isfinite(values[row]).all():
            return f"the {name} was not finite"
    return "physics diverged"


def _too_fast(qvel: Array) -> Array:
    """Returns [K] bool: True where a velocity is above the maximum speed or not a number."""
    return ~(np.abs(qvel).max(axis=1) < _MAXIMUM_SPEED)
