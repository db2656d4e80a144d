"""Saves the states of a run, and loads the newest state that is undamaged.

A checkpoint is `epoch_00000012.npz`: the run's arrays, its facts (JSON), the format version, and a
SHA-256 over epoch, names, types, shapes and bytes. Equal states give equal files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core import array_files, files
from epg_tf.core.errors import RecordError, VersionError
from epg_tf.core.types import Array

FORMAT_VERSION = 1

_NAME = re.compile(r"epoch_(\d{8,})\.npz")
_FACTS, _VERSION, _CHECKSUM = "__facts__", "__format_version__", "__sha256__"
_RESERVED = (_FACTS, _VERSION, _CHECKSUM)


@dataclasses.dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run after an epoch.

    Attributes:
      epoch: The epoch it was saved with, >= 0.
      arrays: Named arrays, types and shapes as saved.
      facts: JSON values as saved; floats are exact, NaN and infinities included.
    """

    epoch: int
    arrays: dict[str, Array]
    facts: dict[str, Any]


def save(
    folder: files.PathLike,
    epoch: int,
    arrays: Mapping[str, Array],
    facts: Mapping[str, Any],
    keep: int = 3,
) -> Path:
    """Saves a state atomically, then deletes older states and unfinished files of killed runs.

    Args:
      folder: Created if missing.
      epoch: Number of the state, >= 0. States with a higher number are kept: they can only be
        damaged ones that `load_newest` skipped, and the run will replace them.
      arrays: Named arrays of numbers.
      facts: JSON-able mapping.
      keep: Number of states to keep, >= 1, including this one.

    Returns:
      The file written.

    Raises:
      ValueError: A reserved array name, an array of Python objects, epoch < 0 or keep < 1.
      TypeError: `facts` cannot be written as JSON.
      OSError: The file cannot be written; older states are unchanged.
    """
    if epoch < 0 or keep < 1:
        raise ValueError(f"epoch must be >= 0 and keep >= 1; got epoch={epoch}, keep={keep}")
    if reserved := [name for name in arrays if name in _RESERVED]:
        raise ValueError(f"array names {reserved} are reserved; rename them")
    content = {name: np.asarray(array) for name, array in arrays.items()}
    content[_FACTS] = np.frombuffer(json.dumps(dict(facts)).encode(), np.uint8)
    content[_VERSION] = np.array(FORMAT_VERSION, np.int64)
    content[_CHECKSUM] = _checksum(epoch, content)

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"epoch_{epoch:08d}.npz"
    array_files.write_arrays(path, content)
    _prune(folder, epoch, keep)
    return path


def load_newest(folder: files.PathLike) -> tuple[Checkpoint | None, list[str]]:
    """Loads the newest state that is undamaged; deletes nothing, and never raises for damage.

    Returns:
      (state, or None if there is none; one message for every newer state that was skipped, newest
      first).
    """
    messages: list[str] = []
    for epoch, path in reversed(_states(Path(folder))):
        try:
            return _load(path, epoch), messages
        except RecordError as error:
            messages.append(
                f"{error}; skipped for an older checkpoint, delete the file if you do not need it"
            )
    return None, messages


def load(folder: files.PathLike, epoch: int) -> Checkpoint:
    """Loads the state of one epoch.

    Raises:
      VersionError: Another version of this package wrote it.
      RecordError: It is missing or damaged.
    """
    return _load(Path(folder) / f"epoch_{epoch:08d}.npz", epoch)


def epochs(folder: files.PathLike) -> list[int]:
    """Returns the epochs whose states are in `folder`, damaged ones included, oldest first."""
    return [epoch for epoch, _ in _states(Path(folder))]


def _load(path: Path, epoch: int) -> Checkpoint:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    content = array_files.read_arrays(path, limit=size)  # members are not compressed
    if missing := [name for name in _RESERVED if name not in content]:
        raise RecordError(f"{path}: not a checkpoint of epg_tf, it lacks {', '.join(missing)}")
    version = content[_VERSION].tolist()
    if version != FORMAT_VERSION:
        raise VersionError(f"{path}: format version {version}, this program reads {FORMAT_VERSION}")
    checksum = content.pop(_CHECKSUM)
    if not np.array_equal(checksum, _checksum(epoch, content)):
        raise RecordError(f"{path}: the content does not match its checksum")
    facts = json.loads(content.pop(_FACTS).tobytes())
    del content[_VERSION]
    return Checkpoint(epoch, content, facts)


def _checksum(epoch: int, content: Mapping[str, Array]) -> Array:
    """Returns the SHA-256 of all that a state contains, as [32] uint8."""
    digest = hashlib.sha256()
    for name, array in sorted(content.items()):
        kind = [epoch, name, str(array.dtype), array.dtype.str, array.shape]
        digest.update(json.dumps(kind).encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _states(folder: Path) -> list[tuple[int, Path]]:
    """Returns (epoch, file) of every checkpoint in `folder`, oldest first."""
    if not folder.is_dir():
        return []
    matches = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in matches if match)


def drop_after(folder: files.PathLike, epoch: int) -> None:
    """Deletes the states of later epochs, for a run whose states are in other files, too: these are
    of another history as soon as the run goes on.
    """
    for number, path in _states(Path(folder)):
        if number > epoch:
            path.unlink(missing_ok=True)


def _prune(folder: Path, epoch: int, keep: int) -> None:
    for _, path in [state for state in _states(folder) if state[0] <= epoch][:-keep]:
        path.unlink(missing_ok=True)
    for path in folder.glob(".epoch_*.npz.*.tmp"):
        path.unlink(missing_ok=True)
