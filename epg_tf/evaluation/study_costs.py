"""What evolution costs until its loss beats a baseline: which epochs to test, when it was ahead,
ratios of costs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from epg_tf.epg import evolution_strategies
from epg_tf.epg.settings import Experiment


@dataclasses.dataclass(frozen=True)
class Cost:
    """Env steps of meta-training until a loss was ahead.

    Attributes:
      env_steps: Their number.
      least: Whether the true number may be larger, for a run ended before it was ahead.
    """

    env_steps: float
    least: bool


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times as much one estimator costs as another.

    Attributes:
      value: The ratio; None where nothing is known.
      meaning: "about" (costs are known to one distance between tests), "at least" (the first one's
        cost is a lower bound), "at most" (the other's is), or "unknown" (both are, or the other was
        ahead before any env step).
    """

    value: float | None
    meaning: str


def epoch_env_steps(experiment: Experiment) -> float:
    """Returns the env steps of an epoch's lives, without validation.

    With `evolution.shortest_life` this is the mean over lengths of lives. It is an upper bound in
    families whose episodes may end early, for final episodes are counted at `task.episode_limit`.
    They are 0 where fitness is of the training episodes.
    """
    evolution, inner = experiment.evolution, experiment.inner
    shortest, longest = evolution.life_lengths(inner.updates)
    updates = float(longest)
    if shortest < longest:
        updates = evolution_strategies.mean_lifetime(shortest, longest)
    final = (
        inner.final_episodes * experiment.task.episode_limit
        if evolution.plays_final_episodes
        else 0
    )
    return evolution.lives * (updates * inner.update_period + final)


def evaluation_epochs(epochs: int, points: int) -> list[int]:
    """Returns the epochs after which phi is tested: 0, then `points` at equal distances up to the
    last (or all).
    """
    return sorted({(2 * number * epochs + points) // (2 * points) for number in range(points + 1)})


def first_above(rows: Sequence[Mapping[str, float]], level: float) -> int | None:
    """Returns the env steps of the first test whose interval lies wholly above `level`, None if
    there is none.

    Args:
      rows: Tests of one run in their order, with `env_steps` and `low`, the lower end of the
      interval.
      level: Upper end of the interval to beat; NaN is never beaten.
    """
    return next((int(row["env_steps"]) for row in rows if row["low"] > level), None)


def median_cost(first: Sequence[int | None], spent: Sequence[int]) -> Cost:
    """Returns the median cost over runs.

    Args:
      first: [S] what `first_above` returns of each run; None means: more than it has spent.
      spent: [S] env steps of each whole run.
    """
    least = float(
        np.median(
            [total if steps is None else steps for steps, total in zip(first, spent, strict=True)]
        )
    )
    most = float(np.median([np.inf if steps is None else float(steps) for steps in first]))
    return Cost(least, least < most)


def cost_ratio(cost: Cost, other: Cost) -> Ratio:
    """Returns how many times as much `cost` is as `other`, and whether that is a bound."""
    if other.env_steps == 0 or (cost.least and other.least):
        return Ratio(None, "unknown")
    meaning = "at least" if cost.least else "at most" if other.least else "about"
    return Ratio(cost.env_steps / other.env_steps, meaning)
