"""Defines what every task family and every simulation of a family provide, for any physics engine.

A family describes tasks; a simulation steps a population of them. `bodies.BodyFamily` with
`physics.BodySimulation` is for MuJoCo bodies, `gymnasium_family` for Gymnasium's environments.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from epg_tf.core.choices import largest, one_hot
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array, EnvironmentSpec
from epg_tf.tasks.quantities import Quantity, Range, Task, ranges

SEED_LIMIT = 2**31  # exclusive upper bound of the integers that seed an environment


@dataclasses.dataclass(frozen=True)
class StepResult:
    """Holds one env step of the K stepped simulations, in the order of their ids.

    Attributes:
      observation: [K, O] float32, after the step and before any reset.
      reward: [K] float32.
      terminated: [K] bool.
      truncated: [K] bool, time limit reached and not terminated.
      diverged: [K] bool; such a row's observation and reward are 0 and its episode counts as
        terminated.
      success: [K] bool, True where the goal is reached in this step; False in families without a
        goal.
    """

    observation: Array
    reward: Array
    terminated: Array
    truncated: Array
    diverged: Array
    success: Array


def usable_bounds(low: Array, high: Array) -> tuple[Array, Array]:
    """Returns bounds of actions, both [A] float64; infinite where they are beyond 1e9, which says
    that there are none, e.g. the limits of a type of numbers.
    """
    bounds = low.ravel().astype(np.float64), high.ravel().astype(np.float64)
    return np.where(bounds[0] < -1e9, -np.inf, bounds[0]), np.where(
        bounds[1] > 1e9, np.inf, bounds[1]
    )


class TaskFamily(abc.ABC):
    """Describes a distribution p(M) over MDPs that share sizes, time limit and termination rule.

    Dynamics may depend on the task, and so may the reward: on DirectionalHopper's direction.

    Args:
      frame_skip: Physics steps in one env step, >= 1, of the engine's own timestep.
      episode_limit: Env steps after which an episode is truncated, >= 1.
      task_range: Where tasks are drawn from: see `quantities.ranges`.

    Attributes:
      name: Name in the registry.
      observation_size: O.
      action_size: A.
      action_bounds: (low, high), both [A], in the environment's units; actions are clipped to them.
      observation_units: (shift, scale), both [O] float32: a policy sees (x - shift) * scale; None
        where observations are near 1 as they are. `registry.make_family` measures it.
      discrete_actions: Whether an action is one of A choices, as a one-hot row, or one choice in
        each of K parts, as their rows side by side.
      action_parts: How many choices each of K parts has, together A; empty where an action is one
        number.
      first_action: The number of the first of those choices outside of this package, e.g. in a
        saved policy; [K] of parts.
      turning: What a turn of the world does to observations, see `EnvironmentSpec`.
      quantities: What tasks differ in.
      goal_reaching: Whether there is a goal to reach, and so a success rate.
      continues: Whether, after a time limit, the next episode starts where the last one stopped.
      notices: Lines that users should read before a run.
      how_to_bound: What a user can do where a method needs finite bounds and there are none.
      default_frame_skip: Physics steps in one env step if the user does not choose.
      default_episode_limit: Env steps in an episode if the user does not choose.
    """

    name: str
    observation_size: int
    action_size: int
    action_bounds: tuple[Array, Array]
    discrete_actions: bool = False
    observation_units: tuple[Array, Array] | None = None
    action_parts: tuple[int, ...] = ()
    first_action: int | Array = 0
    turning: tuple[tuple[int, int, float], ...] = ()
    quantities: tuple[Quantity, ...] = ()
    goal_reaching: bool = False
    continues: bool = False
    notices: tuple[str, ...] = ()
    how_to_bound: str = "choose another family"
    default_frame_skip: int = 1
    default_episode_limit: int = 1000

    def __init__(self, frame_skip: int, episode_limit: int, task_range: str = "training"):
        self.frame_skip = frame_skip
        self.episode_limit = episode_limit
        self.task_range = task_range
        self._ranges = ranges(self.quantities, task_range)

    @property
    def spec(self) -> EnvironmentSpec:
        """Returns what agents and losses must know of the family."""
        return EnvironmentSpec(
            self.observation_size,
            self.action_size,
            self.discrete_actions,
            self.turning,
            self.action_parts,
        )

    @property
    def has_coarse_physics(self) -> bool:
        """Whether the family declares coarse physics."""
        return False

    def use_coarse_physics(self) -> None:
        """Replaces the engine's physics by faster ones, before anything is simulated.

        Raises:
          ConfigError: The family declares none.
        """
        raise ConfigError(
            f"config.task.physics='coarse': {self.name} declares no coarse physics; use 'exact'"
        )

    def sample_task(self, generator: np.random.Generator) -> Task:
        """Draws one task: a value for every quantity."""

        def draw(quantity: Quantity, bounds: Range | None) -> Array:
            return quantity.nominal_value() if bounds is None else quantity.draw(generator, bounds)

        return {
            quantity.name: draw(quantity, self._ranges[quantity.name])
            for quantity in self.quantities
        }

    @property
    def action_units(self) -> tuple[Array, Array] | None:
        """(middle, half), both [A]: the environment's action is middle + half * a policy's.

        So [-1, 1] is the range of what has two finite bounds; other components, and choices, keep
        their scale. None where all do, and where all bounds are -1 and 1.
        """
        low, high = self.action_bounds
        bounded = np.isfinite(low) & np.isfinite(high)
        low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
        if self.discrete_actions or ((low == -1.0) & (high == 1.0)).all():
            return None
        return low + (high - low) / 2.0, (high - low) / 2.0

    @property
    def policy_bounds(self) -> tuple[Array, Array]:
        """(low, high), both [A]: `action_bounds` in a policy's units."""
        low, high = self.action_bounds
        bounded = np.isfinite(low) & np.isfinite(high)
        return np.where(bounded, -1.0, low), np.where(bounded, 1.0, high)

    def environment_action(self, action: Array) -> Array:
        """Returns a policy's actions [..., A] in the environment's units; not clipped."""
        if self.action_units is None:
            return action
        middle, half = self.action_units
        return middle + half * action

    @property
    def choices(self) -> tuple[Array, Array]:
        """(first, last) numbers of discrete actions outside of this package, both int32, [], or [K]
        where an action has parts.
        """
        counts = np.array(self.action_parts or self.action_size, np.int32)
        first = np.broadcast_to(np.asarray(self.first_action, np.int32), counts.shape)
        return first, first + counts - 1

    def chosen(self, action: Array) -> Array:
        """Returns the numbers, [P] or [P, K], of the largest entries of discrete actions [P, A]."""
        first, _ = self.choices
        return largest(action, self.spec.choices).reshape(-1, *first.shape) + first

    def choice_rows(self, numbers: Array) -> Array:
        """Returns discrete actions of numbers, [P] or [P, K], as one-hot rows [P, A] float32."""
        places = numbers - self.choices[0]
        return one_hot(places.reshape(len(numbers), -1), self.spec.choices)

    def policy_observation(self, observation: Array) -> Array:
        """Returns observations [..., O] in a policy's units, float32."""
        if self.observation_units is None:
            return observation
        shift, scale = self.observation_units
        return (observation - shift) * scale

    def complete_task(self, task: Mapping[str, object]) -> Task:
        """Returns `task` as arrays, with nominal values for the quantities that it does not name.

        Raises:
          ValueError: It names a quantity that the family does not have, or a value has the wrong
            size or is not allowed.
        """
        known = {quantity.name: quantity for quantity in self.quantities}
        for name in task:
            if name not in known:
                raise ValueError(
                    f"task names {name!r}; {self.name} has {sorted(known) or 'no quantities'}"
                )
        return {
            name: quantity.checked(task[name]) if name in task else quantity.nominal_value()
            for name, quantity in known.items()
        }


class Simulation(abc.ABC):
    """Simulates P tasks of one family, each with its own random streams.

    Only one thread at a time may use it.

    Attributes:
      family: The family of the tasks.
      population: P.
      family_seconds: Time spent so far in the family's own code rather than in the engine (s).
      divergence: What was wrong with the first simulation that diverged in the newest step in which
        one did, e.g. "the reward was not finite".
    """

    family: TaskFamily
    population: int
    family_seconds: float
    divergence: str = ""

    @abc.abstractmethod
    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Sets tasks[i] in simulation i; new episodes must be started afterwards."""

    @abc.abstractmethod
    def reset(self, ids: Array, generators: Sequence[np.random.Generator]) -> Array:
        """Starts new episodes in the simulations `ids`, each drawn from generators[id].

        Returns:
          Observations [len(ids), O], float32.
        """

    @abc.abstractmethod
    def next_episode(self, ids: Array, generators: Sequence[np.random.Generator]) -> Array:
        """Starts the following episodes in `ids`.

        It is `reset`, except in families that continue: there an episode that reached its time
        limit is followed by one that starts in the same state.
        """

    @abc.abstractmethod
    def step(self, action: Array, ids: Array | None = None) -> StepResult:
        """Advances the simulations `ids` (all if None) by one env step.

        Args:
          action: [K, A], clipped here to the family's bounds.
          ids: [K] sorted simulation numbers.

        Returns:
          A `StepResult` with K rows. Ended episodes stay ended until `next_episode` or `reset`.
        """

    def goals(self) -> Array | None:
        """Returns what losses are told of the goals now, [P, 3]; None where there are none."""
        return None

    @abc.abstractmethod
    def advance(self, action: Array) -> Array:
        """Advances all simulations by one env step without observations and rewards.

        Returns:
          [K] int, the simulations whose episodes ended.
        """
