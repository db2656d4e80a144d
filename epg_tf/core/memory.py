"""Finds how much memory there is, and refuses settings that need more before anything starts."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epg_tf.core.control_groups import group_limits
from epg_tf.core.errors import ConfigError

resource: Any
try:
    import resource
except ImportError:  # Windows
    resource = None

# What libraries and threads map after settings are checked (bytes), measured on two CPUs.
_MAPPED_LATER = 0.7 * 2**30


@dataclasses.dataclass(frozen=True)
class MemoryRequirement:
    """A part of the memory that settings need.

    Attributes:
      size: Bytes, not more than what is really used.
      purpose: What is kept there, in the plural.
      settings: Names of those that the size grows with, e.g. "loss.buffer_steps".
    """

    size: float
    purpose: str
    settings: Sequence[str]


def refuse_what_cannot_fit(
    experiment: object, needs: Sequence[MemoryRequirement], processes: int = 1
) -> None:
    """Refuses settings whose needs are larger than all the memory there is.

    Args:
      experiment: The settings.
      needs: Of one process.
      processes: Number of such processes that share the machine.

    Raises:
      ConfigError: They cannot fit; the message names the settings of the largest need.
    """
    there_is, limit = available(processes)
    total = sum(need.size for need in needs)
    if total <= there_is:
        return
    largest = max(needs, key=lambda need: need.size)
    named = [f"config.{name}={operator.attrgetter(name)(experiment)}" for name in largest.settings]
    raise ConfigError(
        f"{', '.join(named)}: {largest.purpose} need about {_gib(largest.size)} of memory, all "
        f"that these settings keep at once {_gib(total)}, and {limit} leaves a process "
        f"{_gib(max(there_is, 0.0))}; make these settings smaller, or allow it more memory"
    )


def available(processes: int = 1) -> tuple[float, str]:
    """Returns the bytes that this process may still take, whatever others use now, and by what
    they are limited; infinity where the system tells no limit.

    Args:
      processes: Number of processes that share the machine and its control groups.
    """
    if resource is None:
        return float("inf"), "this machine"
    page, mapped = resource.getpagesize(), 0
    with contextlib.suppress(OSError):  # macOS has no such file
        mapped = page * int(Path("/proc/self/statm").read_text("utf-8").split()[0])
    shared = [(os.sysconf("SC_PHYS_PAGES") * page, "this machine")]
    for (size,) in group_limits("memory", 1, ("memory.limit_in_bytes",), ("memory.max",)):
        shared.append((size, "its control group"))
    limits = [(size / processes - peak(), limit) for size, limit in shared]
    own, _ = resource.getrlimit(resource.RLIMIT_AS)
    if own != resource.RLIM_INFINITY:
        limits.append((own - mapped - _MAPPED_LATER, "`ulimit -v`"))
    return min(limits)


def peak() -> float:
    """Returns the most memory that this process has had (bytes); NaN where that is not known."""
    if resource is None:
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _gib(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"
