"""Tests how much memory is found, and what is refused for it."""

import resource

import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.core.memory import MemoryRequirement, available, group_limits, refuse_what_cannot_fit

NEEDS = [
    MemoryRequirement(2.0**30, "small ones", "config.a=1"),
    MemoryRequirement(3 * 2.0**30, "L", "config.b=2"),
]


def test_what_fits_is_not_refused():
    refuse_what_cannot_fit(NEEDS, limit=4 * 2.0**30)


@pytest.mark.parametrize(("processes", "limit"), [(1, 3.9), (2, 7.9)])
def test_what_does_not_fit_is_refused_with_the_largest_need(processes, limit):
    with pytest.raises(ConfigError) as error:
        refuse_what_cannot_fit(NEEDS, processes, limit * 2.0**30)
    message = str(error.value)
    assert message.startswith("config.b=2: L need about") and "\n" not in message
    assert f"{4 * processes} GiB" in message and f"{limit} GiB" in message


def test_the_machines_memory_is_found():
    found = available()
    assert 2**28 < found < 2**50
    own, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(found) // 2, hard))
    try:
        assert available() == int(found) // 2
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (own, hard))


def test_limits_of_all_groups_around_a_process_count(tmp_path):
    membership = tmp_path / "cgroup"
    membership.write_text("0::/outer/inner\n")
    mount = tmp_path / "mount"
    (mount / "outer" / "inner").mkdir(parents=True)
    (mount / "memory.max").write_text("max\n")
    (mount / "outer" / "memory.max").write_text("4096\n")
    (mount / "outer" / "inner" / "memory.max").write_text("8192\n")
    assert sorted(group_limits(mount, membership)) == [4096, 8192]


def test_limits_of_groups_of_version_1_count(tmp_path):
    membership = tmp_path / "cgroup"
    membership.write_text("5:cpu,cpuacct:/job\n3:memory:/job\n0::/\n")
    job = tmp_path / "mount" / "memory" / "job"
    job.mkdir(parents=True)
    (job / "memory.limit_in_bytes").write_text("123\n")
    assert list(group_limits(tmp_path / "mount", membership)) == [123]


def test_a_system_without_groups_has_no_such_limits(tmp_path):
    assert not list(group_limits(tmp_path, tmp_path / "none"))
