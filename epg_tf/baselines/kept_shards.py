"""Keeps the shards of agents that have lived in a test, so that a method of hours can go on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.baselines.lived_shards import LivedShard
from epg_tf.core import array_files, files
from epg_tf.core.errors import RecordError

FOLDER = "unfinished_shards"
"""Name of the folder of shards in the folder of a test."""
_OVERHEAD = 2**16  # bytes of a file besides its numbers


def digest_of_test(about: Mapping[str, Any], agents: int) -> str:
    """Returns what names a test in the files of its shards.

    Args:
      about: What is tested and how, without what it is made with.
      agents: Of each method; the last shard depends on it.
    """
    text = json.dumps({"about": files.plain(about), "agents": agents}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class ShardFiles:
    """Keeps the shards of one method that have lived, each in a file, so that a stopped test can go
    on. A shard is known by the numbers of its first and last agent.

    Attributes:
      folder: Of the test.
      method: Key of the method.
      test: Its `digest_of_test`; shards of other tests are not read.
      state: Writes beside the shards what is tested and made with; called before each is written.
    """

    folder: Path
    method: str
    test: str
    state: Callable[[], None]
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def read(self, ends: tuple[int, int], shape: tuple[int, int]) -> LivedShard | None:
        """Returns a shard, or None where it has not lived or its file is damaged.

        Args:
          ends: Numbers of its first and last agent.
          shape: (P, T) of its returns.
        """
        population, points = shape
        limit = 8 * population * (points + 2) + _OVERHEAD
        try:
            found = array_files.read_arrays(self._path(ends), limit)
        except RecordError:
            return None
        expected = {
            name: (shape if name == "returns" else shape[:1], np.float64)
            for name in LivedShard._fields
        }
        if {name: (array.shape, array.dtype) for name, array in found.items()} != expected:
            return None
        return LivedShard(**found)

    def write(self, ends: tuple[int, int], shard: LivedShard) -> None:
        """Adds a shard; called from several threads, with different shards.

        Raises:
          OSError: A file cannot be written.
        """
        arrays = {name: np.asarray(array, np.float64) for name, array in shard._asdict().items()}
        with self._lock:
            self.state()
            path = self._path(ends)
            path.parent.mkdir(exist_ok=True)
            array_files.write_arrays(path, arrays)

    def _path(self, ends: tuple[int, int]) -> Path:
        first, last = ends
        return self.folder / FOLDER / f"{self.method}-{first}-{last}-{self.test}.npz"


def discard_shards(folder: files.PathLike, methods: Collection[str], test: str) -> None:
    """Removes the shards of methods that a test has finished, those that a kill left half-written
    included; other shards stay.

    Args:
      test: Its `digest_of_test`.

    Raises:
      OSError: A file cannot be removed.
    """
    shards = Path(folder) / FOLDER
    for method in methods:
        for pattern in (f"{method}-*-{test}.npz", f".{method}-*-{test}.npz.*.tmp"):
            for path in shards.glob(pattern):
                path.unlink()
    if shards.is_dir() and not any(shards.iterdir()):
        shards.rmdir()
