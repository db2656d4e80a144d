"""Writes final returns of a test apart for tasks of either direction.

    python tools/returns_by_direction.py --output=FILE.json TEST

TEST is the folder of a test of epg-tf meta-test in a family whose tasks have a direction. A loss
whose mean is high may hold a gait of one direction; this shows it.
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
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.evaluation.results import Results, read_results
from epg_tf.evaluation.statistics import confidence_interval, worst_for_failed
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
        about = summary["about"]
        agents = len(next(iter(results.groups().values())).agents())
        task = TaskConfig(**about["task"])
        forward = directions(task, about["phase"], about["seed"], agents) > 0
        origin = {**about["made_with"], "task": about["task"]}
    except (ConfigError, RecordError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (KeyError, TypeError, StopIteration) as error:
        print(f"error: {given.test} holds no test of a loss of EPG ({error!r})", file=sys.stderr)
        return 2
    found = by_direction(results, forward)
    files.write_json(output, {"about": origin, **found})
    for name, halves in found.items():
        cells = (
            f"{half} {one['mean']:.1f} [{one['ci95'][0]:.1f}, {one['ci95'][1]:.1f}] of "
            f"{one['agents']}"
            for half, one in halves.items()
        )
        print(f"{name}: {'; '.join(cells)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
