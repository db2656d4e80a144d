"""Writes final returns of a test apart for tasks of either direction.

    python tools/returns_by_direction.py --output=FILE.json TEST

TEST is the folder of a test of epg-tf meta-test in a family whose tasks have a direction. A loss
whose mean is high may hold a gait of one direction; this shows it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from measure_test import measure_test

from epg_tf.core.errors import ConfigError
from epg_tf.core.experiment import TaskConfig
from epg_tf.core.failures import worst_for_failed
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.statistics import confidence_interval
from epg_tf.tasks.registry import make_family


def directions(task: TaskConfig, phase: str, seed: int, agents: int) -> Array:
    """Returns the direction of each agent's task, [agents]: 1 forward, -1 backward.

    Raises:
      ConfigError: Tasks of this family have no direction.
    """
    family = make_family(task)
    if "direction" not in {quantity.name for quantity in family.quantities}:
        raise ConfigError(f"tasks of {task.family} have no direction; name the test of another one")
    keys = [LifeKey(seed, phase, 0, number) for number in range(agents)]
    tasks = [family.sample_task(life_generator(key, "task")) for key in keys]
    return np.array([float(np.ravel(task["direction"])[0]) for task in tasks])


def by_direction(results: Results, forward: Array) -> dict[str, Any]:
    """Returns mean, 95 % interval and number of agents of each method in either direction.

    Args:
      results: Of a test.
      forward: [L] bool, of the agents of a method.
    """
    found: dict[str, Any] = {}
    for name, rows in results.groups().items():
        finals = worst_for_failed(rows.final())
        halves = {"forward": finals[forward], "backward": finals[~forward]}
        found[name] = {
            half: {
                "mean": float(returns.mean()),
                "ci95": list(confidence_interval(returns)),
                "agents": len(returns),
            }
            for half, returns in halves.items()
        }
    return found


def main(words: Sequence[str]) -> int:
    """Reads, writes and prints; returns the exit code."""
    return measure_test(words, __doc__, _forward, by_direction, _describe)


def _forward(results: Results, task: TaskConfig, about: Mapping[str, Any]) -> Array:
    agents = len(next(iter(results.groups().values())).agents())
    return directions(task, about["phase"], about["seed"], agents) > 0


def _describe(halves: Mapping[str, Any]) -> str:
    cells = (
        f"{half} {one['mean']:.1f} [{one['ci95'][0]:.1f}, {one['ci95'][1]:.1f}] of {one['agents']}"
        for half, one in halves.items()
    )
    return "; ".join(cells)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
