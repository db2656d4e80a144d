"""Counts the targets that agents reach while they learn, in tasks without resets (EPG, Figure 19).

    python tools/targets_reached.py --output=FILE.json TEST

TEST is the folder of a test of epg-tf meta-test in a family whose episodes go on from where the
last one stopped, and end before the limit only at the target.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from measure_test import measure_test

from epg_tf.core.errors import ConfigError
from epg_tf.core.experiment import TaskConfig
from epg_tf.core.types import Array
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.statistics import confidence_interval
from epg_tf.tasks.registry import make_family


def episode_counts(env_steps: Array, returns: Array, limit: int) -> tuple[Array, Array]:
    """Counts the episodes of each life, and those that ended before the limit.

    An episode has ended between two points of a curve where the return of the newest one changes.
    So its length is known up to the distance of these points on either side, and two that end
    between the same points count as one.

    Args:
      env_steps: [T] of the points, rising.
      returns: [L, T] of the newest episode at each point; NaN where there is none.
      limit: Env steps after which an episode is cut.

    Returns:
      ([L] episodes, [L] those that are shorter than the limit, whatever is not known).
    """
    ended, early = np.zeros(len(returns), int), np.zeros(len(returns), int)
    for life, curve in enumerate(returns):
        known = np.flatnonzero(~np.isnan(curve))
        steps, values = env_steps[known], curve[known]
        new = np.flatnonzero(np.append(True, values[1:] != values[:-1])) if len(known) else known
        ends = steps[new]
        spacing = np.diff(steps).min(initial=limit)
        lengths = np.diff(np.append(0, ends))
        ended[life] = len(ends)
        early[life] = np.sum(lengths <= limit - 2 * spacing)
    return ended, early


def targets_reached(results: Results, limit: int) -> dict[str, Any]:
    """Returns episodes and targets of a life, mean and 95 % interval over agents, of each method.

    Args:
      results: Of a test.
      limit: Env steps of an episode.
    """
    found: dict[str, Any] = {}
    for name, rows in results.groups().items():
        ended, early = episode_counts(*rows.pivot(), limit)
        found[name] = {
            "targets": float(early.mean()),
            "ci95": list(confidence_interval(early.astype(float))),
            "episodes": float(ended.mean()),
            "agents": len(early),
        }
    return found


def main(words: Sequence[str]) -> int:
    """Reads, writes and prints; returns the exit code."""
    return measure_test(words, __doc__, _limit, targets_reached, _describe)


def _limit(results: Results, task: TaskConfig, about: Mapping[str, Any]) -> int:
    del results, about
    if not make_family(task).continues:
        raise ConfigError(f"{task.family} has resets; name the test of a family without")
    return task.episode_limit


def _describe(one: Mapping[str, Any]) -> str:
    low, high = one["ci95"]
    return (
        f"{one['targets']:.1f} [{low:.1f}, {high:.1f}] targets in {one['episodes']:.1f} episodes "
        f"of a life; {one['agents']} agents"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
