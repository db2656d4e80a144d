"""Kills runs at random moments, as `kill -9` does, and compares what the resumed run leaves."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

RUN = """
import sys
from pathlib import Path
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs.evolution import evolve_in_folder
from epg_tf.runs.metagenrl import meta_learn_in_folder
from tests.conftest import TINY
from tests.runs.test_metagenrl import TINY as OBJECTIVE

kind, folder, parallel = sys.argv[1:]
print("ready", flush=True)
if kind == "evolution":
    experiment = Experiment.from_mapping(
        {
            **TINY,
            "evolution": {**TINY["evolution"], "epochs": 12, "validation_period": 1},
            "compute": {**TINY["compute"], "parallel": parallel},
        }
    )
    list(evolve_in_folder(experiment, 0, Path(folder), resume=True))
else:
    experiment = MetaGenRLExperiment.from_mapping({**OBJECTIVE, "steps_per_agent": 144})
    list(meta_learn_in_folder(experiment, 0, Path(folder), resume=True))
"""
LOSSES = {"evolution": ("best", "final"), "metagenrl": ("final",)}
# MetaGenRL has threads alone.
PARALLEL = {"evolution": ("threads", "processes"), "metagenrl": ("threads",)}
KILLS = 2  # of each kind
_MARK = "KILLED_RUN"  # names the folder of a run in the environment of all its processes


def run(kind: str, folder: Path, parallel: str, seconds: float | None = None) -> int | None:
    """Runs or resumes a run.

    Args:
      kind: "evolution" or "metagenrl".
      folder: Of the run.
      parallel: What its shards run in.
      seconds: Until it is killed, counted from the moment when all is imported; None: never.

    Returns:
      None if it ended before; else the number of other processes that it had when it was killed.
    """
    words = [sys.executable, "-c", RUN, kind, str(folder), parallel]
    variables = {**os.environ, _MARK: str(folder)}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            others = len(processes(folder)) - 1
            process.kill()
            return others
        assert process.returncode == 0, process.stderr.read().decode()
        return None


def processes(folder: Path) -> list[int]:
    """Returns the ids of the processes of a run."""
    mark, found = f"{_MARK}={folder}".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is not ours
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def wait_for_the_end_of_all(folder: Path, seconds: float = 60.0) -> None:
    """Fails unless all processes of a run end; one that is still importing needs seconds."""
    end = time.monotonic() + seconds
    while left_over := processes(folder):
        assert time.monotonic() < end, f"processes {left_over} are left behind"
        time.sleep(0.1)


def left(kind: str, folder: Path) -> list[object]:
    """Returns what a run must leave: its losses to the byte, and the epochs of its rows."""
    losses = [(folder / name / "loss.npz").read_bytes() for name in LOSSES[kind]]
    lines = (folder / "metrics.csv").read_text("utf-8").splitlines()[1:]
    hidden = [path for path in folder.iterdir() if path.suffix == ".tmp"]
    return [*losses, [line.split(",")[0] for line in lines], hidden]


@pytest.mark.parametrize("kind", ["evolution", "metagenrl"])
def test_kills_at_random_moments_change_no_bit(kind, tmp_path):
    """Shards run in threads and in processes of their own in turn."""
    parallel = itertools.cycle(PARALLEL[kind])
    assert run(kind, tmp_path / "whole", next(parallel)) is None
    moments = np.random.default_rng(0 if kind == "evolution" else 1)
    others: list[int] = []
    number = 0
    while len(others) < KILLS:
        folder = tmp_path / f"killed_{number}"
        number += 1
        while len(others) < KILLS:
            found = run(kind, folder, next(parallel), float(moments.uniform(0.2, 8.0)))
            wait_for_the_end_of_all(folder)
            if found is None:
                break
            others.append(found)
        run(kind, folder, next(parallel))
        wait_for_the_end_of_all(folder)
        assert left(kind, folder) == left(kind, tmp_path / "whole")
    # Else nothing could have been left behind. Threads alone may have git beside them for a moment.
    assert sum(others) or "processes" not in PARALLEL[kind]
