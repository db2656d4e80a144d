"""Measures the units of observations and rewards, so that methods do not depend on them."""

from __future__ import annotations

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.base import Simulation, TaskFamily
from epg_tf.tasks.episodes import Episodes

POPULATION = 4  # simulations of a measurement
_STEPS = 32  # env steps of each
_NEAR_ONE = 1e-2, 10.0  # sizes that policies see as they are
_LARGE_REWARDS = 20.0  # LunarLander's have 12 and teach well as they are
_ROUNDING = 1e-6  # deviation / |mean| of what does not vary
_OFFSET = 1e-3, 0.3  # deviation / |mean| of what lies far from 0; the second for means above 2
_SEED = 0


def measured_units(simulation: Simulation) -> tuple[Array, Array] | None:
    """Measures `TaskFamily.observation_units` under random actions; what changes its size later is
    not noticed.

    A component whose root mean square is not within 0.01 and 10 is multiplied by a power of two,
    which rounds nothing, so that it is about 1. One that varies by less than a thousandth of its
    mean, or by less than 0.3 of a mean above 2, is shifted by the mean, and its deviation becomes
    about 1.

    Args:
      simulation: Of `POPULATION` tasks.

    Returns:
      (shift, scale), both [O] float32; None where all is near 1 as it is.

    Raises:
      ConfigError: The environment raises an exception.
    """
    seen = _random_play(simulation)
    if not len(seen):
        return None
    mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    distance = np.abs(mean)
    moved = deviation < np.where(distance > 2.0, _OFFSET[1], _OFFSET[0]) * distance
    moved &= deviation > _ROUNDING * distance
    size = np.where(moved, deviation, np.sqrt(np.square(seen).mean(axis=0)))
    far = moved | ((size > 0.0) & ((size < _NEAR_ONE[0]) | (size > _NEAR_ONE[1])))
    if not far.any():
        return None
    shift = np.where(moved, mean, 0.0).astype(np.float32)
    exponent = np.round(-np.log2(np.where(far, size, 1.0)))
    return shift, np.exp2(np.clip(exponent, -126, 127)).astype(np.float32)


def reward_units(rewards: Array) -> Array:
    """Measures what rewards are divided by before critics learn from them; what changes their size
    later is not noticed.

    Small ones are not enlarged, since larger ones may follow, as where a goal is rarely met.

    Args:
      rewards: [P, K], of K env steps before the first update.

    Returns:
      [P] float32: the power of two nearest the root mean square where that is above 20, else 1.
    """
    size = np.sqrt(np.square(rewards.astype(np.float64)).mean(axis=1))
    exponent = np.round(np.log2(np.where(size > _LARGE_REWARDS, size, 1.0)))
    return np.exp2(np.minimum(exponent, 127)).astype(np.float32)


def _random_play(simulation: Simulation) -> Array:
    """Returns the observations of random play, [K, O] float64, without those that failed."""
    family, population = simulation.family, simulation.population
    draw, *starts = np.random.default_rng(_SEED).spawn(1 + population)
    simulation.set_tasks([family.sample_task(stream) for stream in starts])
    episodes = Episodes(simulation, starts)
    seen = [episodes.observation]
    for _ in range(_STEPS):
        action = draw.uniform(-1.0, 1.0, (population, family.action_size))
        result, _ = episodes.step(action)
        seen.append(result.observation[~result.diverged])
    return np.concatenate(seen).astype(np.float64)


def remarks(family: TaskFamily) -> list[str]:
    """Returns the family's notices, and a line for each way in which the units of policies are not
    as users may expect.
    """
    lines = [*family.notices]
    low, high = family.policy_bounds
    free = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if free.size and not family.discrete_actions:
        lines.append(
            f"actions {_listed(free)} of {family.name} lack a bound, so policies act in the "
            "environment's units there: a deviation of 1 must make sense"
        )
    if family.observation_units is not None:
        shift, scale = family.observation_units
        changed = np.flatnonzero((shift != 0.0) | (scale != 1.0))
        lines.append(
            f"observations {_listed(changed)} of {family.name} are far from 1 under random "
            "actions, so policies see them shifted or scaled"
        )
    return lines


def _listed(numbers: Array) -> str:
    """Returns the first few numbers, e.g. "0, 1, 2, ... (27 of them)"."""
    first = ", ".join(str(number) for number in numbers[:3])
    return first if numbers.size <= 3 else f"{first}, ... ({numbers.size} of them)"
