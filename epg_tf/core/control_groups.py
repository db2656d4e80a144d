"""Reads the limits that control groups, as of containers, set to this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

_MOUNT, _MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def group_limits(
    controller: str, count: int, version_1: Sequence[str], version_2: Sequence[str]
) -> Iterator[list[int]]:
    """Yields the whole numbers in files of the groups of this process; none where one says "max".

    Args:
      controller: Of the groups.
      count: How many numbers there are in a group; files with others set no limit.
      version_1: Names of the files in groups of version 1.
      version_2: Names in those of version 2.
    """
    try:
        lines = _MEMBERSHIP.read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root, names = (_MOUNT / controller, version_1) if controllers else (_MOUNT, version_2)
        # A limit of a group holds for all groups in it; in a container the path may not exist.
        for part in (path, *Path(path).parents):
            files = [root / str(part).lstrip("/") / name for name in names]
            numbers: list[int] = []
            with contextlib.suppress(OSError, ValueError):
                numbers = [int(word) for file in files for word in file.read_text("utf-8").split()]
            if len(numbers) == count:
                yield numbers
