"""Measures the speed of lives: physics alone, whole lives, and where the time of a life goes.

"Physics" is the engine; "family" is the family's own code around it: tasks and starts,
observations, rewards and ends.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

import numpy as np

from epg_tf.core.errors import ConfigError
from epg_tf.core.memory import peak
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.memory_requirements import refuse_lives_that_cannot_fit
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import Shards, thread_count
from epg_tf.tasks.base import Simulation
from epg_tf.tasks.registry import make_family, simulate

_PHYSICS_STEPS = 400  # env steps per simulation where physics is measured alone
_PHYSICS_SECONDS = 5.0  # after which no other shard of it begins


@dataclasses.dataclass(frozen=True)
class LifeSpeed:
    """Holds what one measurement found.

    Attributes:
      family: Name of the task family.
      lives: Number of lives.
      threads: Shards that ran at once.
      shard_lives: P.
      env_steps: Env steps of all lives, final episodes included.
      seconds: Wall-clock time of all lives.
      physics_env_steps_per_second: Speed of physics alone on one core, times the number of
        shards that run at once.
      life_env_steps_per_second: Speed of whole lives.
      ratio: The second by the first.
      shares: Share of the time of a life by `inner_loop.PARTS`.
      update_milliseconds: Time of one update of one shard.
      peak_rss_bytes: Largest memory of the process so far, earlier measurements included; NaN
        where the system does not tell it.
    """

    family: str
    lives: int
    threads: int
    shard_lives: int
    env_steps: int
    seconds: float
    physics_env_steps_per_second: float
    life_env_steps_per_second: float
    ratio: float
    shares: dict[str, float]
    update_milliseconds: float
    peak_rss_bytes: float


def compare_physics(
    experiment: Experiment, seed: int, lives: int, updates: int | None = None
) -> tuple[LifeSpeed, LifeSpeed | None]:
    """Measures lives in exact physics, then in coarse physics, None for families that declare none;
    arguments as of `measure_lives`.
    """
    exact = measure_lives(experiment.in_physics("exact"), seed, lives, updates)
    if not make_family(experiment.in_physics("exact").task).has_coarse_physics:
        return exact, None
    return exact, measure_lives(experiment.in_physics("coarse"), seed, lives, updates)


def measure_lives(
    experiment: Experiment, seed: int, lives: int, updates: int | None = None
) -> LifeSpeed:
    """Runs lives under a fresh loss and measures their speed, in the same process as physics alone.

    Args:
      experiment: Settings.
      seed: Of all randomness.
      lives: Number of lives.
      updates: Updates per life; None: the experiment's number.

    Raises:
      ConfigError: There are no updates to measure, or memory does not hold the lives.
    """
    if not (updates or experiment.inner.updates):
        raise ConfigError("config.inner.updates=0: lives have no updates to measure; set some")
    refuse_lives_that_cannot_fit(experiment, lives)
    keys = [LifeKey(seed, "benchmark", 0, index) for index in range(lives)]
    phi = initial_phi(experiment, seed)
    inner_settings = InnerLoopSettings(0.0, experiment.inner.learning_rate, updates=updates)
    with Shards(experiment) as shards:
        first = keys[: shards.threads * shards.shard_lives]
        shards.run(
            first, lambda life: phi, dataclasses.replace(inner_settings, updates=2)
        )  # compiles
        physics = physics_rate(experiment, keys)
        before = shards.seconds()
        started = time.perf_counter()
        results = shards.run(keys, lambda life: phi, inner_settings)
        seconds = time.perf_counter() - started
        spent = {part: total - before[part] for part, total in shards.seconds().items()}
        threads = shards.threads
    total = sum(spent.values())
    shard_updates = (updates or experiment.inner.updates) * -(-lives // shards.shard_lives)
    env_steps = int(results.env_steps.sum())
    return LifeSpeed(
        family=experiment.task.family,
        lives=lives,
        threads=threads,
        shard_lives=shards.shard_lives,
        env_steps=env_steps,
        seconds=seconds,
        physics_env_steps_per_second=physics,
        life_env_steps_per_second=env_steps / seconds,
        ratio=env_steps / seconds / physics,
        shares={part: value / total for part, value in spent.items()},
        update_milliseconds=1e3 * spent["updating"] / shard_updates,
        peak_rss_bytes=peak(),
    )


def physics_rate(experiment: Experiment, keys: Sequence[LifeKey]) -> float:
    """Measures env steps per second of physics alone, under random actions, on one core; returns
    that times the number of shards that run at once.

    Bodies, shards and frame skip are those of lives. Simulations are reset when their episode ends,
    as in a life; nothing is observed, learned or recorded.
    """
    size = experiment.compute.shard_lives
    simulation = simulate(make_family(experiment.task), size)
    begun, steps = time.perf_counter(), 0
    for start in range(0, len(keys), size):
        shard = [keys[min(start + offset, len(keys) - 1)] for offset in range(size)]
        _step_at_random(simulation, shard)
        steps += size * _PHYSICS_STEPS
        if time.perf_counter() - begun > _PHYSICS_SECONDS:
            break
    at_once = min(thread_count(experiment), -(-len(keys) // size))
    return at_once * steps / (time.perf_counter() - begun)


def _step_at_random(simulation: Simulation, keys: Sequence[LifeKey]) -> None:
    family = simulation.family
    simulation.set_tasks([family.sample_task(life_generator(key, "task")) for key in keys])
    resets = [life_generator(key, "reset") for key in keys]
    simulation.reset(np.arange(simulation.population), resets)
    shape = (_PHYSICS_STEPS, family.action_size)
    noise = [life_generator(key, "action").standard_normal(shape) for key in keys]
    for action in np.stack(noise, axis=1):
        ended = simulation.advance(family.environment_action(action))
        if ended.size:
            simulation.next_episode(ended, resets)
