"""Damages the folder of a finished run of each system in many ways, and resumes it.

Each input is a function of its number: a file, and what happens to it. Whatever that is, the run
ends as the undamaged one did, or with one line and all other files as they were.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from epg_tf.core import array_files
from epg_tf.core.errors import EpgError
from epg_tf.epg.shards import Shards
from epg_tf.metagenrl import state as metagenrl_state
from epg_tf.runs import checkpoints
from epg_tf.runs.checkpoints import Checkpoint
from epg_tf.runs.evolution import EvolutionSystem
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.session import Session, run_in_folder
from epg_tf.runs.system import System
from tests.runs.test_session import SYSTEMS

INPUTS = int(os.environ.get("DAMAGED_INPUTS", "60"))  # of each system
SEEDS = ("evolution", "metagenrl", "maml", "rl2")  # by their place
SECONDS = 30  # after which a run hangs
DEEP = b'{"a":' + b"[" * 100_000

JSON = (None, [], {}, [1], "text", -1, 0, 10**30, 1e308, True, [[[]]], {"a": {"b": [None]}}, 0.5)
CELLS = ("text", "nan", "", "inf", "-inf", "1e400", "-1", "0", "7", '"', "1,2", "\n", "\r", "é")


class Subject(NamedTuple):
    """A system, a finished run of it, and how it begins anew.

    Attributes:
      system: Used for all inputs, since it takes seconds to compile.
      reset: Brings it to the state before its first step.
      whole: The folder.
      losses: Folders of what it leaves.
    """

    system: System[Any]
    reset: Callable[[], None]
    whole: Path
    losses: tuple[str, ...]

    def resume(self, folder: Path, draws: bool) -> list[str]:
        """Resumes a run; returns its lines. Its picture, which takes most of the time, need not be
        drawn.
        """
        lines: list[str] = []
        self.reset()
        with pytest.MonkeyPatch.context() as patch:
            if not draws:
                patch.setattr(Session, "_draw", lambda self, folder: None)
            for _ in run_in_folder(self.system, RunTarget(folder, resume=True), lines.append):
                pass
        return lines


@pytest.fixture(scope="module", params=["evolution", *SYSTEMS])
def subject(request, tiny, tmp_path_factory) -> Iterator[Subject]:
    whole = tmp_path_factory.mktemp("whole") / "run"
    with contextlib.ExitStack() as resources:
        losses: tuple[str, ...] = ("best", "final")
        if request.param == "evolution":
            shards = resources.enter_context(Shards(tiny))
            system: Any = EvolutionSystem(tiny, 0, shards)
        else:
            case = SYSTEMS[request.param]
            system, losses = case.make(case.tiny, 0), case.losses
        first = Checkpoint(0, *system.arrays())

        def reset() -> None:
            if request.param == "metagenrl":
                system.state = metagenrl_state.initial_state(case.tiny, 0)
            else:
                system.load(first)

        for _ in run_in_folder(system, RunTarget(whole)):
            pass
        yield Subject(system, reset, whole, losses)


def contents(folder: Path) -> dict[Path, bytes]:
    """Returns the bytes of all files, but of those that each start writes anew."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and "tensorboard" not in path.parts
    }


# What happens to any file


def flipped(path: Path, random: np.random.Generator) -> None:
    content = bytearray(path.read_bytes())
    for place in random.integers(len(content), size=random.integers(1, 9)):
        content[place] ^= 1 << random.integers(8)
    path.write_bytes(content)


def torn(path: Path, random: np.random.Generator) -> None:
    path.write_bytes(path.read_bytes()[: random.integers(path.stat().st_size)])


def swapped(path: Path, random: np.random.Generator) -> None:
    """Takes the content of another file of the run, or none, or noise."""
    others = sorted(other for other in path.parents[1].rglob("*") if other.is_file())
    other = others[random.integers(len(others))].read_bytes()
    path.write_bytes([other, b"", random.bytes(300), DEEP][random.integers(4)])


def replaced(path: Path, random: np.random.Generator) -> None:
    """Puts nothing, a folder, a pipe or a dead link there."""
    path.unlink()
    put = (None, path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to("nowhere"))
    if found := put[random.integers(len(put))]:
        found()


# What happens to what a file says


def value_changed(path: Path, random: np.random.Generator) -> None:
    """Replaces or removes some value of a JSON file."""
    whole = json.loads(path.read_text())
    place, key = whole, None
    while isinstance(place, dict) and place and (key is None or random.random() < 0.7):
        parent, key = place, sorted(place)[random.integers(len(place))]
        place = parent[key]
    if random.random() < 0.2:
        del parent[key]
    else:
        parent[key] = JSON[random.integers(len(JSON))]
    path.write_text(json.dumps(whole))


def cell_changed(path: Path, random: np.random.Generator) -> None:
    """Replaces a cell of a table, or removes, doubles or moves a line."""
    lines = [line.split(",") for line in path.read_text().splitlines()]
    row = random.integers(len(lines))
    how = random.integers(6)
    if how == 0:
        del lines[row]
    elif how == 1:
        lines.insert(row, lines[row])
    elif how == 2:
        lines.append(lines.pop(row))
    else:
        lines[row][random.integers(len(lines[row]))] = CELLS[random.integers(len(CELLS))]
    path.write_text("".join(f"{','.join(line)}\n" for line in lines), newline="")


def sealed(path: Path, content: dict[str, Any], epoch: int) -> None:
    """Writes a checkpoint with a checksum that fits."""
    content.pop("__sha256__", None)
    content["__sha256__"] = checkpoints._checksum(epoch, content)
    array_files.write_arrays(path, content)


def forged(path: Path, random: np.random.Generator) -> None:
    """Changes what an .npz says, with checksums that fit."""
    content = array_files.read_arrays(path, 2**30)
    epoch = int(path.stem.removeprefix("epoch_")) if path.stem.startswith("epoch_") else 0
    names = sorted(name for name in content if name not in ("__sha256__", "__format_version__"))
    name = names[random.integers(len(names))]
    values = content[name]
    if name in ("__facts__", "__run__"):
        facts = json.loads(values.tobytes())
        key = sorted(facts)[random.integers(len(facts))] if facts else "a"
        bad = JSON[random.integers(len(JSON))]
        texts = [DEEP, b"\xff", json.dumps(bad).encode(), json.dumps({**facts, key: bad}).encode()]
        new = np.frombuffer(texts[random.integers(len(texts))], np.uint8)
    else:
        nothing = values.astype(np.float64)
        nothing.flat[:1] = np.nan
        forms: list[Any] = [
            None,
            values.astype(complex),
            values.astype("U8"),
            values[..., None],
            values.ravel()[:0],
            nothing,
            nothing.astype(np.float32),
            np.resize(values, (3, 2)),
        ]
        new = forms[random.integers(len(forms))]
    del content[name]
    if new is not None:
        content[name] = new
    if random.random() < 0.1 and path.stem.startswith("epoch_"):
        epoch = 10**30
        path = path.with_name(f"epoch_{epoch}.npz")
    sealed(path, content, epoch)


def harm(folder: Path, random: np.random.Generator) -> tuple[str, set[Path]]:
    """Damages one file, or all of its kind; returns how, and which."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        inside = path.relative_to(folder)
        kinds.setdefault(f"{inside.parts[0]}{inside.suffix}", []).append(path)
    kind = sorted(kinds)[random.integers(len(kinds))]
    files = kinds[kind]
    ways = [flipped, torn, swapped, replaced]
    ways += {".json": [value_changed] * 4, ".csv": [cell_changed] * 4, ".npz": [forged] * 6}.get(
        files[0].suffix, []
    )
    way = ways[random.integers(len(ways))]
    if random.random() < 0.8:  # the newest ones more often
        files = [files[-1 - min(int(random.exponential(1.0)), len(files) - 1)]]
    for path in files:
        way(path, random)
    return f"{way.__name__} {', '.join(str(path.relative_to(folder)) for path in files)}", set(
        files
    )


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Ends what hangs."""

    def ended(number: int, frame: Any) -> None:
        raise AssertionError("hangs")

    before = signal.signal(signal.SIGALRM, ended)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def unlike(subject: Subject, folder: Path, lines: list[str], damaged: set[Path]) -> str:
    """Returns in what a run has not ended as the undamaged one did; empty if in nothing."""
    if not any("numbers will differ" in line for line in lines):
        for name in subject.losses:
            loss = f"{name}/loss.npz"
            if (folder / loss).read_bytes() != (subject.whole / loss).read_bytes():
                return loss
        mine, its = (checkpoints.load(path / "checkpoints", 3) for path in (folder, subject.whole))
        for name, values in its.arrays.items():
            if mine.arrays[name].tobytes() != values.tobytes():
                return f"checkpoint's {name}"
    if {folder / "metrics.csv", folder / "config.json"}.isdisjoint(damaged):
        mine, its = (
            json.loads((path / "summary.json").read_text()) for path in (folder, subject.whole)
        )
        if {**mine, "seconds": 0} != {**its, "seconds": 0}:
            return "summary.json"
    return ", ".join(path.name for path in folder.iterdir() if path.suffix == ".tmp")


def outcome(subject: Subject, folder: Path, random: np.random.Generator) -> tuple[str, str]:
    """Damages a folder and resumes; returns how it ended, and what was wrong; empty if nothing."""
    how, damaged = harm(folder, random)
    before = contents(folder)
    try:
        with limited():
            lines = subject.resume(folder, draws=folder / "metrics.csv" in damaged)
            wrong = unlike(subject, folder, lines, damaged)
            return "made up for", wrong and f"{how}: {wrong} differs; {lines}"
    except (EpgError, OSError) as error:
        message = str(error)
        if "\n" in message or str(folder) not in message:
            return "named", f"{how}: {message}"
        after = contents(folder)
        # A write that fails comes later, when other files have been written again.
        kept = [path for path in before if path.suffix == ".npz" and path not in damaged]
        kept = list(before) if isinstance(error, EpgError) else kept
        lost = [str(path) for path in kept if after.get(path) != before[path]]
        return "named", lost and f"{how}: {lost} changed, though {message}"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "traceback", f"{how}: {error!r:.300} at {place.filename}:{place.lineno}"


@pytest.mark.slow
def test_any_damage_is_made_up_for_or_named_in_a_line(subject, tmp_path):
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(INPUTS):
        folder = tmp_path / str(number) / "run"
        shutil.copytree(subject.whole, folder)
        how, what = outcome(
            subject, folder, np.random.default_rng([SEEDS.index(subject.system.kind.name), number])
        )
        outcomes[how] += 1
        wrong += [f"{number} {what}"] if what else []
        shutil.rmtree(folder.parent)
    print(outcomes)
    assert not wrong, "\n".join(wrong)
    assert set(outcomes) == {"made up for", "named"}
