"""Predicts the time of an epoch on many cores, from shards that are timed on this machine.

Shards of several sizes P are timed on one thread. Epochs are then drawn: a core runs its shards in
turn, each for the training time of its size and for final episodes until the slowest of its lives
has ended; the epoch ends with the slowest core.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

import numpy as np

from epg_tf.core.random_streams import noise_vector
from epg_tf.core.threads import configure_tensorflow
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg.evolution_strategies import mean_lifetime
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.base import Simulation, StepResult
from epg_tf.tasks.registry import make_family


@dataclasses.dataclass(frozen=True)
class ShardTimes:
    """Holds the times of a shard of one size on one thread.

    Attributes:
      update: Seconds from one update to the next, update included.
      final_step: Seconds of one env step of all its lives in their final episodes.
    """

    update: float
    final_step: float


@dataclasses.dataclass(frozen=True)
class Measurements:
    """Holds what predictions rest on.

    Attributes:
      times: P -> times of a shard of so many lives.
      final_steps: [L] env steps of the final episodes of all timed lives.
      noise_seconds: Time every rank spends on the step of phi, for which it draws all noise again.
    """

    times: dict[int, ShardTimes]
    final_steps: Array
    noise_seconds: float


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Holds the predicted time of an epoch.

    Attributes:
      cores: Number of cores.
      shard_lives: P.
      seconds: Mean time of an epoch.
      waiting: Share of a core's time that it waits for others.
      efficiency: Core time of the best single core by that of this layout; None: not predicted.
    """

    cores: int
    shard_lives: int
    seconds: float
    waiting: float
    efficiency: float | None


class Stopwatch:
    """Measures final episodes: when they start, and how many env steps each life takes in them."""

    def __init__(self, learning_steps: int, lives: int, episodes: int) -> None:
        self.lengths = np.zeros(lives, np.int64)
        self.started = 0.0
        self._left = np.full(lives, episodes)
        self._learning_steps = learning_steps
        self._steps = 0

    def __call__(self, simulation: Simulation, result: StepResult) -> None:
        """Counts one env step."""
        self._steps += 1
        if self._steps == self._learning_steps:
            self.started = time.perf_counter()
        if self._steps > self._learning_steps:
            playing = np.flatnonzero(self._left)
            self.lengths[playing] += 1
            self._left[playing] -= result.terminated | result.truncated


def measure(experiment: Experiment, sizes: Sequence[int], updates: int, seed: int) -> Measurements:
    """Times shards of several sizes on this thread.

    Args:
      experiment: Settings.
      sizes: Numbers of lives P.
      updates: Updates timed per size.
      seed: Of all randomness.
    """
    configure_tensorflow(1)
    times: dict[int, ShardTimes] = {}
    lengths = []
    for size in sizes:
        times[size], final_steps = _time_shard(experiment, size, updates, seed)
        lengths.append(final_steps)
    return Measurements(times, np.concatenate(lengths), _noise_seconds(experiment))


def _time_shard(
    experiment: Experiment, size: int, updates: int, seed: int
) -> tuple[ShardTimes, Array]:
    """Times a shard of `size` lives; also returns each life's env steps in final episodes."""
    compute = dataclasses.replace(experiment.compute, shard_lives=size, threads=1)
    experiment = dataclasses.replace(experiment, compute=compute)
    inner = experiment.inner
    loop = InnerLoop(experiment, make_family(experiment.task))
    keys = [LifeKey(seed, "benchmark", 0, index) for index in range(size)]
    phi = np.repeat(initial_phi(experiment, seed)[None], size, axis=0)
    loop.run(keys, phi, InnerLoopSettings(0.0, inner.learning_rate, updates=2))  # compiles
    watch = Stopwatch(updates * inner.update_period, size, inner.final_episodes)
    started = time.perf_counter()
    loop.run(keys, phi, InnerLoopSettings(0.0, inner.learning_rate, updates=updates), watch)
    final_seconds = time.perf_counter() - watch.started
    times = ShardTimes(
        (watch.started - started) / updates, final_seconds / float(watch.lengths.max())
    )
    return times, watch.lengths


def _noise_seconds(experiment: Experiment) -> float:
    size = initial_phi(experiment, 0).size
    started = time.perf_counter()
    for vector in range(experiment.evolution.noise_vectors):
        noise_vector(0, 0, vector, size)
    return time.perf_counter() - started


@dataclasses.dataclass(frozen=True)
class Draws:
    """Describes how epochs are drawn.

    Attributes:
      epochs: Number of epochs drawn per prediction.
      network_seconds: Time of one allreduce of the fitness.
      seed: Of the draws.
    """

    epochs: int
    network_seconds: float
    seed: int


def predict(
    experiment: Experiment, measured: Measurements, cores: Sequence[int], draws: Draws
) -> list[Prediction]:
    """Predicts epochs for every number of cores and every timed size, cores first."""
    found = [
        _predict_one(experiment, measured, size, count, draws)
        for count in cores
        for size in measured.times
    ]
    alone = min((row.seconds for row in found if row.cores == 1), default=None)
    if alone is None:
        return found
    return [dataclasses.replace(row, efficiency=alone / row.cores / row.seconds) for row in found]


def epoch_updates(experiment: Experiment) -> float:
    """Returns the mean number of updates in the lives of an epoch of evolution."""
    shortest, longest = experiment.evolution.life_lengths(experiment.inner.updates)
    return mean_lifetime(shortest, longest) if longest else 0.0


def _predict_one(
    experiment: Experiment, measured: Measurements, size: int, cores: int, draws: Draws
) -> Prediction:
    """Draws epochs on `cores` cores in shards of `size` lives; shard i is on core i mod cores."""
    generator = np.random.default_rng(draws.seed)
    times = measured.times[size]
    shards = -(-experiment.evolution.lives // size)
    longest = generator.choice(measured.final_steps, (draws.epochs, shards, size)).max(axis=2)
    seconds = np.full(longest.shape, epoch_updates(experiment) * times.update)
    if experiment.evolution.plays_final_episodes:
        seconds += longest * times.final_step
    rounds = -(-shards // cores)
    padded = np.pad(seconds, ((0, 0), (0, rounds * cores - shards)))  # [epochs, rounds * cores]
    busy = padded.reshape(draws.epochs, rounds, cores).sum(axis=1)
    network = draws.network_seconds if cores > 1 else 0.0
    epoch = busy.max(axis=1) + measured.noise_seconds + network
    waiting = float(1.0 - (busy.mean(axis=1) / epoch).mean())
    return Prediction(cores, size, float(epoch.mean()), waiting, None)
