"""Tests what is kept in results/: runs in archives, and that no file names a machine."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import numpy as np
import pytest

from epg_tf.artifacts.artifact import load_loss
from epg_tf.runs import checkpoints

RESULTS = Path(__file__).resolve().parents[1] / "results"
RUNS = ["directional_half_cheetah", "point_goal", "random_hopper", "random_reacher"]


@pytest.mark.parametrize("study", RUNS)
def test_the_shipped_loss_is_the_best_of_the_run_in_the_archive(study, tmp_path):
    with tarfile.open(RESULTS / study / "raw.tar.xz", "r:xz") as archive:
        archive.extractall(tmp_path, filter="data")
    checkpoint, damaged = checkpoints.load_newest(tmp_path / "checkpoints")
    assert checkpoint is not None and not damaged
    np.testing.assert_array_equal(checkpoint.arrays["best_phi"], load_loss(study).phi)


def test_results_name_no_path_of_a_machine():
    files = sorted(RESULTS.rglob("*.json"))
    pattern = re.compile(r'["\s=]/\w+/')
    assert len(files) > 100
    assert [path for path in files if pattern.search(path.read_text(encoding="utf-8"))] == []
