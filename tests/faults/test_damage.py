"""Damages every kind of file that a run reads, and fills the disk in every kind that it writes.

A run that is resumed then either ends with the bits of an undisturbed run, or names the file in one
line and changes nothing.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import errno
import io
import itertools
import os
import re
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest

from epg_tf.core.errors import EpgError
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs.evolution import evolve_in_folder
from epg_tf.runs.metagenrl import meta_learn_in_folder
from epg_tf.runs.tensorboard import TensorBoardWriter
from tests.conftest import TINY
from tests.faults.test_kills import left
from tests.runs.test_metagenrl import TINY as OBJECTIVE

pytestmark = pytest.mark.slow

KINDS = ("evolution", "metagenrl")
DAMAGES = ("empty", "torn", "flipped", "missing")
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
    elif how == "empty":
        path.write_bytes(b"")
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


class FillingDisk:
    """Counts the bytes that this process writes to files in a folder; in the middle of a write the
    disk may become full for all of them.

    Attributes:
      written: Bytes by the name of the file, in which * stands for numbers.
      full: Whether no byte can be written any more.
    """

    def __init__(self, folder: Path):
        self.written: collections.Counter[str] = collections.Counter()
        self.full = False
        self._folder, self._open = folder, open
        self._last, self._bytes = "", 0

    def fill_in(self, name: str, place: int) -> None:
        """Lets the disk become full after `place` bytes of the files of a name."""
        self._last, self._bytes = name, place

    def open(self, path, mode="r", *words, **options):
        """Replaces the function `open`."""
        folder, path = str(self._folder) + os.sep, str(path)
        if not path.startswith(folder) or not set(mode) & set("awx"):
            return self._open(path, mode, *words, **options)
        inside = re.sub(r"(^|/)\.(.*)\.\d+\.tmp$", r"\1\2", path.removeprefix(folder))
        raw = Limited(path, mode.replace("b", ""))
        raw.disk, raw.kind = self, re.sub(r"\d+", "*", inside)
        stream = io.BufferedWriter(raw)
        return stream if "b" in mode else io.TextIOWrapper(stream, *words, **options)

    def room(self, name: str, size: int) -> int:
        """Counts bytes that are to be written; returns how many of them the disk takes."""
        if name == self._last and self.written[name] + size > self._bytes:
            size = self._bytes - self.written[name]
            self._last, self.full = "", True
        elif self.full:
            size = 0
        self.written[name] += size
        return size


class Limited(io.FileIO):
    """A file on a disk that fills up."""

    disk: FillingDisk
    kind: str

    def write(self, content):
        """Writes as much as there is room for."""
        taken = self.disk.room(self.kind, memoryview(content).nbytes)
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(memoryview(content).cast("B")[:taken])


LOSS = ("loss.npz", "loss.json")
WRITTEN = {
    "evolution": (
        "config.json",
        "metrics.csv",
        "checkpoints/epoch_*.npz",
        "learning_curve.png",
        "summary.json",
        *(f"{folder}/{name}" for folder in ("best", "final") for name in LOSS),
    ),
    "metagenrl": (
        "config.json",
        "metrics.csv",
        "checkpoints/epoch_*.npz",
        "agents/shard_*/weights/epoch_*.npz",
        "agents/shard_*/steps/epoch_*.npz",
        "learning_curve.png",
        "summary.json",
        *(f"{folder}/{name}" for folder in ("objectives/round_*", "final") for name in LOSS),
    ),
}


@pytest.fixture(scope="module")
def sizes(make_tiny, tmp_path_factory):
    """By kind: the bytes that a whole run writes, by the name of the file."""
    found = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp("sizes") / "run"
        disk = FillingDisk(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(builtins, "open", disk.open)
            list(rounds(kind, make_tiny, folder))
        found[kind] = disk.written
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_kinds_of_files_are_all_that_a_run_writes(sizes, kind):
    """TensorFlow writes one more, the log for TensorBoard."""
    assert sorted(sizes[kind]) == sorted(WRITTEN[kind])


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in WRITTEN[kind]]
)
def test_a_disk_that_is_full_in_the_middle_of_a_file_costs_nothing(
    runs, sizes, make_tiny, tmp_path, monkeypatch, kind, name
):
    folder, disk = tmp_path / "run", FillingDisk(tmp_path / "run")
    generator = np.random.default_rng(len(name))
    # Times in metrics.csv have more digits in some runs than in others.
    disk.fill_in(name, int(generator.integers(0.9 * sizes[kind][name])))
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", disk.open)
        with pytest.raises(OSError, match="No space left"):
            list(rounds(kind, make_tiny, folder))
        assert disk.full
        with pytest.raises(OSError, match="No space left"):  # nobody has made space
            list(rounds(kind, make_tiny, folder))
    list(rounds(kind, make_tiny, folder))
    assert left(kind, folder) == left(kind, runs / kind / "whole")


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_is_full_in_the_middle_of_the_tensorboard_log_costs_nothing(
    runs, make_tiny, tmp_path, monkeypatch, capfd, kind
):
    """No file may grow beyond some size while a random point is written."""
    folder, scalars = tmp_path / "run", TensorBoardWriter.scalars
    generator = np.random.default_rng(0)
    points_left = int(generator.integers(3))

    def full(self, *words):
        nonlocal points_left
        points_left -= 1
        if points_left >= 0:
            return scalars(self, *words)
        newest = max((folder / "tensorboard").iterdir(), key=lambda path: path.name)
        limit = newest.stat().st_size + int(generator.integers(200))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            return scalars(self, *words)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with monkeypatch.context() as patch:
        patch.setattr(TensorBoardWriter, "scalars", full)
        with pytest.raises(OSError, match="tfevents.*File too large"):
            list(rounds(kind, make_tiny, folder))
    list(rounds(kind, make_tiny, folder))
    assert left(kind, folder) == left(kind, runs / kind / "whole")
    assert "Traceback" not in capfd.readouterr().err


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
