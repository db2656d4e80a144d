"""Tests epg_tf.runs.evolution: ranks, also where they are lost, failures, and costs;
test_session.py interrupts it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading

import numpy as np
import pytest

import epg_tf
from epg_tf.core.communication import SingleProcess
from epg_tf.core.errors import Interrupted, RecordError, RunFailed
from epg_tf.epg.epoch_metrics import COLUMNS
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.post_mortem import why_lives_failed
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import EvolutionState, initial_state
from epg_tf.runs import checkpoints
from epg_tf.runs.evolution import EvolutionSystem
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.metrics import MetricsFile
from epg_tf.runs.session import Session, run_in_folder
from epg_tf.tasks.point_goal import PointGoal
from tests.thread_ranks import on_ranks

DRAW = Session._draw  # before a fixture replaces it


@pytest.fixture(scope="module")
def tiny(make_tiny):
    """Quick to compile."""
    return make_tiny(policy={"hidden": ()}, surrogate={"kind": "reinforce"})


@pytest.fixture(scope="module")
def shards(tiny):
    """Shared by all sessions here, so that lives are compiled once."""
    with Shards(tiny) as shards:
        yield shards


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
def test_the_library_gives_the_numbers_of_evolve(finished, tiny, shards):
    folder, epochs = finished
    assert [result.state.epoch for result in epochs] == [1, 2, 3]
    again = list(evolve(tiny, 3, shards=shards))
    assert epochs[-1].state.phi.tobytes() == again[-1].state.phi.tobytes()
    final = epg_tf.read_run(folder).final
    assert epg_tf.load_loss(final).phi.tobytes() == again[-1].state.phi.tobytes()


def test_no_picture_is_drawn_into_what_took_the_place_of_the_folder(
    tiny, shards, tmp_path, monkeypatch
):
    """It is replaced after the checkpoint of the first epoch."""
    folder, save = tmp_path / "run", checkpoints.save

    def save_and_replace(path, epoch, *written, **facts):
        save(path, epoch, *written, **facts)
        if epoch == 1:
            folder.rename(tmp_path / "moved")
            folder.mkdir()

    monkeypatch.setattr(checkpoints, "save", save_and_replace)
    monkeypatch.setattr(Session, "_draw", DRAW)
    with pytest.raises(RecordError, match="the folder was moved or deleted while"):
        next(run_in_folder(EvolutionSystem(tiny, 3, shards), RunTarget(folder)))
    assert not any(folder.iterdir())


def test_a_run_that_was_never_validated_ends_with_the_newest_as_the_best(tiny, shards, tmp_path):
    """Its caller leaves the loop."""
    steps = run_in_folder(EvolutionSystem(tiny, 3, shards), RunTarget(tmp_path / "run"))
    with contextlib.closing(steps):
        state = next(steps).state
    best = epg_tf.load_loss(tmp_path / "run" / "best")
    assert best.phi.tobytes() == state.phi.tobytes()
    assert best.facts["chosen"] == "newest, never validated"


@pytest.mark.slow
def test_ranks_record_once(finished, tiny, tmp_path):
    """Only rank 0 has a folder; all ranks yield the same results."""
    target = RunTarget(tmp_path / "run")

    def work(rank):
        with Shards(tiny) as own:
            session = Session(EvolutionSystem(tiny, 3, own, rank), target)
            with contextlib.closing(session):
                phis = [result.state.phi.tobytes() for result in session.steps()]
                return phis, session._folder is not None

    one, other = on_ranks(2, work)
    assert one[0] == other[0] and (one[1], other[1]) == (True, False)
    losses, rows = results(tmp_path / "run")
    assert losses == results(finished[0])[0] and len(rows) == 3


class Lossy(SingleProcess):
    """One of `size` ranks, whose collectives fail while `lost` is set."""

    lost = False

    def check_same(self, what, digest):
        """Takes it that the other ranks agree."""

    def broadcast(self, values):
        """Returns the values, or fails as where ranks are lost."""
        if self.lost:
            raise ConnectionError
        return values


class Folder:
    """Opens the same folder as one process after another, each of which has died."""

    def __init__(self, tiny, shards, path):
        self.tiny, self.shards, self.path = tiny, shards, path
        self.lines: list[str] = []
        self.sessions: list[Session] = []

    def session(self, memory: EvolutionState | None = None, ranks: int = 2, **how) -> Session:
        """Returns the session of a process that is rank 0 now, and may know a state."""
        self.close()
        communicator = Lossy()
        communicator.size = ranks
        self.system = EvolutionSystem(self.tiny, 3, self.shards, communicator)
        target = RunTarget(self.path, **how)
        self.sessions.append(Session(self.system, target, self.lines.append))
        if memory is not None:  # it was another rank, which recorded nothing
            communicator.rank = 1
            self.sessions[-1].begin()
            communicator.rank, self.system.state = 0, memory
        return self.sessions[-1]

    def save(self, state: EvolutionState) -> None:
        """Writes a checkpoint, and a row for each epoch."""
        self.system.state = state
        checkpoints.save(self.path / "checkpoints", state.epoch, *self.system.arrays())
        for number in range(1, state.epoch + 1):
            row = {**dict.fromkeys(COLUMNS, 0.0), "epoch": number}
            MetricsFile(self.path / "metrics.csv").append(row)

    def close(self) -> None:
        """Ends the newest process."""
        for session in self.sessions:
            session.close()


@pytest.fixture
def folder(tiny, shards, tmp_path):
    made = Folder(tiny, shards, tmp_path / "run")
    yield made
    made.close()


def state_after(experiment, epoch):
    state = initial_state(experiment, 3)
    return dataclasses.replace(state, epoch=epoch, phi=state.phi + np.float32(epoch))


def test_the_first_process_starts_and_names_its_ranks(folder):
    """Two shards an epoch, so that one of three ranks is idle."""
    folder.session(ranks=3).begin()
    assert folder.system.state.epoch == 0
    assert folder.lines[0] == f"evolving a loss for point_goal in {folder.path}, on 3 ranks"
    assert folder.lines[2].startswith(
        "1 of 3 ranks have nothing to do: an epoch has only 2 shards of config.compute.shard"
    )
    saved = [path.name for path in (folder.path / "checkpoints").iterdir()]
    assert saved == ["epoch_00000000.npz"]


@pytest.mark.parametrize(
    ("flags", "epoch"), [({}, 1), ({}, 2), ({}, 3), ({"resume": True}, 1), ({"overwrite": True}, 1)]
)
def test_a_replacement_continues_from_the_folder(folder, tiny, flags, epoch):
    """Rank 0 may have died after a checkpoint that others do not know, or before it wrote an epoch:
    that is then repeated, and no row is missing.
    """
    folder.session().begin()
    folder.save(state_after(tiny, 2))
    folder.session(state_after(tiny, epoch), 1, **flags).begin()
    state = folder.system.state
    assert state.epoch == 2 and state.phi.tobytes() == state_after(tiny, 2).phi.tobytes()


def test_a_replacement_continues_from_memory_if_the_folder_is_far_behind(folder, tiny):
    """As on a machine that does not share the folder: its own then begins with that state."""
    folder.session(state_after(tiny, 2), 1).begin()
    assert folder.system.state.epoch == 2
    newest, messages = checkpoints.load_newest(folder.path / "checkpoints")
    assert newest.epoch == 2 and not messages
    assert newest.arrays["phi"].tobytes() == state_after(tiny, 2).phi.tobytes()


def test_a_process_that_has_only_started_replaces_none(folder):
    folder.session().begin()
    with pytest.raises(RecordError, match="resume=True"):
        folder.session().begin()


def test_ranks_lost_before_the_first_state_do_not_start_a_resumed_run_again(folder, tiny):
    """Rank 0 opened the folder and lost ranks in the first broadcast; rows of later epochs than the
    checkpoint's are dropped all the same.
    """
    folder.session().begin()
    folder.save(state_after(tiny, 2))
    MetricsFile(folder.path / "metrics.csv").append({**dict.fromkeys(COLUMNS, 0.0), "epoch": 3})
    resumed = folder.session(resume=True)
    folder.system.communicator.lost = True
    with pytest.raises(ConnectionError):
        next(resumed.steps())
    folder.system.communicator.lost = False
    resumed.begin()
    state = folder.system.state
    assert state.epoch == 2 and state.phi.tobytes() == state_after(tiny, 2).phi.tobytes()
    assert len(epg_tf.read_run(folder.path).metrics) == 2


def test_a_rank_that_stays_continues_from_its_state(finished, tiny, shards, tmp_path):
    """As elastic Horovod calls a session again: the state in memory is the one to continue from."""
    system = EvolutionSystem(tiny, 3, shards)
    with contextlib.closing(Session(system, RunTarget(tmp_path / "run"))) as stays:
        epochs = stays.steps()
        next(epochs)
        with pytest.raises(ConnectionError):
            epochs.throw(ConnectionError)  # ranks are lost; the folder stays open
        assert system.state.epoch == 1
        assert [result.state.epoch for result in stays.steps()] == [2, 3]
    assert results(tmp_path / "run") == results(finished[0])


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
    changed = make_tiny(
        evolution={"epochs": 9, "failed_epochs": 2, "final_guidance": 1.0}, **experiment
    )
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
    failing = make_tiny(
        inner={"learning_rate": 1e7},
        evolution={"epochs": 9, "failed_epochs": 2, "final_guidance": 1.0},
    )
    with contextlib.closing(epg_tf.evolve_in_folder(failing, 0, tmp_path / "run")) as epochs:
        next(epochs)

    def resumed(rank):
        target = RunTarget(tmp_path / "run", resume=True)
        with Shards(failing) as shards:
            system = EvolutionSystem(failing, 0, shards, rank)
            with contextlib.closing(run_in_folder(system, target)) as epochs:
                assert next(epochs).state.epoch == 2
                with pytest.raises(RunFailed, match="2 epochs in a row"):
                    next(epochs)
        return True

    assert on_ranks(2, resumed) == [True, True]


@pytest.mark.slow
def test_failed_epochs_can_be_allowed(make_tiny, tmp_path):
    changed = make_tiny(inner={"learning_rate": 1e7}, evolution={"failed_epochs": 0})
    assert len(list(epg_tf.evolve_in_folder(changed, 0, tmp_path / "run"))) == 3


FINAL = "3 final episodes a life (at most 6 env steps each)"
VALIDATION = "4 validation lives every 2 epochs"


@pytest.mark.parametrize(
    ("fitness_from", "period", "end"),
    [
        ("final_episodes", 2, f" in all; besides, {FINAL} and {VALIDATION}"),
        ("final_episodes", 0, f" in all; besides, {FINAL}"),
        ("weighted", 0, f" in all; besides, {FINAL}"),
        ("whole_life", 2, f" in all; besides, {VALIDATION}, with {FINAL}"),
        ("whole_life", 0, " in all"),
    ],
)
def test_final_episodes_are_mentioned_where_lives_play_them(make_tiny, fitness_from, period, end):
    """Lives whose fitness is from their own episodes play none; validation lives always do."""
    experiment = make_tiny(
        evolution={
            "fitness_from": fitness_from,
            "validation_lives": 4,
            "validation_period": period,
        },
        inner={"final_episodes": 3},
        task={"episode_limit": 6},
    )
    assert EvolutionSystem.costs(experiment)[0].endswith(end)


def test_shorter_lives_make_the_cost_a_bound(make_tiny):
    cost = EvolutionSystem.costs(make_tiny(evolution={"shortest_life": 1}))[0]
    assert " lives x at most " in cost and " = at most " in cost
    cost = EvolutionSystem.costs(make_tiny(evolution={"longest_life": 1}))[0]
    assert " lives x 8 env steps = 64 env steps an epoch" in cost
