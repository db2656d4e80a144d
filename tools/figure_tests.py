"""Runs the tests of fresh agents that the papers' figures lack and whose losses are there.

    python tools/figure_tests.py runs/figures/tests results

Tests are written below the first folder; runs are looked for in all of them. No run of
meta-training is started. `make figures` calls this; a second call repeats nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from epg_tf.artifacts.artifact import shipped_losses
from epg_tf.figures.catalogue import CATALOGUE
from epg_tf.figures.commands import Command
from epg_tf.figures.records import open_library
from epg_tf.figures.search import status_of
from epg_tf.reports.resumed_tests import ABOUT_FILE, GOES_NOT_ON

_TESTS = ("meta_test", "objective_progress")
_ROOT = Path(__file__).resolve().parents[1]  # where launch/ lies
_AT_ONCE = 2  # a test uses little more than one core


def lacking(folders: Sequence[Path]) -> list[Command]:
    """Returns the commands of the tests that figures lack and that can be run now."""
    with open_library(folders) as library:
        found = [status_of(each, "laptop", library, folders[0]) for each in CATALOGUE]
    commands = dict.fromkeys(command for status in found for command in status.commands)
    ready = [each for each in commands if each.name in _TESTS and all(map(_there, _inputs(each)))]
    chosen: list[Command] = []
    for command in sorted(ready, key=lambda each: -len(_rivals(each))):
        if not any(_covers(other, command) for other in chosen):
            chosen.append(command)
    return chosen


def _covers(one: Command, other: Command) -> bool:
    """Returns whether a test is that of another command, beside the same rivals or more."""
    return _rivals(other) <= _rivals(one) and _apart(one) == _apart(other)


def _apart(command: Command) -> tuple[str, dict[str, object]]:
    """Returns what is tested, without the rivals and the folder."""
    flags = {key: v for key, v in command.flags if key not in ("compare", "output_dir")}
    return command.name, flags


def _rivals(command: Command) -> set[str]:
    return {*str(dict(command.flags).get("compare", "none")).split(",")} - {"none"}


def _inputs(command: Command) -> Iterator[str]:
    """Yields the folders and names of losses that a test reads."""
    flags = dict(command.flags)
    yield from (str(flags[name]) for name in ("loss", "run_dir") if name in flags)
    yield from (rival.partition(":")[2] for rival in _rivals(command) if ":" in rival)


def _there(name: str) -> bool:
    return Path(name).is_dir() or name in shipped_losses()


def run(command: Command) -> bool:
    """Runs a command; returns whether it succeeded, and prints what it wrote if it did not."""
    began = time.monotonic()
    begun = Path(str(dict(command.flags)["output_dir"])) / ABOUT_FILE
    done = _start(command, "--resume" if begun.is_file() else "--overwrite")
    if done.returncode and GOES_NOT_ON in done.stdout:  # it is of another loss, or version
        done = _start(command, "--overwrite")
    name = Path(str(dict(command.flags)["output_dir"])).name
    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    if done.returncode:
        print(done.stdout[-4000:], f"failed: {command.text('launch.{}'.format)}", flush=True)
    return not done.returncode


def _start(command: Command, again: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", f"launch.{command.name}", *command.words(), again],
        env={**os.environ, "PYTHONPATH": paths},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def main(folders: Sequence[str]) -> int:
    """Runs what is lacking; returns the exit code."""
    if not folders:
        print("name the folder for tests, then others with runs", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return 0 if all(list(pool.map(run, lacking([*map(Path, folders)])))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
