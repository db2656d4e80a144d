"""Damages every kind of file that a run reads, and fills the disk at random writes.

A run that is resumed then either ends with the bits of an undisturbed run, or names the file in one
line and changes nothing. What single files do is tested where they are written.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil

import numpy as np
import pytest

from epg_tf.core.errors import EpgError
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs.evolution import evolve_in_folder
from epg_tf.runs.metagenrl import meta_learn_in_folder
from tests.conftest import TINY
from tests.faults.test_kills import left
from tests.runs.test_metagenrl import TINY as OBJECTIVE

pytestmark = pytest.mark.slow

KINDS = ("evolution", "metagenrl")
DAMAGES = ("torn", "flipped", "missing")
READ = {
    "evolution": ("config.json", "metrics.csv", "checkpoints/epoch_00000002.npz"),
    "metagenrl": (
        "config.json",
        "metrics.csv",
        "checkpoints/epoch_00000002.npz",
        "agents/shard_000/weights/epoch_00000002.npz",
        "agents/shard_001/steps/epoch_00000002.npz",
        "objectives/round_00000002/loss.npz",
    ),
}


def rounds(kind, make_tiny, folder, resume=True):
    if kind == "evolution":
        experiment = make_tiny(evolution={**TINY["evolution"], "epochs": 4})
        return evolve_in_folder(experiment, 0, folder, resume=resume)
    experiment = MetaGenRLExperiment.from_mapping({**OBJECTIVE, "steps_per_agent": 48})
    return meta_learn_in_folder(experiment, 0, folder, resume=resume)


@pytest.fixture(scope="module")
def runs(make_tiny, tmp_path_factory):
    """By kind: a whole run, and one that stopped after its second epoch (or round)."""
    folder = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        list(rounds(kind, make_tiny, folder / kind / "whole"))
        with contextlib.closing(rounds(kind, make_tiny, folder / kind / "half")) as half:
            list(itertools.islice(half, 2))
    return folder


def damage(path, how, generator):
    content = bytearray(path.read_bytes())
    if how == "missing":
        path.unlink()
    elif how == "torn":
        path.write_bytes(content[: generator.integers(1, len(content))])
    else:
        place = generator.integers(len(content))
        content[place] ^= 1 << generator.integers(8)
        path.write_bytes(content)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in READ[kind]])
def test_a_damaged_file_changes_no_bit_or_is_named(runs, make_tiny, tmp_path, kind, name, how):
    folder = tmp_path / "run"
    shutil.copytree(runs / kind / "half", folder)
    damage(folder / name, how, np.random.default_rng(len(name)))
    try:
        list(rounds(kind, make_tiny, folder))
    except EpgError as error:
        line = str(error)
        assert str(folder) in line and "\n" not in line
        return
    losses, whole = left(kind, folder), left(kind, runs / kind / "whole")
    if name != "metrics.csv":  # its rows may be lost, no loss is
        assert losses == whole
    assert losses[:-2] == whole[:-2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_a_full_disk_at_a_random_write_costs_nothing(
    runs, make_tiny, tmp_path, monkeypatch, kind, seed
):
    """Every file and row ends with os.fsync: there the disk is full."""
    folder, sync = tmp_path / "run", os.fsync
    left_to_write = int(np.random.default_rng(seed).integers(1, 40))

    def full(descriptor):
        nonlocal left_to_write
        left_to_write -= 1
        if left_to_write <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with contextlib.suppress(OSError):
            list(rounds(kind, make_tiny, folder))
    list(rounds(kind, make_tiny, folder))
    assert left(kind, folder) == left(kind, runs / kind / "whole")
