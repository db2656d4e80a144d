"""Locks a folder, so that only one run at a time writes to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from epg_tf.core.errors import RecordError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

UNLOCKED = (
    "" if fcntl else "runs are not locked on this system; let one process at a time use a folder"
)
"""What users must know where folders cannot be locked; else empty."""


def check_in_place(folder: Path, before: os.stat_result) -> None:
    """Checks that a path still names the folder that it named before, which a process holds open.

    Raises:
      RecordError: It does not.
    """
    try:
        if os.path.samestat(os.stat(folder), before):
            return
    except OSError:
        pass
    raise RecordError(
        f"{folder}: the folder was moved or deleted while a run wrote to it, so the run ends; "
        "resume it with the folder's new name, or start it again"
    )


class FolderLock:
    """Keeps other processes from writing to a folder, until it is released or this process ends."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Locks the folder, which must exist; does nothing if it is locked by this object, or if
        this system has no such locks (`UNLOCKED`).

        Raises:
          RecordError: Another process, or another run of this process, has locked it; or it cannot
            be read, or its file system has no locks.
        """
        if self._descriptor is not None or UNLOCKED:
            return
        try:
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                raise
        except BlockingIOError as error:
            raise RecordError(
                f"{self._folder}: another process is writing to this folder; wait for it, or "
                "choose another folder"
            ) from error
        except OSError as error:
            raise RecordError(
                f"{self._folder}: cannot be locked ({error.strerror}); choose another folder"
            ) from error
        self._descriptor = descriptor

    def check(self) -> None:
        """Checks that what was locked is still what the path names; does nothing if it is not
        locked by this object.

        Raises:
          RecordError: The folder was moved or deleted; another one may be in its place.
        """
        if self._descriptor is not None:
            check_in_place(self._folder, os.fstat(self._descriptor))

    def release(self) -> None:
        """Unlocks the folder; does nothing if it is not locked by this object."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
