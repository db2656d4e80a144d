"""Fills the disk at random writes: a run that is resumed then ends with the bits of an undisturbed
one.
"""

from __future__ import annotations

import contextlib
import errno
import os

import numpy as np
import pytest

from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs.evolution import evolve_in_folder
from epg_tf.runs.metagenrl import meta_learn_in_folder
from tests.conftest import TINY
from tests.faults.test_kills import left
from tests.runs.test_metagenrl import TINY as OBJECTIVE

pytestmark = pytest.mark.slow

KINDS = ("evolution", "metagenrl")


def rounds(kind, make_tiny, folder, resume=True):
    if kind == "evolution":
        experiment = make_tiny(evolution={**TINY["evolution"], "epochs": 4})
        return evolve_in_folder(experiment, 0, folder, resume=resume)
    experiment = MetaGenRLExperiment.from_mapping({**OBJECTIVE, "steps_per_agent": 48})
    return meta_learn_in_folder(experiment, 0, folder, resume=resume)


@pytest.fixture(scope="module")
def runs(make_tiny, tmp_path_factory):
    """By kind: a whole run."""
    folder = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        list(rounds(kind, make_tiny, folder / kind / "whole"))
    return folder


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
