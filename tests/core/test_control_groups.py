"""Tests that the limits of control groups are found, of CPUs and of memory."""

from __future__ import annotations

import os

import pytest

from epg_tf.core import control_groups, memory
from epg_tf.core.threads import cpus

QUOTA, PERIOD = "cpu/a/cpu.cfs_quota_us", "cpu/a/cpu.cfs_period_us"


@pytest.fixture
def make_groups(monkeypatch, tmp_path):
    """A function that puts this process into control groups with these files."""
    monkeypatch.setattr(control_groups, "_MOUNT", tmp_path / "mount")
    monkeypatch.setattr(control_groups, "_MEMBERSHIP", tmp_path / "membership")

    def make(membership, files):
        (tmp_path / "membership").write_text(f"{membership}\n")
        for name, text in files.items():
            path = tmp_path / "mount" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    return make


@pytest.mark.parametrize(
    ("membership", "files", "allowed"),
    [
        ("0::/a/b", {"a/b/cpu.max": "250000 100000", "a/cpu.max": "max 100000"}, 2),
        ("0::/a/b", {"a/b/cpu.max": "900000 100000", "a/cpu.max": "600000 100000"}, 6),
        ("0::/a", {"cpu.max": "400000 100000"}, 4),
        ("0::/gone", {}, 64),
        ("3:cpu,cpuacct:/a", {QUOTA: "-1", PERIOD: "9"}, 64),
        ("3:cpu:/a", {QUOTA: "60", PERIOD: "20"}, 3),
        ("3:memory:/a", {QUOTA: "6", PERIOD: "2"}, 64),
    ],
)
def test_control_groups_allow_so_many_cpus(make_groups, monkeypatch, membership, files, allowed):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    make_groups(membership, files)
    assert cpus(1) == allowed


@pytest.mark.parametrize(
    ("membership", "files", "allowed"),
    [
        (
            "0::/a/b",
            {"memory.max": "max", "a/memory.max": "4096", "a/b/memory.max": "8192"},
            4096,
        ),
        (
            "5:cpu,cpuacct:/a\n3:memory:/a\n0::/",
            {"memory/a/memory.limit_in_bytes": "123"},
            123,
        ),
    ],
)
def test_control_groups_allow_so_much_memory(make_groups, membership, files, allowed):
    make_groups(membership, files)
    left, limit = memory.available()
    assert limit == "its control group" and left == allowed - memory.peak()


def test_a_system_without_groups_has_no_limits(make_groups):
    del make_groups  # nothing is there
    assert not list(control_groups.group_limits("cpu", (), ("cpu.max",)))
