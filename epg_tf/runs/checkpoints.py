"""Saves the states of a run, and loads the newest state that is undamaged.

A checkpoint is `epoch_00000012.npz`: the run's arrays, its facts and what run it is (both JSON),
the format version, and a SHA-256 over epoch, names, types, shapes and bytes. Equal states of equal
runs give equal files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core import array_files, files
from epg_tf.core.errors import ConfigError, RecordError, VersionError
from epg_tf.core.types import Array
from epg_tf.runs.identity import RunIdentity

FORMAT_VERSION = 1

_NAME = re.compile(r"epoch_(\d{8,})\.npz")
_FACTS, _VERSION, _CHECKSUM = "__facts__", "__format_version__", "__sha256__"
_RUN = "__run__"  # files of earlier versions lack it
_RESERVED = (_FACTS, _VERSION, _CHECKSUM)
_MOST = 2**31  # epochs; no run has so many


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


@dataclasses.dataclass(frozen=True, eq=False)
class Wanted:
    """What a checkpoint must be like, so that a run can go on from it.

    Attributes:
      identity: Of the run; a checkpoint of another one is refused. One that does not say of which
        it is was written by an earlier version.
      arrays: Of the run before its first step: a checkpoint's have the same types and shapes, and
        whole numbers are at least 0. Others beside them do not matter.
      facts: Likewise; whole numbers are at least 0, others are below infinity.
      finite: Names of the arrays whose numbers must all be finite.
      nan: Whether the others may hold NaN.
    """

    identity: RunIdentity
    arrays: Mapping[str, Array]
    facts: Mapping[str, Any]
    finite: Set[str] = frozenset()
    nan: bool = False


class OtherRunError(RecordError):
    """A checkpoint is of a run of another seed or other settings; the message names which."""


def save(
    folder: files.PathLike,
    epoch: int,
    arrays: Mapping[str, Array],
    facts: Mapping[str, Any],
    keep: int = 3,
    identity: RunIdentity | None = None,
) -> Path:
    """Saves a state atomically, then deletes older states and unfinished files of killed runs.

    Args:
      folder: Created if missing, in a folder that must exist.
      epoch: Number of the state, >= 0. States with a higher number are kept: they can only be
        damaged ones that `load_newest` skipped, and the run will replace them.
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
    if reserved := [name for name in arrays if name in (*_RESERVED, _RUN)]:
        raise ValueError(f"array names {reserved} are reserved; rename them")
    content = {name: np.asarray(array) for name, array in arrays.items()}
    content[_FACTS] = _as_array(dict(facts))
    if identity is not None:
        content[_RUN] = _as_array(identity.described())
    content[_VERSION] = np.array(FORMAT_VERSION, np.int64)
    content[_CHECKSUM] = _checksum(epoch, content)

    folder = Path(folder)
    folder.mkdir(exist_ok=True)  # its parent exists, unless another process moved it
    path = folder / f"epoch_{epoch:08d}.npz"
    array_files.write_arrays(path, content)
    _prune(folder, epoch, keep)
    return path


def _as_array(mapping: Mapping[str, Any]) -> Array:
    return np.frombuffer(json.dumps(mapping).encode(), np.uint8)


def load_newest(
    folder: files.PathLike, wanted: Wanted | None = None
) -> tuple[Checkpoint | None, list[str]]:
    """Loads the newest state that is undamaged; deletes nothing, and never raises for damage.

    Args:
      folder: May be missing.
      wanted: What does not fit this is damaged; None: anything fits.

    Returns:
      (state, or None if there is none; one message for every newer state that was skipped, newest
      first).

    Raises:
      OtherRunError: It is of another run.
    """
    messages: list[str] = []
    for epoch, path in reversed(_states(Path(folder))):
        try:
            return _load(path, epoch, wanted), messages
        except OtherRunError:
            raise
        except RecordError as error:
            messages.append(
                f"{error}; skipped for an older checkpoint, delete the file if you do not need it"
            )
    return None, messages


def load(folder: files.PathLike, epoch: int, wanted: Wanted | None = None) -> Checkpoint:
    """Loads the state of one epoch; `wanted` as in `load_newest`.

    Raises:
      VersionError: Another version of this package wrote it.
      OtherRunError: It is of another run.
      RecordError: It is missing or damaged.
    """
    return _load(Path(folder) / f"epoch_{epoch:08d}.npz", epoch, wanted)


def epochs(folder: files.PathLike) -> list[int]:
    """Returns the epochs whose states are in `folder`, damaged ones included, oldest first."""
    return [epoch for epoch, _ in _states(Path(folder))]


def _load(path: Path, epoch: int, wanted: Wanted | None) -> Checkpoint:
    if epoch >= _MOST:
        raise RecordError(f"{path}: no run has so many epochs")
    try:
        size = path.stat().st_size
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    content = array_files.read_arrays(path, limit=size)  # members are not compressed
    if missing := [name for name in _RESERVED if name not in content]:
        raise RecordError(f"{path}: not a checkpoint of epg_tf, it lacks {', '.join(missing)}")
    version = content[_VERSION].tolist()
    if version != FORMAT_VERSION:
        raise VersionError(
            f"{path}: format version {version!r:.50}, this program reads {FORMAT_VERSION}"
        )
    checksum = content.pop(_CHECKSUM)
    if not np.array_equal(checksum, _checksum(epoch, content)):
        raise RecordError(f"{path}: the content does not match its checksum")
    del content[_VERSION]
    facts = _as_mapping(path, content.pop(_FACTS))
    run = _as_mapping(path, content.pop(_RUN)) if _RUN in content else None
    found = Checkpoint(epoch, content, facts)
    if wanted is not None:
        if run is not None:
            _check_run(path, run, wanted.identity)
        _check_fit(path, found, wanted)
    return found


def _as_mapping(path: Path, array: Array) -> dict[str, Any]:
    """Reads what `_as_array` made."""
    try:
        mapping = json.loads(array.tobytes())
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: it holds no facts ({files.one_line(error)})") from error
    if not isinstance(mapping, dict):
        raise RecordError(f"{path}: it holds no facts")
    return mapping


def _check_run(path: Path, run: Mapping[str, Any], identity: RunIdentity) -> None:
    """Refuses the checkpoint of another run."""
    try:
        difference = identity.difference(run, f"the run that wrote {path}")
    except ConfigError as error:
        raise RecordError(f"{path}: its settings are not usable ({error})") from error
    if difference:
        raise OtherRunError(
            f"{difference}; remove that file, restore config.json if it was changed, or pass "
            "overwrite=True to start again"
        )


def _check_fit(path: Path, found: Checkpoint, wanted: Wanted) -> None:
    """Refuses arrays and facts that the run cannot go on from."""
    lacking = (wanted.arrays.keys() - found.arrays) | (wanted.facts.keys() - found.facts)
    if missing := ", ".join(sorted(lacking))[:100]:
        raise VersionError(f"{path}: it lacks {missing}, so another version of epg_tf wrote it")
    for name, like in wanted.arrays.items():
        values = found.arrays[name]
        if (values.dtype, values.shape) != (like.dtype, like.shape):
            raise RecordError(
                f"{path}: {name} has type {values.dtype} and shape {values.shape}, this run's has "
                f"{like.dtype} and {like.shape}"
            )
        below = values.dtype.kind in "iu" and (values < 0).any()
        endless = name in wanted.finite and not np.isfinite(values).all()
        if below or endless or not (wanted.nan or np.array_equal(values, values)):
            raise RecordError(f"{path}: {name} is negative, infinite or NaN somewhere")
    for name, like in wanted.facts.items():
        value = found.facts[name]
        whole = type(value) is int and 0 <= value < 2**62
        if not (whole or (isinstance(like, float) and type(value) is float and value < math.inf)):
            raise RecordError(f"{path}: {name}={value!r:.50} is not usable")


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
