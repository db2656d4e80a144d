"""Measures speed in one run: physics alone, whole lives, and where the time of a life goes.

    python -m launch.benchmark --config=configs/random_hopper.py:paper --lives=256
    --json=benchmark.json

"Physics" is the engine, "family" what the family adds to it: drawing tasks and starts, observing,
rewarding, ending.
"""

from __future__ import annotations

import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from launch import command_line  # first: it quietens the frameworks

import numpy as np  # isort: skip
from absl import flags  # isort: skip
from ml_collections import config_flags  # isort: skip

from epg_tf.core import formatting
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.inner_loop import PARTS, Teaching
from epg_tf.epg.shards import Shards, thread_count
from epg_tf.core.experiment import Experiment
from epg_tf.core.random_streams import life_generator
from epg_tf.core import files
from epg_tf.tasks.registry import make_family, simulate
from epg_tf.core.types import LifeKey

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment file, e.g. configs/random_hopper.py:paper."
)
_LIVES = flags.DEFINE_integer("lives", 256, "Number of lives.", lower_bound=1, upper_bound=10**6)
_JSON = flags.DEFINE_string("json", None, "File for the numbers.")
_UPDATES = flags.DEFINE_integer(
    "updates", None, "Updates per life; the config's by default.", lower_bound=1, upper_bound=10**7
)
_MARKDOWN = flags.DEFINE_bool(
    "markdown", False, "Print one row of docs/throughput.md and nothing else."
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)

_PHYSICS_STEPS = 400  # env steps per simulation when physics is measured alone


def main(argv: list[str]) -> int:
    """Measures and reports; returns the exit code."""
    del argv
    experiment = command_line.experiment_of(_CONFIG)
    command_line.check_json(_JSON)
    keys = [LifeKey(_SEED.value, "benchmark", 0, index) for index in range(_LIVES.value)]
    phi = initial_phi(experiment, _SEED.value)
    with Shards(experiment) as shards:
        shards.run(
            keys[: shards.threads * experiment.compute.shard_lives],
            lambda life: phi,
            _teaching(experiment, 2),
        )
        physics = physics_rate(experiment, keys)
        before = shards.seconds()
        started = time.perf_counter()
        lives = shards.run(keys, lambda life: phi, _teaching(experiment, _UPDATES.value))
        seconds = time.perf_counter() - started
        spent = {part: total - before[part] for part, total in shards.seconds().items()}
        numbers = _numbers(
            experiment, shards.threads, physics, int(lives.env_steps.sum()), seconds, spent
        )
    print(_row(numbers)) if _MARKDOWN.value else _report(experiment, numbers)
    if _JSON.value:
        files.write_json(_JSON.value, numbers)
        print(f"numbers are in {_JSON.value}")
    return 0


def _teaching(experiment: Experiment, updates: int | None) -> Teaching:
    return Teaching(0.0, experiment.inner.learning_rate, updates=updates)


def physics_rate(experiment: Experiment, keys: list[LifeKey]) -> float:
    """Measures env steps per second of physics alone: same bodies, threads, shards and frame skip,
    random actions.

    Simulations are reset when their episode ends, as in a life; nothing is observed, learned or
    recorded.
    """
    size, threads = experiment.compute.shard_lives, thread_count(experiment)
    shards = [
        [keys[min(start + offset, len(keys) - 1)] for offset in range(size)]
        for start in range(0, len(keys), size)
    ]
    ready = threading.local()

    def run(shard: list[LifeKey]) -> None:
        if not hasattr(ready, "simulation"):
            ready.simulation = simulate(make_family(experiment.task), size)
        simulation = ready.simulation
        simulation.set_tasks(
            [simulation.family.sample_task(life_generator(key, "task")) for key in shard]
        )
        resets = [life_generator(key, "reset") for key in shard]
        simulation.reset(np.arange(size), resets)
        noise = np.stack(
            [
                life_generator(key, "action").standard_normal(
                    (_PHYSICS_STEPS, simulation.family.action_size)
                )
                for key in shard
            ],
            axis=1,
        )
        for action in noise:
            ended = simulation.advance(action)
            if ended.size:
                simulation.next_episode(ended, resets)

    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(run, shards))
        return len(shards) * size * _PHYSICS_STEPS / (time.perf_counter() - started)


def _numbers(
    experiment: Experiment,
    threads: int,
    physics: float,
    env_steps: int,
    seconds: float,
    spent: dict[str, float],
) -> dict:
    total = sum(spent.values())
    updates = (_UPDATES.value or experiment.inner.updates) * -(
        -_LIVES.value // experiment.compute.shard_lives
    )
    return {
        "family": experiment.task.family,
        "lives": _LIVES.value,
        "threads": threads,
        "shard_lives": experiment.compute.shard_lives,
        "env_steps": env_steps,
        "seconds": seconds,
        "physics_env_steps_per_second": physics,
        "life_env_steps_per_second": env_steps / seconds,
        "ratio": env_steps / seconds / physics,
        "shares": {part: value / total for part, value in spent.items()},
        "update_milliseconds": 1e3 * spent["updating"] / updates,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _report(experiment: Experiment, numbers: dict) -> None:
    count = formatting.count
    print(
        f"{numbers['family']}: {numbers['lives']} lives in shards of {numbers['shard_lives']} on "
        f"{numbers['threads']} threads, {count(numbers['env_steps'])} env steps in "
        f"{formatting.duration(numbers['seconds'])}"
    )
    print(f"physics alone  {count(numbers['physics_env_steps_per_second'])} env steps/s")
    print(
        f"whole lives    {count(numbers['life_env_steps_per_second'])} env steps/s, "
        f"{numbers['ratio']:.2f} of physics alone"
    )
    print(
        "time of a life "
        + ", ".join(f"{part} {share:.0%}" for part, share in numbers["shares"].items())
    )
    print(
        f"one update     {numbers['update_milliseconds']:.1f} ms per shard "
        f"(M {experiment.inner.update_period}, N {experiment.loss.buffer_steps}, B "
        f"{experiment.inner.minibatch})"
    )
    print(f"peak memory    {numbers['peak_rss_bytes'] / 2**30:.2f} GiB")


def _row(numbers: dict) -> str:
    shares = " / ".join(f"{numbers['shares'][part]:.0%}"[:-1] for part in PARTS)
    physics, lives = (
        formatting.count(numbers[f"{what}_env_steps_per_second"]) for what in ("physics", "life")
    )
    return f"| `{numbers['family']}` | {physics} | {lives} | {numbers['ratio']:.2f} | {shares} % |"


if __name__ == "__main__":
    command_line.run(main)
