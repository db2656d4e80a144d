"""Tests runs of evolution through the library: the same bits after any interruption."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import threading

import numpy as np
import pytest

import epg_tf
from epg_tf.core.communication import SingleProcess
from epg_tf.core.errors import Interrupted, RecordError, RunFailed, VersionError
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.post_mortem import why_lives_failed
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import initial_state
from epg_tf.runs import checkpoints
from epg_tf.runs.evolution_session import EvolutionSession, Workers
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.recorder import Recorder
from epg_tf.tasks.point_goal import PointGoal
from tests.thread_ranks import on_ranks


@pytest.fixture(scope="module")
def shards(tiny):
    """Shared by all sessions here, so that lives are compiled once."""
    with Shards(tiny) as shards:
        yield shards


@pytest.fixture
def session(tiny, shards, tmp_path):
    """A function that opens a session in the folder; as a context manager."""

    def make(experiment=tiny, path=tmp_path / "run", write=None, **how):
        workers = Workers(shards, SingleProcess())
        target = RunTarget(path, **how)
        return contextlib.closing(EvolutionSession(experiment, 3, target, workers, write))

    return make


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """A run that nothing disturbed, by the public function."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return folder, list(epg_tf.evolve_in_folder(tiny, 3, folder))


def results(folder):
    """Returns losses to the byte, and rows without times."""
    losses = [(folder / name / "loss.npz").read_bytes() for name in ("best", "final")]
    rows = epg_tf.read_run(folder).metrics
    return losses, [
        repr({name: value for name, value in row.items() if "second" not in name}) for row in rows
    ]


@pytest.mark.slow
def test_the_library_is_silent_and_gives_the_numbers_of_evolve(finished, tiny, shards, capsys):
    folder, epochs = finished
    assert [result.state.epoch for result in epochs] == [1, 2, 3]
    again = list(evolve(tiny, 3, shards=shards))
    assert epochs[-1].state.phi.tobytes() == again[-1].state.phi.tobytes()
    assert capsys.readouterr() == ("", "")
    record = epg_tf.read_run(folder)
    assert record.finished and record.experiment == tiny and record.seed == 3
    assert epg_tf.load_loss(record.final).phi.tobytes() == again[-1].state.phi.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 2, 3])
def test_an_abandoned_run_is_resumed_to_the_same_bits(finished, session, tmp_path, stop):
    """The caller leaves the loop; the last time after all epochs, before the run is finished."""
    with session() as first:
        for _ in itertools.islice(first.epochs(), stop):
            pass
    record = epg_tf.read_run(tmp_path / "run")
    assert not record.finished and record.final is None and len(record.metrics) == stop
    with session(resume=True) as second:
        assert len(list(second.epochs())) == 3 - stop
    assert results(tmp_path / "run") == results(finished[0])


def test_a_caller_that_leaves_the_loop_gets_the_best_loss(session, tmp_path):
    lines = []
    with session(write=lines.append) as first:
        epochs = first.epochs()
        next(epochs)
        epochs.close()
    assert (tmp_path / "run" / "best" / "loss.npz").is_file()
    assert lines[-1] == (
        f"stopped after epoch 1 of 3; its checkpoint is in {tmp_path / 'run'}/checkpoints"
    )


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["append", "save_state", "save_best"])
def test_an_error_at_any_moment_of_recording_is_made_up_for(
    finished, session, tmp_path, monkeypatch, moment
):
    """As a full disk in epoch 2, whose validation comes last."""
    owner = epg_tf.runs.metrics.MetricsFile if moment == "append" else None
    owner = owner or epg_tf.runs.evolution_run.EvolutionRun
    plain, calls = getattr(owner, moment), itertools.count()
    fail_at = {"append": 1, "save_state": 2, "save_best": 0}[moment]

    def failing(self, argument):
        if next(calls) == fail_at:
            raise OSError(28, "No space left on device")
        return plain(self, argument)

    with monkeypatch.context() as patch:
        patch.setattr(owner, moment, failing)
        with session() as first, pytest.raises(OSError, match="No space"):
            list(first.epochs())
    with session(resume=True) as second:
        list(second.epochs())
    assert results(tmp_path / "run") == results(finished[0])


def test_stop_ends_the_run_and_says_so(tiny, tmp_path):
    lines = []
    with Shards(tiny) as own:
        target = RunTarget(tmp_path / "run")
        workers = Workers(own, SingleProcess())
        with contextlib.closing(
            EvolutionSession(tiny, 3, target, workers, lines.append)
        ) as session:
            with pytest.raises(Interrupted):
                for _ in session.epochs():
                    session.stop()
    assert lines[-1].startswith("stopped after epoch 1 of 3; ")


def test_a_longer_run_continues_a_finished_one(finished, session, make_tiny, tmp_path):
    """It is not finished any more, until it is again; and cannot be made shorter."""
    with session(make_tiny(evolution={"epochs": 1})) as first:
        list(first.epochs())
    (tmp_path / "run" / "best" / "loss.npz").unlink()  # as after a kill before it was written
    with session(resume=True) as second:
        epochs = second.epochs()
        next(epochs)
        assert not epg_tf.read_run(tmp_path / "run").finished
        list(epochs)
    assert results(tmp_path / "run") == results(finished[0])
    with session(make_tiny(evolution={"epochs": 2}), resume=True) as shorter:
        with pytest.raises(RecordError, match=r"^config.evolution.epochs=2: .* has done 3"):
            list(shorter.epochs())
    assert epg_tf.read_run(tmp_path / "run").finished


def test_a_damaged_checkpoint_falls_back_and_is_reported(finished, session, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / "epoch_00000003.npz"
    newest.write_bytes(newest.read_bytes()[:1000])
    lines = []
    with session(resume=True, write=lines.append) as second:
        assert len(list(second.epochs())) == 1
    assert lines[0].startswith(f"damaged: {newest}: ") and "continued after epoch 2" in lines[1]
    assert results(tmp_path / "run") == results(finished[0])


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"torn"), lambda p: p.unlink()])
def test_no_readable_checkpoint_loses_nothing(finished, session, tmp_path, damage):
    shutil.copytree(finished[0], tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        damage(path)
    before = (tmp_path / "run" / "metrics.csv").read_bytes()
    with session(resume=True) as second:
        with pytest.raises(RecordError, match="no checkpoint can be read .* overwrite=True"):
            list(second.epochs())
    assert (tmp_path / "run" / "metrics.csv").read_bytes() == before
    assert (tmp_path / "run" / "final").is_dir()


def test_a_checkpoint_of_another_version_is_refused(finished, session, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished[0], folder)
    newest, _ = checkpoints.load_newest(folder / "checkpoints")
    arrays = {name: value for name, value in newest.arrays.items() if name != "last_update"}
    checkpoints.save(folder / "checkpoints", newest.epoch, arrays, newest.facts)
    with session(resume=True) as again, pytest.raises(VersionError, match="another version"):
        next(again.epochs())


@pytest.mark.slow
def test_ranks_record_once(finished, tiny, tmp_path):
    """Only rank 0 has a folder; all ranks yield the same results."""
    target = RunTarget(tmp_path / "run")

    def work(rank):
        with Shards(tiny) as own:
            session = EvolutionSession(tiny, 3, target, Workers(own, rank))
            with contextlib.closing(session):
                phis = [result.state.phi.tobytes() for result in session.epochs()]
                return phis, isinstance(session._recorder, Recorder)

    one, other = on_ranks(2, work)
    assert one[0] == other[0] and (one[1], other[1]) == (True, False)
    losses, rows = results(tmp_path / "run")
    assert losses == results(finished[0])[0] and len(rows) == 3


def test_a_replaced_rank_continues_from_its_state(finished, session, tiny, tmp_path):
    """As elastic Horovod calls a session again: the state in memory is the one to continue from."""
    with session() as stays:
        epochs = stays.epochs()
        next(epochs)
        with pytest.raises(ConnectionError):
            epochs.throw(ConnectionError)  # ranks are lost; the folder stays open
        assert stays.state.epoch == 1
        assert [result.state.epoch for result in stays.epochs()] == [2, 3]
    assert results(tmp_path / "run") == results(finished[0])


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_an_impossible_seed_is_refused_before_anything_is_written(tiny, tmp_path, seed):
    with pytest.raises(epg_tf.ConfigError, match=f"seed={seed}"):
        next(epg_tf.evolve_in_folder(tiny, seed, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("experiment", "reason"),
    [
        ({"inner": {"learning_rate": 1e7}}, "in life 0 "),
        ({}, "in life 0 the reward was not finite at env step 1;"),
    ],
)
@pytest.mark.slow
def test_a_run_whose_lives_all_fail_ends_and_says_why(
    make_tiny, tmp_path, monkeypatch, experiment, reason
):
    if not experiment:
        monkeypatch.setattr(
            PointGoal, "reward", lambda self, before, after, action: np.full(len(action), np.nan)
        )
    changed = make_tiny(evolution={"epochs": 9, "failed_epochs": 2}, **experiment)
    epochs = epg_tf.evolve_in_folder(changed, 0, tmp_path / "run")
    next(epochs)
    next(epochs)
    with pytest.raises(RunFailed, match=f"^all 8 lives of 2 epochs in a row failed .*{reason}"):
        next(epochs)
    assert checkpoints.load_newest(tmp_path / "run" / "checkpoints")[0].epoch == 2


def test_the_search_for_the_reason_can_be_stopped(tiny):
    stop = threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        why_lives_failed(tiny, 0, initial_state(tiny, 0), stop)


@pytest.mark.slow
def test_all_ranks_of_a_resumed_run_go_on_counting_failed_epochs(make_tiny, tmp_path):
    """Only rank 0 reads the folder."""
    failing = make_tiny(inner={"learning_rate": 1e7}, evolution={"epochs": 9, "failed_epochs": 2})
    with contextlib.closing(epg_tf.evolve_in_folder(failing, 0, tmp_path / "run")) as epochs:
        next(epochs)

    def resumed(rank):
        target = RunTarget(tmp_path / "run", resume=True)
        with Shards(failing) as shards:
            session = EvolutionSession(failing, 0, target, Workers(shards, rank))
            with contextlib.closing(session):
                epochs = session.epochs()
                assert next(epochs).state.epoch == 2
                with pytest.raises(RunFailed, match="2 epochs in a row"):
                    next(epochs)
        return True

    assert on_ranks(2, resumed) == [True, True]


@pytest.mark.slow
def test_failed_epochs_can_be_allowed(make_tiny, tmp_path):
    changed = make_tiny(inner={"learning_rate": 1e7}, evolution={"failed_epochs": 0})
    assert len(list(epg_tf.evolve_in_folder(changed, 0, tmp_path / "run"))) == 3


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("seconds", "minutes", "line 1"),
        ("\n1,", "\none,", "line 2 has 'one' in column 'epoch'"),
        ("\n2,", "\n2,5,", "line 3 has"),
    ],
)
def test_edited_metrics_are_refused_before_anything_is_lived(
    finished, tiny, tmp_path, old, new, complaint
):
    shutil.copytree(finished[0], tmp_path / "run")
    path = tmp_path / "run" / "metrics.csv"
    edited = path.read_text("utf-8").replace(old, new, 1)
    path.write_text(edited, "utf-8")
    with pytest.raises(RecordError, match=f"^{path}: .*{complaint}") as error:
        list(epg_tf.evolve_in_folder(tiny, 3, tmp_path / "run", resume=True))
    assert "\n" not in str(error.value)
    assert path.read_text("utf-8") == edited


def test_a_file_in_the_place_of_a_folder_is_refused(finished, tiny, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "tensorboard")
    (tmp_path / "run" / "tensorboard").write_bytes(b"")
    with pytest.raises(RecordError, match="tensorboard: this is a file, but a folder of a run"):
        list(epg_tf.evolve_in_folder(tiny, 3, tmp_path / "run", resume=True))
