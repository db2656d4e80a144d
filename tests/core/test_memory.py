"""Tests how much memory is found, and what is refused for it."""

import resource
import types

import pytest

from epg_tf.core import memory
from epg_tf.core.errors import ConfigError
from epg_tf.core.memory import MemoryRequirement, available, refuse_what_cannot_fit

GIB = 2.0**30
SETTINGS = types.SimpleNamespace(group=types.SimpleNamespace(a=1, b=2), c=(3,))
NEEDS = [
    MemoryRequirement(GIB, "small ones", ["group.a"]),
    MemoryRequirement(3 * GIB, "L", ["group.b", "c"]),
]


def test_what_does_not_fit_is_refused_with_the_largest_need(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda processes: (8 * GIB / processes, "X"))
    refuse_what_cannot_fit(SETTINGS, NEEDS, 2)
    with pytest.raises(ConfigError) as error:
        refuse_what_cannot_fit(SETTINGS, NEEDS, 4)
    assert str(error.value) == (
        "config.group.b=2, config.c=(3,): L need about 3 GiB of memory, all that these settings "
        "keep at once 4 GiB, and X leaves a process 2 GiB; make these settings smaller, or allow "
        "it more memory"
    )


@pytest.fixture
def limit_address_space():
    """A function that limits the address space of this process until the test ends."""
    own, hard = resource.getrlimit(resource.RLIMIT_AS)
    yield lambda size: resource.setrlimit(resource.RLIMIT_AS, (int(size), hard))
    resource.setrlimit(resource.RLIMIT_AS, (own, hard))


def test_a_limit_of_address_space_is_for_each_process_and_for_libraries_too(limit_address_space):
    """What the process has mapped, and what libraries map later, is no longer there."""
    found, limit = available()
    assert 2**28 < found < 2**50 and limit != "`ulimit -v`"
    with open("/proc/self/statm") as stream:
        mapped = int(stream.read().split()[0]) * resource.getpagesize()
    limit_address_space(mapped + 2 * GIB)
    for processes in (1, 2):
        left, limit = available(processes)
        assert limit == "`ulimit -v`" and left == pytest.approx(1.3 * GIB, abs=0.1 * GIB)
    limit_address_space(mapped + GIB / 2)
    with pytest.raises(ConfigError, match="`ulimit -v` leaves a process 0 GiB"):
        refuse_what_cannot_fit(SETTINGS, NEEDS)


def test_a_limit_of_a_control_group_is_shared_by_its_processes(monkeypatch):
    monkeypatch.setattr(memory, "group_limits", lambda *_: iter([[4 * 2**30]]))
    for processes in (1, 2):
        left, limit = available(processes)
        assert limit == "its control group" and left == 4 * GIB / processes - memory.peak()
