"""Tests that Windows and macOS, which lack parts of the standard library, end in no traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from epg_tf.core.memory import MemoryRequirement
from epg_tf.runs import folder
from epg_tf.runs.evolution import EVOLUTION
from epg_tf.runs.identity import RunIdentity
from tests.core import other_systems


@pytest.mark.parametrize(("count", "processes", "cpus"), [(8, 2, 4), (8, 9, 1), (None, 1, 1)])
def test_cpus_are_those_of_the_machine_where_a_process_has_no_own(
    monkeypatch, count, processes, cpus
):
    threads = other_systems.fresh("epg_tf.core.threads", monkeypatch)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert threads.cpus(processes) == cpus


def test_memory_that_is_not_known_refuses_nothing(monkeypatch):
    memory = other_systems.fresh("epg_tf.core.memory", monkeypatch)
    assert memory.available()[0] == float("inf") and memory.peak() != memory.peak()
    memory.refuse_what_cannot_fit(None, [MemoryRequirement(1e18, "the samples", ["a"])])


@pytest.mark.parametrize(("system", "size"), [("linux", 3 * 1024), ("darwin", 3)])
def test_the_peak_is_in_bytes(monkeypatch, system, size):
    from epg_tf.core import memory

    class Usage:
        ru_maxrss = 3

    monkeypatch.setattr(memory.resource, "getrusage", lambda who: Usage)
    monkeypatch.setattr(sys, "platform", system)
    assert memory.peak() == size


def test_a_run_says_that_it_is_not_locked(tiny, tmp_path, monkeypatch):
    lock = other_systems.fresh("epg_tf.runs.folder_lock", monkeypatch)
    monkeypatch.setattr(folder, "FolderLock", lock.FolderLock)
    monkeypatch.setattr(folder, "UNLOCKED", lock.UNLOCKED)
    for _ in range(2):  # neither keeps the other out
        target = folder.RunTarget(tmp_path / "run", resume=True)
        opened = folder.RunFolder(RunIdentity(EVOLUTION, tiny.to_mapping(), 0), target)
        assert opened.warnings == [
            "runs are not locked on this system; let one process at a time use a folder"
        ]


@pytest.mark.slow
def test_a_run_ends_as_on_this_system(tmp_path):
    code = (
        "import pytest, runpy, sys; from tests.core import other_systems\n"
        "patch = pytest.MonkeyPatch(); other_systems.remove(patch)\n"
        "runpy.run_module('launch.meta_train', run_name='__main__', alter_sys=True)"
    )
    words = ["--config=point_goal", "--config.evolution.epochs=1", "--config.evolution.lives=8"]
    words += ["--config.evolution.noise_vectors=4", f"--run_dir={tmp_path / 'run'}"]
    process = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert "runs are not locked on this system" in process.stdout
