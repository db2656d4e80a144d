"""Finds how much memory there is, and refuses settings that need more before anything starts."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from epg_tf.core.errors import ConfigError

resource: Any
try:
    import resource
except ImportError:  # Windows
    resource = None

_CONTROL_GROUPS = Path("/sys/fs/cgroup")


@dataclasses.dataclass(frozen=True)
class MemoryRequirement:
    """A part of the memory that settings need.

    Attributes:
      size: Bytes, not more than what is really used.
      purpose: What is kept there, in the plural.
      settings: Those that the size grows with, e.g. "config.loss.buffer_steps=512".
    """

    size: float
    purpose: str
    settings: str


def refuse_what_cannot_fit(
    needs: Sequence[MemoryRequirement], processes: int = 1, limit: float | None = None
) -> None:
    """Refuses settings whose needs are larger than all the memory there is.

    Args:
      needs: Of one process.
      processes: Number of such processes that share the memory.
      limit: Bytes that there are; of this machine by default.

    Raises:
      ConfigError: They cannot fit; the message names the settings of the largest need.
    """
    there_are = available() if limit is None else limit
    total = processes * sum(need.size for need in needs)
    if total <= there_are:
        return
    largest = max(needs, key=lambda need: need.size)
    raise ConfigError(
        f"{largest.settings}: {largest.purpose} need about {_gib(processes * largest.size)} of "
        f"memory, all that these settings keep at once {_gib(total)}, and there are "
        f"{_gib(there_are)}; make these settings smaller"
    )


def available() -> float:
    """Returns the bytes of memory that this process may use at most, whatever others use now.

    That is the machine's memory, or a lower limit of the process or of its control groups; infinity
    where the system tells none of them.
    """
    limits = [_of_machine(), *group_limits(_CONTROL_GROUPS, Path("/proc/self/cgroup"))]
    if resource is not None:
        own, _ = resource.getrlimit(resource.RLIMIT_AS)
        limits += [] if own == resource.RLIM_INFINITY else [own]
    return float(min(limits))


def _of_machine() -> float:
    """Returns the bytes that the machine has; infinity where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def peak() -> float:
    """Returns the most memory that this process has had (bytes); NaN where that is not known."""
    if resource is None:
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def group_limits(mount: Path, membership: Path) -> Iterator[int]:
    """Yields the memory limits (bytes) of the control groups of a process, of version 1 or 2.

    Args:
      mount: Where control groups are mounted.
      membership: File with the lines NUMBER:CONTROLLERS:PATH of the process.
    """
    try:
        lines = membership.read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = mount / "memory" if controllers else mount
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        group = root / path.lstrip("/")
        # A limit of a group holds for all groups in it; in a container the path may not exist.
        for folder in (group, *group.parents):
            yield from _limit(folder / name)
            if folder == root:
                break


def _limit(path: Path) -> Iterator[int]:
    try:
        text = path.read_text("utf-8").strip()
    except OSError:
        return
    if text.isdecimal():  # else "max"
        yield int(text)


def _gib(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"
