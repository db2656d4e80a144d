"""Runs launchers as a user does, with settings small enough for a test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "evolution.epochs": 4,
    "evolution.lives": 8,
    "evolution.noise_vectors": 4,
    "evolution.validation_lives": 4,
    "evolution.validation_period": 2,
    "inner.updates": 3,
    "inner.update_period": 8,
    "inner.minibatch": 4,
    "loss.buffer_steps": 64,
    "task.episode_limit": 6,
    "compute.shard_lives": 4,
    "compute.threads": 2,
}


def settings(**changes) -> list[str]:
    """Returns --config flags: the tiny settings with `changes` (GROUP__FIELD=VALUE)."""
    merged = {**TINY, **{name.replace("__", "."): value for name, value in changes.items()}}
    return [f"--config.{name}={value}" for name, value in merged.items()]


def command(name: str, *flags: str, under: Sequence[str] = ()) -> list[str]:
    """Returns the words of `UNDER python -m launch.NAME FLAGS`."""
    return [*under, sys.executable, "-m", f"launch.{name}", *flags]


def run(
    name: str, *flags: str, timeout: float = 300, under: Sequence[str] = ()
) -> subprocess.CompletedProcess:
    """Runs a launcher to its end and captures what it prints."""
    return subprocess.run(
        command(name, *flags, under=under),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(),
        check=False,
    )


def start(name: str, *flags: str, under: Sequence[str] = ()) -> subprocess.Popen:
    """Starts a launcher, to be interrupted."""
    return subprocess.Popen(
        command(name, *flags, under=under),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    )


def environment() -> dict[str, str]:
    """Returns the environment of a user: without what this test process set for itself."""
    hidden = ("TF_CPP_MIN_LOG_LEVEL", "OPENBLAS_NUM_THREADS")
    return {name: value for name, value in os.environ.items() if name not in hidden}
