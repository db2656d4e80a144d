"""Kills runs at random moments, as `kill -9` does, and compares what the resumed run leaves. (That
no process outlives the one that started it: tests/epg/test_shard_process.py.)
"""

from __future__ import annotations

import subprocess
import sys
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

kind, folder = sys.argv[1:]
print("ready", flush=True)
if kind == "evolution":
    experiment = Experiment.from_mapping(
        {
            **TINY,
            "evolution": {**TINY["evolution"], "epochs": 12, "validation_period": 1},
            "compute": {**TINY["compute"], "threads": 2, "parallel": "processes"},
        }
    )
    list(evolve_in_folder(experiment, 0, Path(folder), resume=True))
else:
    experiment = MetaGenRLExperiment.from_mapping({**OBJECTIVE, "steps_per_agent": 144})
    list(meta_learn_in_folder(experiment, 0, Path(folder), resume=True))
"""
LOSSES = {"evolution": ("best", "final"), "metagenrl": ("final",)}
KILLS = 2  # of each kind


def run(kind: str, folder: Path, seconds: float | None = None) -> bool:
    """Runs or resumes a run, and kills it so many seconds after all is imported (None: never).

    Returns:
      Whether it was killed.
    """
    words = [sys.executable, "-c", RUN, kind, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return True
        assert process.returncode == 0, process.stderr.read().decode()
        return False


def left(kind: str, folder: Path) -> list[object]:
    """Returns what a run must leave: its losses to the byte, and the epochs of its rows."""
    losses = [(folder / name / "loss.npz").read_bytes() for name in LOSSES[kind]]
    lines = (folder / "metrics.csv").read_text("utf-8").splitlines()[1:]
    hidden = [path for path in folder.iterdir() if path.suffix == ".tmp"]
    return [*losses, [line.split(",")[0] for line in lines], hidden]


@pytest.mark.parametrize("kind", ["evolution", "metagenrl"])
def test_kills_at_random_moments_change_no_bit(kind, tmp_path):
    run(kind, tmp_path / "whole")
    moments = np.random.default_rng(0 if kind == "evolution" else 1)
    kills = number = 0
    while kills < KILLS:
        folder, number = tmp_path / f"killed_{number}", number + 1
        while kills < KILLS and run(kind, folder, float(moments.uniform(0.2, 8.0))):
            kills += 1
        run(kind, folder)
        assert left(kind, folder) == left(kind, tmp_path / "whole")
