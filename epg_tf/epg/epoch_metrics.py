"""Turns an epoch of evolution into numbers for its row of metrics."""

from __future__ import annotations

import time

import numpy as np

from epg_tf.core.communication import Communicator
from epg_tf.core.types import LifeOutcomes
from epg_tf.epg import diagnostics
from epg_tf.epg.state import EvolutionState

COLUMNS = (
    "epoch",
    "alpha",
    "updates",
    "fitness_mean",
    "fitness_std",
    "fitness_min",
    "fitness_q25",
    "fitness_median",
    "fitness_q75",
    "fitness_max",
    "validation_return_mean",
    "success_rate",
    "failed_lives",
    "env_steps",
    "seconds",
    "env_steps_per_second",
    "communication_seconds",
    "communication_bytes",
    "phi_norm",
    "update_norm",
    "update_cosine",
    "signal_to_noise",
    "memory_norm",
    "goals_reached",
    "means_beyond",
)
"""Names of an epoch's numbers."""

NEWER_COLUMNS = ("memory_norm", "goals_reached", "means_beyond")
"""Those of `COLUMNS` that files of earlier versions lack."""


class Cost:
    """Measures what an epoch costs in time and communication, from its construction on."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._started = time.perf_counter()
        self._seconds = communicator.seconds
        self._bytes = communicator.bytes_sent

    def columns(self, env_steps: int) -> dict[str, float]:
        """Returns seconds, speed (env steps per second) and communication (s, bytes) until now."""
        seconds = time.perf_counter() - self._started
        return {
            "seconds": round(seconds, 3),
            "env_steps_per_second": round(env_steps / seconds, 1),
            "communication_seconds": round(self._communicator.seconds - self._seconds, 3),
            "communication_bytes": self._communicator.bytes_sent - self._bytes,
        }


def fitness(lives: LifeOutcomes) -> dict[str, float]:
    """Summarizes the final returns of an epoch's lives; all NaN if every life failed."""
    finite = lives.final_return[np.isfinite(lives.final_return)]
    values = finite if finite.size else np.array([np.nan])
    return {
        "fitness_mean": float(values.mean()),
        "fitness_std": float(values.std()),
        "fitness_min": float(values.min()),
        "fitness_q25": float(np.quantile(values, 0.25)),
        "fitness_median": float(np.median(values)),
        "fitness_q75": float(np.quantile(values, 0.75)),
        "fitness_max": float(values.max()),
    }


def outcomes(lives: LifeOutcomes) -> dict[str, float]:
    """Returns the share of successful episodes and the number of failed lives."""
    return {
        "success_rate": float(np.mean(lives.success)),
        "failed_lives": int(lives.failed.sum()),
    }


def lived(lives: LifeOutcomes) -> dict[str, float]:
    """Returns means over the lives that did not fail: the norm of the memory's weights at the end,
    how many episodes of the life ended at the goal, and the share of mean actions beyond bounds.
    """
    return {
        name: float(values[~lives.failed].mean()) if not lives.failed.all() else float("nan")
        for name, values in (
            ("memory_norm", lives.memory_norm),
            ("goals_reached", lives.goals_reached),
            ("means_beyond", lives.means_beyond),
        )
    }


def movement(before: EvolutionState, after: EvolutionState) -> dict[str, float]:
    """Returns how far phi has moved, and the cosine between its last two updates."""
    return {
        "phi_norm": float(np.linalg.norm(after.phi)),
        "update_norm": float(np.linalg.norm(after.phi - before.phi)),
        "update_cosine": diagnostics.cosine(before.last_update, after.last_update),
    }
