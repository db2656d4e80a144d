"""Predicts the time of an epoch on 1 to 1,440 cores, from shards timed here and the spread of
evaluation lengths.

    python -m launch.simulate_scaling --config=configs/random_hopper.py:paper

Shards of several sizes P are timed on one thread. Epochs are then drawn: a core runs its shards in
turn, each with the training time of its size and final episodes until the slowest of its lives is
through; the epoch ends with the slowest core. docs/scaling.md says what is assumed and what was
found.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from launch import command_line  # first: it quietens the frameworks

import numpy as np  # isort: skip
from absl import flags  # isort: skip
from ml_collections import config_flags  # isort: skip

from epg_tf.core import formatting
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.inner_loop import InnerLoop, Teaching
from epg_tf.core.threads import configure_tensorflow
from epg_tf.core.experiment import Experiment
from epg_tf.core.random_streams import noise_vector
from epg_tf.core import files
from epg_tf.tasks.base import Simulation, StepResult
from epg_tf.tasks.registry import make_family
from epg_tf.core.types import Array, LifeKey

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment file, e.g. configs/random_hopper.py:paper."
)
_SIZES = flags.DEFINE_list("shard_lives", ["1", "4", "16", "64"], "Shard sizes P to time.")
_CORES = flags.DEFINE_list(
    "cores", ["1", "2", "4", "16", "64", "256", "1440"], "Numbers of cores to predict."
)
_UPDATES = flags.DEFINE_integer(
    "updates", 8, "Updates timed per size.", lower_bound=2, upper_bound=10**5
)
_EPOCHS = flags.DEFINE_integer(
    "epochs", 200, "Epochs drawn per prediction.", lower_bound=1, upper_bound=10**6
)
_NETWORK = flags.DEFINE_float(
    "network_milliseconds",
    5.0,
    "Time of one allreduce of the fitness.",
    lower_bound=0.0,
    upper_bound=1e6,
)
_JSON = flags.DEFINE_string("json", None, "File for the numbers.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)


@dataclasses.dataclass(frozen=True)
class ShardTimes:
    """What a shard of one size takes on one thread.

    Attributes:
      update: Seconds from one update to the next, update included.
      final_step: Seconds of one env step of all its lives in their final episodes.
    """

    update: float
    final_step: float


class Stopwatch:
    """Counts the env steps of final episodes and when each life was through with them."""

    def __init__(self, learning_steps: int, lives: int, episodes: int):
        self._left, self._learning = np.full(lives, episodes), learning_steps
        self.steps, self.lengths, self.started = 0, np.zeros(lives, np.int64), 0.0

    def __call__(self, simulation: Simulation, result: StepResult) -> None:
        """Takes in one env step."""
        self.steps += 1
        if self.steps == self._learning:
            self.started = time.perf_counter()
        if self.steps > self._learning:
            playing = np.flatnonzero(self._left)
            self.lengths[playing] += 1
            self._left[playing] -= result.terminated | result.truncated


def main(argv: list[str]) -> int:
    """Times shards, predicts epochs, and prints a table; returns the exit code."""
    del argv
    experiment = command_line.experiment_of(_CONFIG)
    command_line.check_json(_JSON)
    sizes, cores = _numbers("shard_lives", _SIZES.value), _numbers("cores", _CORES.value)
    configure_tensorflow(1)
    times, lengths = {}, []
    for size in sizes:
        times[size], seen = time_shard(experiment, size)
        lengths.extend(seen)
    lengths = np.array(lengths)
    serial = noise_seconds(experiment)
    print(
        f"{experiment.task.family}: {experiment.evolution.lives} lives of "
        f"{experiment.inner.updates} updates; final "
        f"episodes of a life take {lengths.mean():.0f} env steps, deviation {lengths.std():.0f}"
    )
    rows = [
        predict(experiment, size, count, times[size], lengths, serial)
        for count in cores
        for size in sizes
    ]
    alone = min(row["seconds"] for row in rows if row["cores"] == 1) if 1 in cores else None
    for row in rows:
        row["efficiency"] = None if alone is None else alone / row["cores"] / row["seconds"]
    _print(rows)
    if _JSON.value:
        files.write_json(
            Path(_JSON.value),
            {
                "rows": rows,
                "times": {s: vars(t) for s, t in times.items()},
                "noise_seconds": serial,
                "final_steps_mean": float(lengths.mean()),
                "final_steps_deviation": float(lengths.std()),
            },
        )
    return 0


def time_shard(experiment: Experiment, size: int) -> tuple[ShardTimes, Array]:
    """Times a shard of `size` lives on this thread; returns the times and each life's final env
    steps.
    """
    compute = dataclasses.replace(experiment.compute, shard_lives=size, threads=1)
    experiment = dataclasses.replace(experiment, compute=compute)
    inner, loop = experiment.inner, InnerLoop(experiment, make_family(experiment.task))
    keys = [LifeKey(_SEED.value, "benchmark", 0, index) for index in range(size)]
    phi = np.repeat(initial_phi(experiment, _SEED.value)[None], size, axis=0)
    teaching = Teaching(0.0, inner.learning_rate)
    loop.run(keys, phi, dataclasses.replace(teaching, updates=2))  # compilation
    watch = Stopwatch(_UPDATES.value * inner.update_period, size, inner.final_episodes)
    started = time.perf_counter()
    loop.run(keys, phi, dataclasses.replace(teaching, updates=_UPDATES.value), watch)
    learning, final = watch.started - started, time.perf_counter() - watch.started
    return ShardTimes(learning / _UPDATES.value, final / watch.lengths.max()), watch.lengths


def noise_seconds(experiment: Experiment) -> float:
    """Returns the time every rank spends on the step of phi: it draws all noise vectors anew."""
    size, started = initial_phi(experiment, 0).size, time.perf_counter()
    for vector in range(experiment.evolution.noise_vectors):
        noise_vector(0, 0, vector, size)
    return time.perf_counter() - started


def predict(
    experiment: Experiment,
    size: int,
    cores: int,
    times: ShardTimes,
    lengths: Array,
    serial: float,
) -> dict[str, float]:
    """Draws epochs on `cores` cores in shards of `size` lives; shard i goes to core i mod cores."""
    generator = np.random.default_rng(_SEED.value)
    shards = -(-experiment.evolution.lives // size)
    longest = generator.choice(lengths, (_EPOCHS.value, shards, size)).max(axis=2)
    seconds = (
        experiment.inner.updates * times.update + longest * times.final_step
    )  # [epochs, shards]
    rounds = -(-shards // cores)
    padded = np.pad(seconds, ((0, 0), (0, rounds * cores - shards))).reshape(
        _EPOCHS.value, rounds, cores
    )
    busy = padded.sum(axis=1)
    epoch = busy.max(axis=1) + serial + (_NETWORK.value / 1e3 if cores > 1 else 0.0)
    return {
        "cores": cores,
        "shard_lives": size,
        "seconds": float(epoch.mean()),
        "waiting": float(1.0 - (busy.mean(axis=1) / epoch).mean()),
    }


def _numbers(flag: str, words: list[str]) -> list[int]:
    if not words or not all(word.isdigit() and 0 < int(word) <= 10**5 for word in words):
        raise command_line.UsageError(
            f"--{flag}={','.join(words)} must be whole numbers above 0, separated by commas"
        )
    return [int(word) for word in words]


def _print(rows: list[dict]) -> None:
    print("| cores | P | epoch | of a core's time, waiting | efficiency |\n|---|---|---|---|---|")
    for row in rows:
        efficiency = "" if row["efficiency"] is None else f"{row['efficiency']:.0%}"
        print(
            f"| {row['cores']} | {row['shard_lives']} | {formatting.duration(row['seconds'])} | "
            f"{row['waiting']:.0%} | {efficiency} |"
        )


if __name__ == "__main__":
    command_line.run(main)
