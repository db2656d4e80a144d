"""States where numbers come from: the commit of the code, the packages, and the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epg_tf.artifacts.artifact import versions
from epg_tf.core.files import plain

_CPU_FILE = Path("/proc/cpuinfo")


def provenance() -> dict[str, object]:
    """Returns `commit`, `versions` and `machine` of this process, for JSON."""
    return {"commit": commit(), "versions": versions(), "machine": machine()}


def continued(earlier: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns what results are made with, for JSON, where a process adds to earlier ones.

    Args:
      earlier: `made_with` and `continued_with` of those results; None where there are none.

    Returns:
      `made_with`: the provenance of the first process, None where it is not known; and, where later
      ones had others, `continued_with`: each of these once, in order.
    """
    now = provenance()
    if earlier is None:
        return {"made_with": now}
    first, later = earlier.get("made_with"), list(earlier.get("continued_with", ()))
    if plain(now) not in (first, *later):
        later.append(now)
    return {"made_with": first} | ({"continued_with": later} if later else {})


def commit() -> str | None:
    """Returns the commit of the code, or None outside a checkout."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(
            words, cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=5
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def machine() -> dict[str, object]:
    """Returns what speed and the last bits of numbers depend on; no name of the machine."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


def _processor() -> str | None:
    """Returns the name of the processor, or None where the system does not tell."""
    try:
        lines = _CPU_FILE.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None)
