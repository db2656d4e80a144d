"""Finds runs and tests below some folders by reading what they hold, never by their names.

Archives `raw.tar.xz` beside kept results are unpacked into a temporary folder, so that a run whose
settings lie in one counts as well. What cannot be read is listed and does no harm.
"""

from __future__ import annotations

import contextlib
import dataclasses
import lzma
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epg_tf.core import files
from epg_tf.core.config_files import AnyExperiment, read_experiment
from epg_tf.core.errors import EpgError
from epg_tf.core.experiment import Experiment
from epg_tf.core.old_settings import renamed
from epg_tf.evaluation.results import RESULTS_FILE, Results, read_results
from epg_tf.runs.folder import CONFIG, beginning_in_words
from epg_tf.runs.reader import RunRecord, read_run

ARCHIVE = "raw.tar.xz"
_ARCHIVE_LIMIT = 2**30  # bytes of what an archive holds
_SUMMARY = "summary.json"
_LOSS = "loss.json"
_DEPTH = 5  # folders below the one that is named
_INSIDE = {"checkpoints", "tensorboard", "best", "final", "objectives", "agents"}  # of a run
_DAMAGED = (EpgError, OSError, ValueError, TypeError, KeyError, AttributeError)


@dataclasses.dataclass(frozen=True)
class FoundRun:
    """A run of meta-training.

    Attributes:
      record: What its folder holds.
      shown: The folder, or that of the archive which holds it.
      archived: Whether it is from an archive, so that it cannot be continued.
    """

    record: RunRecord
    shown: Path
    archived: bool = False

    @property
    def finished(self) -> bool:
        """Whether its summary is there, or in a kept run all rows of its metrics."""
        experiment = self.record.experiment
        if not isinstance(experiment, Experiment):
            return self.record.finished
        return self.record.finished or len(self.record.metrics) >= experiment.evolution.epochs

    @property
    def can_continue(self) -> bool:
        """Whether it is not finished, and a command can continue it."""
        begun = not self.record.metrics or (self.record.path / "checkpoints").is_dir()
        return begun and not self.finished and not self.archived

    @property
    def loss(self) -> Path | None:
        """The folder that holds what it learned, if a command can read it."""
        return None if self.archived else self.record.best or self.record.final


@dataclasses.dataclass(frozen=True)
class FoundTest:
    """A test of fresh agents, or its summary alone.

    Attributes:
      path: The folder, or a file of its summary that was kept alone.
      shown: The same, or the folder of the archive that holds it.
      about: What was tested and how, as its summary states.
      methods: Key of a method -> its row of the summary.
      experiment: Settings of what was tested; None where they are not stated.
      one_of_several: Whether it is of one of several objectives that were tested together.
    """

    path: Path
    shown: Path
    about: Mapping[str, Any]
    methods: Mapping[str, Mapping[str, Any]]
    experiment: AnyExperiment | None
    one_of_several: bool = False

    @property
    def beginning(self) -> str | None:
        """What the run of the tested loss began with, in words; None: a fresh vector."""
        return beginning_in_words(self.about.get("loss_facts", {}))

    @property
    def has_curves(self) -> bool:
        """Whether the whole table is there, and of one objective."""
        return self.path.is_dir() and not self.one_of_several

    def results(self) -> Results:
        """Returns the whole table.

        Raises:
          RecordError: It cannot be read.
        """
        return read_results(self.path)


@dataclasses.dataclass(frozen=True)
class FoundLoss:
    """A learned loss.

    Attributes:
      name: Folder, or name of a shipped loss, as `load_loss` takes it.
      shown: The same as a path.
      beginning: What its run began with, in words; None: a fresh vector.
    """

    name: str
    shown: Path
    beginning: str | None = None


@dataclasses.dataclass(frozen=True)
class KeptLoss:
    """A learned loss or objective in a folder of its own, which is not that of a run.

    Attributes:
      path: The folder.
      experiment: Settings with which it was learned.
      facts: Of its meta-training: seed, env steps and others.
    """

    path: Path
    experiment: AnyExperiment
    facts: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Library:
    """All that was found.

    Attributes:
      runs: Runs, finished or not.
      tests: Tests.
      losses: Losses that were kept without their run.
      unreadable: Folders that look like one of these and cannot be read, with the reason.
    """

    runs: Sequence[FoundRun] = ()
    tests: Sequence[FoundTest] = ()
    losses: Sequence[KeptLoss] = ()
    unreadable: Sequence[tuple[Path, str]] = ()


@contextlib.contextmanager
def open_library(folders: Sequence[files.PathLike]) -> Iterator[Library]:
    """Reads all runs and tests below some folders; what is from archives is there until the end.

    Args:
      folders: Those that do not exist hold nothing.
    """
    runs: list[FoundRun] = []
    tests: list[FoundTest] = []
    losses: list[KeptLoss] = []
    unreadable: list[tuple[Path, str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        places = [(path, path, False) for folder in folders for path in _walk(Path(folder))]
        archives = [path / ARCHIVE for path, _, _ in places if (path / ARCHIVE).is_file()]
        for number, archive in enumerate(archives):
            try:
                copy = _unpacked(archive, Path(scratch) / str(number))
            except (OSError, ValueError, tarfile.TarError, EOFError, lzma.LZMAError) as error:
                unreadable.append((archive, files.one_line(error)))
                continue
            inside = [(each, archive.parent / each.relative_to(copy), True) for each in _walk(copy)]
            places += [
                place
                for place in inside
                if (place[0] / CONFIG).is_file() and not (place[1] / CONFIG).is_file()
            ]
        for path, shown, archived in places:
            try:
                if (path / CONFIG).is_file():
                    runs.append(FoundRun(read_run(path), shown, archived))
                elif (path / _LOSS).is_file():
                    losses.append(_kept(path))
                if not archived:
                    tests += _tests(path)
            except _DAMAGED as error:
                unreadable.append((shown, files.one_line(error)[:300]))
        yield Library(runs, tests, losses, unreadable)


def _walk(folder: Path) -> Iterator[Path]:
    """Yields a folder and those below it, in order, but none inside a run."""
    for path, names, _ in os.walk(folder):
        deep = len(Path(path).relative_to(folder).parts) >= _DEPTH
        names[:] = [] if deep else sorted(n for n in names if n not in _INSIDE and n[0] != ".")
        yield Path(path)


def _unpacked(archive: Path, copy: Path) -> Path:
    """Returns a copy of an archive's folder with what the archive holds.

    Raises:
      ValueError: The archive holds more than 1 GB.
    """
    others = shutil.ignore_patterns(ARCHIVE, ".*", "checkpoints", "tensorboard", "agents")

    def left_out(folder: str, names: list[str]) -> set[str]:
        inside = [Path(folder) / name for name in names]
        links = {path.name for path in inside if path.is_symlink() and not path.is_file()}
        return {*others(folder, names)} | links  # folders elsewhere, and links to nothing

    shutil.copytree(archive.parent, copy, ignore=left_out)
    with tarfile.open(archive, "r:xz") as opened:
        size = 0
        for member in opened:
            size += member.size
            if size > _ARCHIVE_LIMIT:
                raise ValueError(f"it holds more than {_ARCHIVE_LIMIT} bytes; unpack it yourself")
            opened.extract(member, copy, filter="data")
    return copy


def _kept(path: Path) -> KeptLoss:
    """Returns the loss in a folder, as its description says; its numbers are not read."""
    found = files.read_json(path / _LOSS, "the loss")
    facts = found.get("facts")
    return KeptLoss(
        path, read_experiment(renamed(found["config"])), facts if isinstance(facts, dict) else {}
    )


def _tests(path: Path) -> Iterator[FoundTest]:
    """Yields the test in a folder, and the summaries that were kept alone."""
    if (path / RESULTS_FILE).is_file():
        found = files.read_json(path / _SUMMARY, "the test's summary")
        yield from _one_by_one(_test(path, found))
        return
    for file in sorted(path.glob("*.json")):
        try:
            found = files.read_json(file, "a summary")
            about = found.get("about")
            if isinstance(about, dict) and ("task" in about or "environment" in about):
                yield from _one_by_one(_test(file, found))
        except _DAMAGED:  # files of other programs are no summaries
            continue


def _test(path: Path, found: Mapping[str, Any]) -> FoundTest:
    """Returns the test that a summary states."""
    about = found["about"]
    known = {
        name: row
        for name, row in found.items()
        if isinstance(row, dict) and "final_return_mean" in row
    }
    settings = about.get("config")
    experiment = read_experiment(renamed(settings)) if isinstance(settings, dict) else None
    return FoundTest(path, path, about, known, experiment)


def _one_by_one(test: FoundTest) -> list[FoundTest]:
    """Returns a test of several objectives as one of each, that of the smallest seed with the
    rivals. Losses stay together: what the settings of the further ones are is not stated.

    Raises:
      ValueError: It does not state what each of them is, or how it did.
    """
    about = test.about
    if not about.get("other_losses") or "environment" not in about:
        return [test]
    learned = "objective"
    facts = {about["loss"]: about["loss_facts"], **about["other_loss_facts"]}
    keys = {name: f"{learned} {name}" for name in facts}
    if not all(isinstance(its, dict) and "seed" in its for its in facts.values()) or not all(
        key in test.methods for key in keys.values()
    ):
        raise ValueError("an objective has no facts, no seed or no row")
    rivals = {key: row for key, row in test.methods.items() if key not in {learned, *keys.values()}}
    first = min(facts, key=lambda name: facts[name]["seed"])
    found = []
    for name, key in keys.items():
        its = {**about, "loss": name, "loss_facts": facts[name], "other_losses": []}
        methods = {learned: test.methods[key]} | (rivals if name == first else {})
        found.append(dataclasses.replace(test, about=its, methods=methods, one_of_several=True))
    return found
