"""Tests that the limits of control groups are found, of CPUs and of memory."""

from __future__ import annotations

import os

import pytest

from epg_tf.core import control_groups, memory
from epg_tf.core.threads import cpus

QUOTA, PERIOD = "cpu/a/cpu.cfs_quota_us", "cpu/a/cpu.cfs_period_us"
BYTES = "memory/a/memory.limit_in_bytes"


@pytest.mark.parametrize(
    ("membership", "files", "allowed", "size"),
    [
        ("0::/a/b", {"a/b/cpu.max": "250000 100000", "a/cpu.max": "max 100000"}, 2, None),
        ("0::/a/b", {"a/b/cpu.max": "900000 100000", "a/cpu.max": "600000 100000"}, 6, None),
        ("0::/a", {"cpu.max": "400000 100000", "memory.max": "max"}, 4, None),
        ("0::/a/b", {"a/memory.max": "4096", "a/b/memory.max": "8192"}, 64, 4096),
        ("0::/gone", {}, 64, None),
        ("3:cpu,cpuacct:/a", {QUOTA: "-1", PERIOD: "9"}, 64, None),
        ("3:cpu:/a", {QUOTA: "60", PERIOD: "20", BYTES: "123"}, 3, None),
        ("5:cpu:/b\n3:memory:/a\n0::/", {QUOTA: "6", PERIOD: "2", BYTES: "123"}, 64, 123),
        ("0::/a", {"cpu.max": "400000", "memory.max": ""}, 64, None),
        (None, {"cpu.max": "100000 100000", "memory.max": "123"}, 64, None),
    ],
)
def test_all_groups_around_a_process_limit_it(
    monkeypatch, tmp_path, membership, files, allowed, size
):
    monkeypatch.setattr(control_groups, "_MOUNT", tmp_path / "mount")
    monkeypatch.setattr(control_groups, "_MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    if membership is not None:
        (tmp_path / "membership").write_text(f"{membership}\n")
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert cpus(1) == allowed
    left, limit = memory.available()
    assert (limit == "its control group") == (size is not None)
    assert size is None or left == size - memory.peak()
