"""Looks into the folders that a figure reads, and names the command for each that is missing."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from epg_tf.artifacts.loss_files import pretrained_losses
from epg_tf.evaluation.results import RESULTS_FILE
from epg_tf.figures.declaration import Declaration, Match, Run, Source, Test
from epg_tf.figures.results import unpacked
from epg_tf.reports.resumed_tests import ABOUT_FILE
from epg_tf.runs.folder import CONFIG

SUMMARY = "summary.json"


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


@dataclasses.dataclass(frozen=True)
class Status:
    """What is there for a figure, and what is not.

    Attributes:
      figure: The figure.
      found: What is there.
      missing: Folder -> the command that makes it, in an order in which they can be run.
      ready: Whether the figure can be drawn.
    """

    figure: Declaration
    found: Match
    missing: dict[Path, Command]
    ready: bool


def status_of(figure: Declaration, scale: str, roots: Sequence[Path]) -> Status:
    """Returns what is there for a figure.

    Args:
      figure: The figure.
      scale: Of `declaration.SCALES`; where the figure does not declare it, it is not ready.
      roots: Folders to look below, in this order, each of runs or a data set of results; commands
        write to the first one.
    """
    sources = figure.sources.get(scale, ())
    paths = [find(source, roots) for source in sources]
    there = [(each, path) for each, path in zip(sources, paths, strict=True) if path is not None]
    missing: dict[Path, Command] = {}
    for source, path in zip(sources, paths, strict=True):
        if path is None:
            missing |= _commands(source, roots)
    lacking = [each for each, path in zip(sources, paths, strict=True) if path is None]
    needed = any(not each.optional for each in lacking) or (bool(lacking) and not there)
    return Status(figure, Match(scale, there), missing, scale in figure.sources and not needed)


def find(source: Source, roots: Sequence[Path]) -> Path | None:
    """Returns the finished folder, or file, of a source; None where there is none.

    A pretrained loss that stands in for a run is returned by its name.
    """
    read = [unpacked(root) for root in roots]
    for root in read:
        folder = root / source.folder
        if isinstance(source, Test):
            path = _test(folder, source.curves)
        else:
            path = folder if _is_finished(folder) else None
        if path is not None:
            return path
    instead = source.instead if isinstance(source, Run) else ""
    if not instead or instead in pretrained_losses():
        return Path(instead) if instead else None
    return next((root / instead for root in read if _is_finished(root / instead)), None)


def _is_finished(folder: Path) -> bool:
    """Returns whether a run has ended, or its loss was kept without it."""
    return (folder / SUMMARY).is_file() or (folder / "loss.json").is_file()


def _test(folder: Path, curves: bool) -> Path | None:
    """Returns where the summary of an evaluation is, and its curves if they are asked for."""
    if (folder / SUMMARY).is_file() and (not curves or (folder / RESULTS_FILE).is_file()):
        return folder
    alone = folder.with_name(f"{folder.name}.json")
    return alone if alone.is_file() and not curves else None


def _commands(source: Source, roots: Sequence[Path]) -> dict[Path, Command]:
    """Returns the folder and command of what is missing, after those that it rests on."""
    folder = roots[0] / source.folder
    if isinstance(source, Run):
        begun = next((r / source.folder for r in roots if _is_begun(r / source.folder)), folder)
        return {begun: _make_run(source, begun)}
    found: dict[Path, Command] = {}
    paths: dict[Run, Path] = {}
    for run in (*source.runs, *(run for _, run in source.trained)):
        there = find(run, roots)
        found |= {} if there else _commands(run, roots)
        paths[run] = there or list(found)[-1]
    return {**found, folder: _make_test(source, paths, folder)}


def _is_begun(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


def _make_run(run: Run, folder: Path) -> Command:
    """Returns the command that makes a run, or goes on with it where it has begun."""
    if _is_begun(folder):
        return Command("meta_train", (("run_dir", folder), ("resume", True)))
    changes = [(f"config.{name}", value) for name, value in run.changes]
    flags = [("config", run.config), ("seed", run.seed), ("run_dir", folder)]
    return Command("meta_train", (*flags, *changes))


def _make_test(test: Test, paths: dict[Run, Path], folder: Path) -> Command:
    """Returns the command of an evaluation; `paths` says where its runs are or will be."""
    if test.progress:
        what = (("measure", "progress"), ("loss", paths[test.runs[0]]))
        return Command("study", (*what, *test.flags, ("output_dir", folder)))
    compare = [*test.compare, *(f"{name}:{paths[run]}" for name, run in test.trained)]
    resume = (("resume", True),) if (folder / ABOUT_FILE).is_file() else ()
    return Command(
        "meta_test",
        (
            ("loss", ",".join(str(paths[run]) for run in test.runs)),
            ("config", test.runs[0].config),
            *test.flags,
            ("lives", test.lives),
            ("compare", ",".join(compare or ["none"])),
            ("output_dir", folder),
            *resume,
        ),
    )
