"""Tests epg_tf.runs.session with every system: the same bits after any interruption."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import shutil
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import epg_tf
from epg_tf.artifacts import loss_files
from epg_tf.artifacts.artifact import load
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import ConfigError, Interrupted, RecordError
from epg_tf.epg.shards import Shards
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.reports import plots
from epg_tf.runs import checkpoints
from epg_tf.runs.evolution import EvolutionSystem
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.maml import MAMLSystem
from epg_tf.runs.metagenrl import MetaGenRLSystem
from epg_tf.runs.metrics import MetricsFile
from epg_tf.runs.rl2 import RL2System
from epg_tf.runs.session import Session, run_in_folder
from epg_tf.runs.system import System
from tests.baselines.test_rl2 import TINY as TINY_RL2
from tests.runs.test_maml import TINY as TINY_MAML
from tests.runs.test_metagenrl import TINY as TINY_METAGENRL

DRAW = Session._draw  # before a fixture replaces it


@dataclasses.dataclass(frozen=True)
class Case:
    """A system with settings of three short steps.

    Attributes:
      make: Makes the system of settings and a seed.
      unit: Of its steps.
      tiny: Settings.
      length: Name of the setting of its length.
      step: What one step adds to it.
      losses: Folders of what it leaves.
      env_steps: Of its three steps, validation included.
      best: Of its three steps, as what is best states it.
    """

    make: Callable[[Any, int], System]
    unit: str
    tiny: Any
    length: str
    step: int = 1
    losses: tuple[str, ...] = ("best", "final")
    env_steps: int = 0
    best: tuple[str, int] | None = None

    def of_length(self, steps: int) -> Any:
        """Returns the settings of so many steps."""
        *group, field = self.length.split(".")
        changes: dict[str, Any] = {field: steps * self.step}
        if group:
            changes = {group[0]: dataclasses.replace(getattr(self.tiny, group[0]), **changes)}
        return dataclasses.replace(self.tiny, **changes)

    def run(
        self, folder: Path, count: int | None = None, experiment: Any = None, **target: bool
    ) -> tuple[list[Any], list[str]]:
        """Runs so many steps, or all; returns their results and the lines."""
        lines: list[str] = []
        system = self.make(experiment or self.tiny, 0)
        steps = run_in_folder(system, RunTarget(folder, **target), lines.append)
        with contextlib.closing(steps):
            return list(itertools.islice(steps, count)), lines

    def left(self, folder: Path) -> list[Any]:
        """Returns what a run leaves: losses and newest checkpoint to the byte, rows without times,
        summary.
        """
        names = [f"{name}/loss.npz" for name in self.losses]
        files = [(folder / name).read_bytes() for name in names]
        record = epg_tf.read_run(folder)
        rows = [{k: v for k, v in row.items() if "second" not in k} for row in record.metrics]
        newest, _ = checkpoints.load_newest(folder / "checkpoints")
        assert newest is not None and record.summary is not None
        arrays = {name: array.tobytes() for name, array in newest.arrays.items()}
        summary = {k: v for k, v in record.summary.items() if k != "seconds"}
        return [*files, repr(rows), arrays, repr(newest.facts), repr(summary)]


SYSTEMS = {
    "rl2": Case(
        RL2System,
        "iteration",
        RL2Experiment.from_mapping(TINY_RL2),
        "iterations",
        env_steps=168,
        best=("iteration", 2),
    ),
    "maml": Case(
        MAMLSystem,
        "iteration",
        TINY_MAML,
        "outer.iterations",
        env_steps=170,
        best=("iteration", 2),
    ),
    "metagenrl": Case(
        MetaGenRLSystem,
        "round",
        MetaGenRLExperiment.from_mapping(
            {**TINY_METAGENRL, "agent": {**TINY_METAGENRL["agent"], "random_steps": 0}}
        ),
        "steps_per_agent",
        step=12,
        losses=("final",),
        env_steps=72,
    ),
}
SLOW = ("rl2", "metagenrl")  # to compile


@pytest.fixture(
    scope="module",
    params=[
        "evolution",
        *(pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SYSTEMS),
    ],
)
def case(request, make_tiny) -> Iterator[Case]:
    """Each system in turn; that of EPG with shards that all its runs share."""
    if request.param != "evolution":
        yield SYSTEMS[request.param]
        return
    tiny = make_tiny(policy={"hidden": ()}, surrogate={"kind": "reinforce"})  # quick to compile
    with Shards(tiny) as shards:

        def make(experiment: Any, seed: int) -> System:
            shards.stopped.clear()
            return EvolutionSystem(experiment, seed, shards)

        yield Case(make, "epoch", tiny, "evolution.epochs", env_steps=1176)


@pytest.fixture(scope="module")
def finished(case, tmp_path_factory) -> Path:
    """The folder of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    results, lines = case.run(folder)
    assert len(results) == 3 and lines[1].startswith("cost: ")
    return folder


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    """A copy of that folder, to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_a_run_prints_is_in_its_log_also_where_it_goes_on(case, tmp_path):
    first = case.run(tmp_path / "run", 1)[1]
    second = case.run(tmp_path / "run", resume=True)[1]
    logged = (tmp_path / "run" / "log.txt").read_text("utf-8").splitlines()
    assert [line[21:] for line in logged] == [*first, *second]
    assert all(re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d  ", line) for line in logged)
    anew = case.run(tmp_path / "run", 1, overwrite=True)[1]
    logged = (tmp_path / "run" / "log.txt").read_text("utf-8").splitlines()
    assert [line[21:] for line in logged] == anew


def test_a_finished_run_can_be_read(case, finished, capsys):
    record = epg_tf.read_run(finished)
    assert (record.seed, record.finished, record.experiment) == (0, True, case.tiny)
    assert [row["epoch"] for row in record.metrics] == [1, 2, 3]
    assert record.summary[f"{case.unit}s"] == 3
    assert case.env_steps == record.summary["env_steps"] == record.metrics[-1]["env_steps"]
    if case.best is not None:  # its facts are of the whole run, which found it
        (fact, number), best = case.best, load(finished)
        assert best.folder == finished / "best" and best.facts[fact] == number
        assert best.facts["env_steps"] == case.env_steps
    assert record.final == finished / "final" and (finished / "learning_curve.png").is_file()
    assert capsys.readouterr() == ("", "")


def test_an_abandoned_run_is_resumed_to_the_same_bits(case, finished, tmp_path):
    """The caller leaves the loop and is told where the run is; the last time it is after all steps,
    before the run is finished.
    """
    folder = tmp_path / "run"
    for count, done in ((1, 1), (2, 3)):
        results, lines = case.run(folder, count, resume=True)
        assert len(results) == count
        assert lines[-1] == (
            f"stopped after {case.unit} {done} of 3; its checkpoint is in {folder}/checkpoints"
        )
        record = epg_tf.read_run(folder)
        assert not record.finished and record.final is None and len(record.metrics) == done
    results, lines = case.run(folder, resume=True)
    assert results == [] and lines[0].startswith("all 3 ")
    assert case.left(folder) == case.left(finished)


def test_a_stop_ends_the_run(case, tmp_path):
    session = Session(case.make(case.tiny, 0), RunTarget(tmp_path / "run"))
    with contextlib.closing(session):
        steps = session.steps()
        next(steps)
        session.stop()
        with pytest.raises(Interrupted):
            next(steps)
    assert len(epg_tf.read_run(tmp_path / "run").metrics) == 1


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [torn, Path.unlink])
def test_the_step_of_a_damaged_checkpoint_is_repeated(case, finished, copied, damage):
    """A missing one is what a kill between row and checkpoint leaves."""
    newest = copied / "checkpoints" / "epoch_00000003.npz"
    damage(newest)
    results, lines = case.run(copied, resume=True)
    assert len(results) == 1
    if damage is torn:
        assert lines.pop(0).startswith(f"damaged: {newest}: ")
    assert f"continued after {case.unit} 2" in lines[0]
    assert case.left(copied) == case.left(finished)


def test_an_edited_seed_does_not_fit_the_checkpoints(case, copied):
    """Nor does a checkpoint that was copied from the run of another seed."""
    path = copied / "config.json"
    path.write_text(path.read_text("utf-8").replace('"seed": 0', '"seed": 1'), "utf-8")
    before = contents(copied)
    newest = copied / "checkpoints" / "epoch_00000003.npz"
    with pytest.raises(RecordError, match=f"^seed=1: the run that wrote {newest} has seed 0; "):
        list(run_in_folder(case.make(case.tiny, 1), RunTarget(copied, resume=True)))
    assert {**before, **contents(copied)} == before


def test_checkpoints_that_do_not_say_what_run_they_are_of_go_on(case, finished, copied):
    """Those of earlier versions."""
    (copied / "summary.json").unlink()
    for path in copied.rglob("epoch_*.npz"):
        saved = checkpoints.load(path.parent, int(path.stem[6:]))
        checkpoints.save(path.parent, saved.epoch, saved.arrays, saved.facts, 9)
    case.run(copied, resume=True)
    assert case.left(copied) == case.left(finished)


@pytest.mark.parametrize(("seconds", "drawn"), [(0.0, 4), (1.0, 2)])
def test_pictures_take_one_per_cent_of_the_time(case, tmp_path, monkeypatch, seconds, drawn):
    """The first step of three has one, and the end of the run."""
    times = [0.0]  # passes only while pictures are drawn
    monkeypatch.setattr(Session, "_draw", DRAW)
    monkeypatch.setattr(
        "epg_tf.runs.session.time", types.SimpleNamespace(perf_counter=lambda: times[-1])
    )
    monkeypatch.setattr(plots, "write_png", lambda *_: times.append(times[-1] + seconds))
    case.run(tmp_path / "run")
    assert len(times) == 1 + drawn


def test_a_run_whose_folder_is_moved_ends_and_writes_nothing_more(case, finished, tmp_path):
    folder, moved = tmp_path / "run", tmp_path / "moved"
    steps = run_in_folder(case.make(case.tiny, 0), RunTarget(folder))
    next(steps)
    folder.rename(moved)
    folder.mkdir()
    with pytest.raises(RecordError, match=f"^{folder}: the folder was moved or deleted while"):
        next(steps)
    assert not any(folder.iterdir())
    case.run(moved, resume=True)
    assert case.left(moved) == case.left(finished)


def test_a_damaged_best_is_written_again(case, finished, copied):
    if "best" not in case.losses:
        pytest.skip("without tests of objectives there is none")
    (copied / "best" / "loss.npz").write_bytes(b"torn")
    case.run(copied, resume=True)
    assert case.left(copied) == case.left(finished)


def test_a_longer_run_continues_a_finished_one(case, finished, tmp_path):
    """It is not finished any more, until it is again; and cannot be made shorter."""
    folder = tmp_path / "run"
    case.run(folder, experiment=case.of_length(1))
    assert epg_tf.read_run(folder).finished
    case.run(folder, 1, resume=True)
    assert not epg_tf.read_run(folder).finished
    case.run(folder, resume=True)
    assert case.left(folder) == case.left(finished)


def test_a_refused_folder_is_left_alone(case, finished):
    before = contents(finished)
    shorter = case.of_length(2)
    done = rf"^config.{case.length}={2 * case.step}: .* has done {3 * case.step}; use at least"
    for how, message in (
        ({}, "not empty"),
        ({"experiment": shorter, "resume": True}, done),
    ):
        with pytest.raises(RecordError, match=message):
            case.run(finished, **how)
    with pytest.raises(RecordError, match="seed=1: the run in .* has seed 0"):
        list(run_in_folder(case.make(case.tiny, 1), RunTarget(finished, resume=True)))
    assert contents(finished) == before


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_an_impossible_seed_is_refused(case, seed):
    with pytest.raises(ConfigError, match=f"seed={seed}"):
        case.make(case.tiny, seed)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("seconds", "minutes", "line 1"),
        ("\n1,", "\none,", "line 2 has 'one' in column 'epoch'"),
        ("\n2,", "\n2,5,", "line 3 has"),
    ],
)
def test_edited_metrics_are_refused_before_anything_is_lived(case, copied, old, new, complaint):
    path = copied / "metrics.csv"
    edited = path.read_text("utf-8").replace(old, new, 1)
    path.write_text(edited, "utf-8")
    with pytest.raises(RecordError, match=f"^{path}: .*{complaint}") as error:
        case.run(copied, resume=True)
    assert "\n" not in str(error.value)
    assert path.read_text("utf-8") == edited


def test_a_file_in_the_place_of_a_folder_is_refused(case, copied):
    shutil.rmtree(copied / "tensorboard")
    (copied / "tensorboard").write_bytes(b"")
    with pytest.raises(RecordError, match="tensorboard: this is a file, but a folder of a run"):
        case.run(copied, resume=True)


def test_a_folder_in_the_place_of_a_checkpoint_is_refused(case, copied):
    """Where the run would write again; nothing has been removed by then."""
    newest = [*copied.rglob("epoch_00000003.npz")][-1]
    newest.unlink()
    newest.mkdir()
    before = contents(copied)
    with pytest.raises(RecordError, match=f"^{newest}: this is a folder, but a file of a run; mov"):
        case.run(copied, resume=True)
    assert {**before, **contents(copied)} == before


@pytest.mark.parametrize("moment", ["row", "best", "checkpoint"])
def test_an_error_at_any_moment_of_recording_is_made_up_for(
    case, finished, tmp_path, monkeypatch, moment
):
    """As a full disk in step 2, which validates."""
    owner, name, fail_at = {
        "row": (MetricsFile, "append", 1),
        "best": (loss_files, "save_loss", 0),
        "checkpoint": (checkpoints, "save", 2),
    }[moment]
    plain, calls = getattr(owner, name), itertools.count()

    def failing(*words, **named):
        if next(calls) == fail_at:
            raise OSError(28, "No space left on device")
        return plain(*words, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing)
        with pytest.raises(OSError, match="No space"):
            case.run(tmp_path / "run")
    case.run(tmp_path / "run", resume=True)
    assert case.left(tmp_path / "run") == case.left(finished)


def test_unfinished_files_of_a_killed_process_are_removed(case, copied):
    (copied / ".learning_curve.png.123.tmp").write_bytes(b"half")
    (copied / ".of_another_program.png.123.tmp").write_bytes(b"half")
    case.run(copied, resume=True)
    hidden = {path.name for path in copied.iterdir() if path.suffix == ".tmp"}
    assert hidden == {".of_another_program.png.123.tmp"}
