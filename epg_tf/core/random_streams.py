"""Turns (seed, phase, epoch, index, purpose) into independent random streams.

Draws of training and testing come from generators made here: counter-based Philox, keyed through
NumPy's SeedSequence. Streams need no saved state: resuming, other shard layouts and other machines
meet the same numbers.
"""

from __future__ import annotations

import numpy as np

from epg_tf.core.types import Array, LifeKey

# Order is part of the numbers: append, never reorder.
PHASES = (
    "evolution",
    "validation",
    "tuning",
    "test",
    "benchmark",
    "environment",
    "diagnosis",
    "distillation",
    "metagenrl",
    "objective_test",
    "objective_tuning",
    "reporting",  # of published numbers alone; nothing is chosen by them
    "objective_reporting",
    "rl2",
    "analysis",  # of what losses do to agents; nothing is chosen or compared by them
    "objective_validation",
    "beginning",  # of a loss around a fixed policy
)
PURPOSES = (
    "task",
    "policy",
    "action",
    "reset",
    "minibatch",
    "final_action",
    "final_reset",
    "critic",
    "target_noise",
    "objective",
    "start",
    "past",
)
_LIFE, _NOISE, _LOSS, _LIFETIME, _START = 0, 1, 2, 3, 4


def _generator(seed: int, *path: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=path)))


def life_generator(key: LifeKey, purpose: str) -> np.random.Generator:
    """Returns the stream of one purpose (of `PURPOSES`) in the life named by `key`."""
    return _generator(
        key.seed, _LIFE, PHASES.index(key.phase), key.epoch, key.index, PURPOSES.index(purpose)
    )


def noise_vector(seed: int, epoch: int, vector: int, size: int) -> Array:
    """Returns epsilon_v of `epoch`, [size] float32 ~ N(0, I) (Algorithm 1, line 2)."""
    return _generator(seed, _NOISE, epoch, vector).standard_normal(size, dtype=np.float32)


def lifetime_generator(seed: int, epoch: int) -> np.random.Generator:
    """Returns the stream that decides how long the lives of `epoch` are."""
    return _generator(seed, _LIFETIME, epoch)


def start_generator(seed: int) -> np.random.Generator:
    """Returns the stream that draws the policy from which an evolved initialisation starts."""
    return _generator(seed, _START)


def loss_generator(seed: int) -> np.random.Generator:
    """Returns the stream that initialises the loss parameters phi."""
    return _generator(seed, _LOSS)
