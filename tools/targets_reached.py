"""Counts the targets that agents reach while they learn, in tasks without resets (EPG, Figure 19).

    python tools/targets_reached.py --output=FILE.json TEST

TEST is the folder of a test of epg-tf meta-test in a family whose episodes go on from where the
last one stopped, and end before the limit only at the target.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core import files
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.experiment import TaskConfig
from epg_tf.core.types import Array
from epg_tf.evaluation.results import Results, read_results
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
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", required=True, help="file for the numbers, .json")
    parser.add_argument("test", help="folder of a test of epg-tf meta-test")
    given = parser.parse_args(words)
    output = Path(given.output)
    if output.suffix != ".json" or not output.parent.is_dir():
        parser.error(f"--output={output} must end in .json and lie in a folder that exists")
    if output.exists():
        parser.error(f"--output={output}: there is such a file; name another")
    try:
        results = read_results(given.test)
        summary = files.read_json(Path(given.test) / "summary.json", "the summary of a test")
        task = TaskConfig(**summary["about"]["task"])
        if not make_family(task).continues:
            raise ConfigError(f"{task.family} has resets; name the test of a family without")
        about = {**summary["about"]["made_with"], "task": summary["about"]["task"]}
    except (ConfigError, RecordError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (KeyError, TypeError) as error:
        print(f"error: {given.test} holds no test of a loss of EPG ({error!r})", file=sys.stderr)
        return 2
    found = targets_reached(results, task.episode_limit)
    files.write_json(output, {"about": about, **found})
    for name, one in found.items():
        low, high = one["ci95"]
        print(
            f"{name}: {one['targets']:.1f} [{low:.1f}, {high:.1f}] targets in "
            f"{one['episodes']:.1f} episodes of a life; {one['agents']} agents"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
