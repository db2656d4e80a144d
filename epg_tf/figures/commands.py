"""Writes the commands that make what a figure lacks."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from epg_tf.figures.declaration import Changes, Need, ProgressNeed, RunNeed, TestNeed


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of this package.

    Attributes:
      name: Of its file, e.g. "meta_train".
      flags: Name and value of each flag, without dashes.
    """

    name: str
    flags: tuple[tuple[str, object], ...]

    def words(self) -> list[str]:
        """Returns its flags as words of a command line."""
        return [f"--{flag}" if value is True else f"--{flag}={value}" for flag, value in self.flags]

    def text(self, program: Callable[[str], str]) -> str:
        """Returns the line that a user can copy; `program` says how a command is started."""
        return " ".join([program(self.name), *map(shlex.quote, self.words())])


def run_folder(need: RunNeed, folder: Path) -> Path:
    """Returns where a run is to be written, below a folder of runs."""
    return folder / "-".join([_word(need.config), *map(_change, need.changes), str(need.seed)])


def test_folder(need: TestNeed | ProgressNeed, folder: Path) -> Path:
    """Returns where a test is to be written, below a folder of runs."""
    words = [run_folder(need.run, folder).name]
    if isinstance(need, ProgressNeed):
        return folder / "-".join([*words, _word(need.environment), "progress"])
    words += map(_change, need.changes)
    words += [_word(need.environment)] if need.environment else []
    words += [f"{need.updates}_updates"] if need.updates else []
    words += [f"alpha_{need.alpha}"] if need.alpha is not None else []
    usual = ("ppo",)
    words += ["against", *need.compare] if need.compare != usual else []
    return folder / "-".join([*words, *(name for name, _ in need.trained), "test"])


def make_run(need: RunNeed, folder: Path) -> Command:
    """Returns the command of a run."""
    flags = [("config", need.config), ("seed", need.seed), ("run_dir", run_folder(need, folder))]
    return Command("meta_train", (*flags, *_settings(need.changes)))


def resume_run(need: Need, path: Path) -> Command:
    """Returns the command that continues the run in a folder."""
    del need
    return Command("meta_train", (("run_dir", path), ("resume", True)))


def make_test(need: TestNeed, loss: str, trained: dict[str, Path], folder: Path) -> Command:
    """Returns the command of a test.

    Args:
      need: What is to be tested.
      loss: Folder of the run, or name of a shipped loss.
      trained: Key of a rival that is meta-trained before -> folder of its run.
      folder: Of runs.
    """
    rivals = [*need.compare, *(f"{name}:{path}" for name, path in trained.items())]
    optional: list[tuple[str, object | None]] = [
        ("updates", need.updates),
        ("alpha", need.alpha),
        ("environment", need.environment),
        ("env_steps", need.env_steps),
    ]
    flags: list[tuple[str, object]] = [("loss", loss), ("config", need.run.config)]
    flags += _settings(need.changes)
    flags += [("lives", need.lives), ("compare", ",".join(rivals))]
    flags += [(name, value) for name, value in optional if value is not None]
    return Command("meta_test", (*flags, ("output_dir", test_folder(need, folder))))


def make_progress(need: ProgressNeed, run: Path, folder: Path) -> Command:
    """Returns the command that tests the objectives a run kept."""
    flags: list[tuple[str, object]] = [("run_dir", run), ("environment", need.environment)]
    flags += [("env_steps", need.env_steps)] if need.env_steps else []
    return Command("objective_progress", (*flags, ("output_dir", test_folder(need, folder))))


def _settings(changes: Changes) -> list[tuple[str, object]]:
    return [(f"config.{name}", value) for name, value in changes]


def _word(text: str) -> str:
    """Returns a text as a part of a folder's name."""
    return re.sub(r"[^\w.]+", "_", text).strip("_")


def _change(change: tuple[str, object]) -> str:
    name, value = change
    return f"{name.rpartition('.')[2]}_{_word(str(value))}"
