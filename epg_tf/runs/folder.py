"""Claims the folder of a run: for one process, one seed and one set of settings; refuses what would
lose data.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.artifacts.learned_loss import versions
from epg_tf.core import files
from epg_tf.core.old_settings import renamed


class ClaimedFolder:
    """The folder of one run, described in its `config.json`.

    Args:
      path: The folder.
      kind: Of the run, e.g. "evolution".
      settings: Of the run, nested dictionaries.
      read: Completes and checks settings read from a file; raises ConfigError.
      seed: Of the run.
      resume: Go on with what is there.
      overwrite: Replace what an earlier run left.
      own: What the run writes; `overwrite` removes it in this order, and what marks a run goes
        last.
      may_change: Settings that may differ when a run goes on.

    Attributes:
      path: The folder.
      seed: Of the run.
      facts: Seed, commit and versions the run began with.
      notes: Lines on what has changed since then.

    Raises:
      RecordError: The folder cannot be used as asked; nothing has been deleted.
    """

    def __init__(self, path: str, kind: str, settings: Mapping[str, Any], read: Callable[[Any], Mapping[str, Any]],
                 seed: int, resume: bool, overwrite: bool, own: Sequence[str], may_change: Set[str]):
        self.path, self.seed, self._kind = Path(path), seed, kind
        self._settings, self._read, self._own, self._may_change = settings, read, own, may_change
        self._lock = lock(self.path, "--run_dir") if self.path.is_dir() else None
        self._check_kind()
        now = {"seed": seed, "commit": _commit(), "versions": versions()}
        before = self._earlier_run() if resume else None
        if overwrite:
            self._check_replaceable()
        files.prepare_folder(path, "--run_dir", resume, overwrite, own)
        self._lock = self._lock or lock(self.path, "--run_dir")
        self.facts = now if before is None else {name: before.get(name) for name in now}
        self.notes = [f"this run began with {name} {self.facts[name]}; now it is {now[name]}, so "
                      "numbers may differ"
                      for name in ("commit", "versions") if self.facts[name] != now[name]]
        if before is None:
            self.describe()

    def describe(self) -> None:
        """Writes `config.json`; for a run that goes on, once it is clear that it can. Raises
        OSError.
        """
        files.write_json(self.path / "config.json", {"kind": self._kind, "config": self._settings, **self.facts})

    def _check_kind(self) -> None:
        """Refuses the folder of a run of another kind, whatever is asked."""
        found = _read_mapping(self.path / "config.json")
        kind = found.get("kind", "evolution")  # runs begun before there were others do not say
        if "config" in found and kind != self._kind:
            raise RecordError(f"--run_dir={self.path}: this is a run of another kind "
                              f"({str(kind)[:50]}, not "
                                    f"{self._kind}); choose another folder")

    def _earlier_run(self) -> dict | None:
        """Returns config.json of the run to resume, or None where nothing has begun."""
        if not self.path.is_dir() or all(entry.name.startswith(".config.json.") for entry in self.path.iterdir()):
            return None
        if not (self.path / "config.json").is_file():
            raise RecordError(f"--run_dir={self.path}: nothing to resume, the folder holds no "
                              "config.json; pass "
                                    f"--overwrite to start a run in it, or choose another folder")
        before = files.read_json(self.path / "config.json", "the run's config")
        if before.get("seed") != self.seed:
            raise RecordError(f"--seed={self.seed}: the run in --run_dir={self.path} has seed "
                                    f"{before.get('seed')}; pass that, --overwrite, or another "
                                    "folder")
        self._check_same_settings(before)
        return before

    def _check_replaceable(self) -> None:
        """Refuses to overwrite what is called as in a run but is none."""
        there = [name for name in self._own if (self.path / name).exists()]
        if there and not {"config", "seed"} <= set(_read_mapping(self.path / "config.json")):
            raise RecordError(f"--run_dir={self.path}: --overwrite would replace "
                              f"{', '.join(there)}, but this "
                                    "is no run (no config.json that says so); move them away or "
                                    "choose another folder")

    def _check_same_settings(self, before: dict) -> None:
        try:
            then = self._read(renamed(before.get("config")))
        except ConfigError as error:
            raise RecordError(f"--run_dir={self.path}: config.json is damaged, or of another "
                              "version of "
                                    f"epg_tf ({error}); restore it, or pass --overwrite to start "
                                    "anew") from error
        for field, old, value in changes(then, self._settings, self._may_change):
            raise RecordError(f"{field}={value!r}: the run in --run_dir={self.path} has {old!r}; "
                              "resume with "
                                    f"that, pass --overwrite, or choose another folder")


def changes(before: Mapping[str, Any], now: Mapping[str, Any], free: Set[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yields name, old and new value of settings that differ, but for those in `free`, named
    "config.GROUP.FIELD".
    """
    old = dict(_flat("config", before))
    for name, value in _flat("config", now):
        if old[name] != value and name not in free:
            yield name, old[name], value


def _flat(prefix: str, settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}.{name}", value)
        else:
            yield f"{prefix}.{name}", value


def settings_table(settings: Mapping[str, Any]) -> str:
    """Writes settings as a Markdown table, for TensorBoard."""
    rows = [f"| {name.removeprefix('config.')} | {value} |" for name, value in _flat("config", settings)]
    return "\n".join(["| setting | value |", "|---|---|", *rows])


def lock(folder: Path, flag: str) -> int:
    """Keeps other processes from writing to the same folder until this one ends, however it ends.

    Args:
      folder: The folder.
      flag: Flag that named it, for the error message.

    Returns:
      The descriptor that holds the lock.

    Raises:
      RecordError: Another process holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise RecordError(f"{flag}={folder}: another process is writing to this folder; wait for "
                          "it, or use "
                                f"another folder") from error
    return descriptor


def _read_mapping(path: Path) -> dict:
    """Returns the JSON object in `path`, or nothing if there is none."""
    try:
        return files.read_json(path, "the run's config")
    except RecordError:
        return {}


def _commit() -> str | None:
    """Returns the commit of the code, or None outside a checkout."""
    try:
        words = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=True,
                              timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
