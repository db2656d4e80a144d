"""Opens the folder of a run for one process, one seed and one set of settings.

Whatever would lose data is refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epg_tf.artifacts.artifact import versions
from epg_tf.core import files, formatting
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.settings import flat
from epg_tf.runs import checkpoints, own_families
from epg_tf.runs.folder_lock import UNLOCKED, FolderLock
from epg_tf.runs.identity import (
    BEGUN_WITH,
    LOG,
    RunIdentity,
    beginning_in_words,
    beginning_of,
)
from epg_tf.runs.metrics import MetricsFile
from epg_tf.runs.provenance import commit, machine
from epg_tf.runs.tensorboard import TensorBoardWriter

CONFIG = "config.json"


@dataclasses.dataclass(frozen=True)
class RunTarget:
    """Where a run is written, and what happens to an earlier run there.

    Attributes:
      path: The folder.
      resume: Continue the run that is there, or start it if there is none.
      overwrite: Replace the run that is there; other files in the folder stay.
      allow_changed_family: Resume although a family of the user has changed.

    Raises:
      RecordError: The path is empty, or resume and overwrite are both set.
    """

    path: files.PathLike
    resume: bool = False
    overwrite: bool = False
    allow_changed_family: bool = False

    def __post_init__(self) -> None:
        """Checks the fields."""
        if not os.fspath(self.path):
            raise RecordError("run_dir='' must name a folder, e.g. runs/first")
        try:
            os.fspath(self.path).encode("utf-8")
        except UnicodeEncodeError as error:  # letters that a locale such as C could not decode
            raise RecordError(
                f"run_dir={os.fspath(self.path)!r} has letters that TensorFlow cannot read in this "
                "locale; set LC_ALL=C.UTF-8, or choose another folder"
            ) from error
        if self.resume and self.overwrite:
            raise RecordError(
                "resume=True and overwrite=True contradict each other; pass one of them"
            )


@dataclasses.dataclass(frozen=True)
class RunLength:
    """How long a run is, and the setting that determines it.

    Attributes:
      epochs: Number of epochs (or rounds) of the whole run.
      field: Name of the setting, e.g. "config.evolution.epochs".
      unit: What one epoch adds to the setting.
    """

    epochs: int
    field: str
    unit: int = 1


class RunFolder:
    """The folder of one run, described in its `config.json`, and locked until `close`.

    Attributes:
      path: The folder.
      identity: Of the run, with what it began with.
      facts: Seed, commit and package versions that the run started with.
      metrics: Its `metrics.csv`, one row per epoch (or round).
      board: Its log for TensorBoard.
      warnings: Lines about what has changed since the start, and about missing rows.

    Raises:
      RecordError: The folder cannot be used in this way; nothing has been deleted.
    """

    def __init__(self, identity: RunIdentity, target: RunTarget):
        self.path = Path(target.path)
        self.metrics = MetricsFile(self.path / "metrics.csv")
        self.board = TensorBoardWriter(self.path / "tensorboard")
        self.identity = identity
        self._lock = FolderLock(self.path)
        try:
            self._open(target)
        except BaseException:
            self.close()
            raise

    def _open(self, target: RunTarget) -> None:
        if self.path.is_dir():
            self._lock.acquire()
        self._check_kind()
        self._check_entries()
        now = {"seed": self.identity.seed, "commit": commit(), "versions": versions()}
        before = self._earlier_run() if target.resume else None
        self._families = own_families.fingerprints(self.identity.experiment())
        changed = self._changed_families(before, target.allow_changed_family)
        if target.overwrite:
            self._check_replaceable()
        files.prepare_folder(self.path, (), overwrite=target.overwrite, resume=target.resume)
        self._lock.acquire()
        self.facts = now if before is None else {name: before.get(name) for name in now}
        begun = self.identity.begun if before is None else beginning_of(before)
        self.facts |= {BEGUN_WITH: begun} if begun else {}
        self.identity = dataclasses.replace(self.identity, begun=begun)
        self.warnings = [
            f"this run started with {name} {self.facts[name]}; now it is {now[name]}, so numbers "
            "may differ"
            for name in ("commit", "versions")
            if self.facts[name] != now[name]
        ]
        self.warnings += [UNLOCKED] if UNLOCKED else []
        if changed:
            self.warnings.append(f"{changed} changed, so numbers from here on are of other tasks")
        own = self.identity.kind.own
        if before is None:
            with files.replaced(self.path, own):  # nothing is there unless it is to be overwritten
                self._describe()
        files.remove_unfinished(self.path, own)

    def newest_checkpoint(self, wanted: checkpoints.Wanted) -> checkpoints.Checkpoint | None:
        """Returns the newest checkpoint that the run can go on from, and warns of newer ones; None
        in a new run.

        Raises:
          RecordError: There is none, though there is or was a checkpoint; or it is of a run of
            another seed or other settings.
        """
        wanted = dataclasses.replace(wanted, identity=self.identity)
        found, damaged = checkpoints.load_newest(self.path / "checkpoints", wanted)
        if found is None and (damaged or self.metrics.read()):
            reason = "there is none, but metrics.csv has rows"
            raise RecordError(
                f"{self.path}: no checkpoint can be read "
                f"({damaged[0].split(';')[0] if damaged else reason}); restore one, or pass "
                "overwrite=True to start again"
            )
        self.warnings += [f"damaged: {message}" for message in damaged]
        return found

    def continue_after(
        self, done: int, length: RunLength, columns: Sequence[str], newer: Sequence[str] = ()
    ) -> None:
        """Describes the run as it continues, and drops what was recorded after some epoch.

        Args:
          done: Number of epochs (or rounds) that the state to continue from has done.
          newer: Those of them that rows of earlier versions may lack; they get NaN there.

        Raises:
          RecordError: The run has already done more, or metrics.csv is damaged or has other
            columns. Nothing has been changed.
          OSError: A file cannot be written.
        """
        if done > length.epochs:
            raise RecordError(
                f"{length.field}={length.epochs * length.unit}: the run in {self.path} has done "
                f"{done * length.unit}; use at least as many"
            )
        self.metrics.check(columns, newer)
        for path in self.path.rglob("epoch_*.npz"):
            if path.is_dir() and path.stem > f"epoch_{done:08d}":  # where a file is to be written
                raise RecordError(f"{path}: this is a folder, but a file of a run; move it away")
        if done < length.epochs:  # it is not finished any more
            (self.path / "summary.json").unlink(missing_ok=True)
            shutil.rmtree(self.path / "final", ignore_errors=True)
        self._describe()  # after that: with more epochs and a summary it would count as finished
        self.metrics.truncate_after(done)
        self.metrics.add_columns(newer)
        if (rows := len(self.metrics.read())) != done:
            self.warnings.append(
                f"metrics.csv has {rows} of {done} rows; curve and summary lack the others"
            )
        self.board.purge_after(done)
        self.board.text("settings", _markdown_table(self.identity.settings))

    def _describe(self) -> None:
        """Writes `config.json`."""
        identity = self.identity
        description = {"kind": identity.kind.name, "config": identity.settings, **self.facts}
        if self._families:
            description[own_families.FAMILIES] = self._families
        description["machine"] = machine()  # of the newest start
        files.write_json(self.path / CONFIG, description)

    def check(self) -> None:
        """Checks that the folder is where it was; to be called before it is written to.

        Raises:
          RecordError: It was moved or deleted.
        """
        self._lock.check()

    def log(self, line: str) -> None:
        """Appends a line to `log.txt`, with the time; a run goes on where that is impossible."""
        path = self.path / LOG
        with contextlib.suppress(OSError, RecordError):
            self.check()
            if path.is_file() or not path.exists():
                with path.open("a", encoding="utf-8") as stream:
                    stream.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n")

    def close(self) -> None:
        """Closes the log for TensorBoard and lets other processes use the folder."""
        self.board.close()
        self._lock.release()

    def _check_kind(self) -> None:
        """Refuses the folder of a run of another kind."""
        found = _read_mapping(self.path / CONFIG)
        mine = self.identity.kind.name
        if "config" in found and kind_of(found) != mine:
            raise RecordError(
                f"{self.path}: this is a run of another kind ({kind_of(found)[:50]}, not {mine}); "
                "choose another folder"
            )

    def _check_entries(self) -> None:
        """Refuses a file where a folder is to be, and a folder where a file is."""
        for name in self.identity.kind.own:
            entry, folder = self.path / name, "." not in name
            if entry.exists() and entry.is_dir() != folder:
                found, wanted = ("a file", "a folder") if folder else ("a folder", "a file")
                raise RecordError(f"{entry}: this is {found}, but {wanted} of a run; move it away")

    def _earlier_run(self) -> dict[str, Any] | None:
        """Returns config.json of the run to resume, or None where no run has started."""
        if is_new(self.path, CONFIG):
            return None
        if not (self.path / CONFIG).is_file():
            raise RecordError(
                f"{self.path}: nothing to resume, the folder has no config.json; pass "
                "overwrite=True to start a run in it, or choose another folder"
            )
        before = files.read_json(self.path / CONFIG, "the run's config")
        self._check_same_run(before)
        self._check_same_beginning(before)
        return before

    def _changed_families(self, before: Mapping[str, Any] | None, allowed: bool) -> str:
        """Returns what has changed of the user's families since the run was last started.

        Raises:
          RecordError: Something has, and that is not allowed.
        """
        earlier = None if before is None else before.get(own_families.FAMILIES)
        changed = own_families.changes(earlier, self._families)
        if changed and not allowed:
            raise RecordError(
                f"{self.path}: {changed} changed since this run was last started, so its numbers "
                "and best/ are of other tasks; undo the change, pass allow_changed_family=True if "
                "it is meant, or overwrite=True to start again"
            )
        return changed

    def _check_same_beginning(self, before: Mapping[str, Any]) -> None:
        """Refuses to resume with another beginning; one that is not named is the run's own."""
        named, stated = self.identity.begun, beginning_of(before)
        parts = [stated.get(name) for name in ("loss", "phi_sha256")]
        if BEGUN_WITH in before and not all(isinstance(part, str) for part in parts):
            raise RecordError(
                f"{self.path}: config.json is damaged ({BEGUN_WITH}={before[BEGUN_WITH]!r:.100}); "
                "restore it, or pass overwrite=True to start again"
            )
        if not named or stated.get("phi_sha256") == named["phi_sha256"]:
            return
        raise RecordError(
            f"begin_with={beginning_in_words(named)}: the run in {self.path} began with "
            f"{beginning_in_words(stated) or 'a fresh loss'}; leave it out, pass "
            "overwrite=True, or choose another folder"
        )

    def _check_replaceable(self) -> None:
        """Refuses to overwrite files of the same names that are not of a run."""
        there = [name for name in self.identity.kind.own if (self.path / name).exists()]
        if there and not {"config", "seed"} <= set(_read_mapping(self.path / CONFIG)):
            raise RecordError(
                f"{self.path}: overwrite=True would replace {', '.join(there)}, but this is no run "
                "(it has no config.json of one); move them away or choose another folder"
            )

    def _check_same_run(self, before: Mapping[str, Any]) -> None:
        """Refuses to resume a run of another seed or other settings."""
        try:
            difference = self.identity.difference(before, f"the run in {self.path}")
        except ConfigError as error:
            raise RecordError(
                f"{self.path}: config.json is damaged, or of another version of epg_tf ({error}); "
                "restore it, or pass overwrite=True to start again"
            ) from error
        if difference:
            raise RecordError(
                f"{difference}; resume with that, pass overwrite=True instead of resume=True, or "
                "choose another folder"
            )


def is_new(folder: Path, description: str) -> bool:
    """Returns whether nothing has started in a folder.

    Args:
      folder: May be missing.
      description: Name of the file written first; a killed process may have left an unfinished one.
    """
    if not folder.is_dir():
        return True
    return all(entry.name.startswith(f".{description}.") for entry in folder.iterdir())


def kind_of(description: Mapping[str, Any]) -> str:
    """Returns the kind in the content of a config.json; early runs, all of evolution, have none."""
    return str(description.get("kind", "evolution"))


def _read_mapping(path: Path) -> dict[str, Any]:
    """Returns the JSON object in `path`, or an empty one if it cannot be read."""
    try:
        return files.read_json(path, "the run's config")
    except RecordError:
        return {}


def _markdown_table(settings: Mapping[str, Any]) -> str:
    rows = [
        f"| {name.removeprefix('config.')} | {formatting.markdown_cell(value)} |"
        for name, value in flat(settings)
    ]
    return "\n".join(["| setting | value |", "|---|---|", *rows])
