"""Tests epg_tf.runs.metagenrl: ranks, damaged agents, failures; test_session.py interrupts it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil

import numpy as np
import pytest

import epg_tf
from epg_tf.core import array_files
from epg_tf.core.errors import ConfigError, Interrupted, RecordError, RunFailed
from epg_tf.metagenrl.population import meta_learn
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs import checkpoints
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.kept_objectives import kept_objectives
from epg_tf.runs.metagenrl import MetaGenRLSystem, meta_learn_in_folder
from epg_tf.runs.session import Session
from epg_tf.tasks.point_goal import PointGoal
from tests.thread_ranks import on_ranks

TINY = {
    "environments": ("point_goal@5",),
    "agents": 2,
    "steps_per_agent": 36,
    "round_steps": 12,
    "shard_agents": 1,
    "threads": 2,
    "objective_period": 2,
    "objective": {"lstm_units": 3, "action_layers": 1, "action_filters": 2},
    "agent": {
        "hidden": (4,),
        "batch": 2,
        "chunk": 3,
        "random_steps": 12,
        "updates_after": 4,
        "replay_steps": 24,
    },
}


@pytest.fixture(scope="module")
def tiny():
    return MetaGenRLExperiment.from_mapping(TINY)


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert [result.state.round for result in meta_learn_in_folder(tiny, 0, folder)] == [1, 2, 3]
    return folder


def objective(folder) -> bytes:
    return (folder / "final" / "loss.npz").read_bytes()


def left_after(count, experiment, folder):
    """Returns the folder of a run that was left after so many rounds."""
    with contextlib.closing(meta_learn_in_folder(experiment, 0, folder)) as rounds:
        assert len(list(itertools.islice(rounds, count))) == count
    return folder


@pytest.fixture(scope="module")
def left(tiny, tmp_path_factory):
    """The folder of a run that was left after two rounds."""
    return left_after(2, tiny, tmp_path_factory.mktemp("left") / "run")


def resumed(experiment, folder):
    """Returns the numbers of the rounds of the resumed run, and its lines about damage."""
    lines = []
    rounds = meta_learn_in_folder(experiment, 0, folder, resume=True, write=lines.append)
    numbers = [result.state.round for result in rounds]
    return numbers, [line for line in lines if line.startswith("damaged: ")]


def test_objectives_are_kept_and_none_is_the_best_without_tests(finished):
    record = epg_tf.read_run(finished)
    assert record.best is None and record.final == finished / "final"
    kept = sorted(path.name for path in (finished / "objectives").iterdir())
    assert kept == ["round_00000000", "round_00000002"]


def test_two_ranks_share_a_folder_and_give_the_same_bits(finished, tiny, tmp_path):
    def work(rank):
        session = Session(MetaGenRLSystem(tiny, 0, rank), RunTarget(tmp_path / "run"))
        with contextlib.closing(session):
            return [result.state.parameters.tobytes() for result in session.steps()]

    one, other = on_ranks(2, work)
    assert one == other and objective(tmp_path / "run") == objective(finished)


def test_checkpoints_of_another_version_cannot_be_restored(finished, tiny, tmp_path):
    """An older version named an array of the agents in another way."""
    shutil.copytree(finished, tmp_path / "run")
    for folder in (tmp_path / "run" / "agents").glob("*/weights"):
        for number in checkpoints.epochs(folder):
            saved = checkpoints.load(folder, number)
            arrays = {
                name.replace("policy/", "actor/"): array for name, array in saved.arrays.items()
            }
            checkpoints.save(folder, number, arrays, saved.facts)
    with pytest.raises(RecordError, match="no checkpoint can be read .* overwrite=True") as raised:
        list(meta_learn_in_folder(tiny, 0, tmp_path / "run", resume=True))
    message = str(raised.value)
    assert "use the version of epg_tf that wrote the run, or" in message
    assert "restore one" not in message and "\n" not in message
    assert objective(tmp_path / "run") == objective(finished)


def emptied(path):
    """Leaves an empty file."""
    path.write_bytes(b"")


def other_version(path):
    """Writes the same steps as another version would."""
    with np.load(path) as saved:
        arrays = dict(saved)
    array_files.write_arrays(path, {**arrays, "__format_version__": np.array(2, np.int64)})


def other_agents(path):
    """Writes steps of three agents, with a checksum of their own."""
    found = checkpoints.load(path.parent, 1).arrays
    arrays = {name: np.repeat(values, 3, axis=0) for name, values in found.items()}
    checkpoints.save(path.parent, 1, arrays, {}, 9)


@pytest.mark.parametrize("damage", [emptied, other_version, other_agents])
def test_one_unreadable_file_of_steps_costs_no_checkpoint(tiny, left, tmp_path, damage):
    """Whatever is wrong with it: the newest round is restored, and the file is named."""
    folder = shutil.copytree(left, tmp_path / "run")
    for shard in ("shard_000", "shard_001"):
        for number in (0, 1):
            emptied(folder / "agents" / shard / "weights" / f"epoch_{number:08d}.npz")
    damage(folder / "agents" / "shard_001" / "steps" / "epoch_00000001.npz")
    rounds, lines = resumed(tiny, folder)
    assert rounds == [3] and len(lines) == 1 and "\n" not in lines[0]
    assert "shard_001/steps/epoch_00000001.npz" in lines[0] and "after round 1 alone" in lines[0]


def test_a_replay_is_not_emptied_where_an_older_round_saves_it(tiny, tmp_path):
    """Steps of rounds 1 and 3 are damaged: round 2 keeps its steps, round 3 would have none."""
    longer = dataclasses.replace(tiny, steps_per_agent=24, round_steps=6)  # replays of 24 steps
    folder = left_after(3, longer, tmp_path / "run")
    for number in (1, 3):
        path = folder / "agents" / "shard_001" / "steps" / f"epoch_{number:08d}.npz"
        path.write_bytes(b"torn")
    rounds, lines = resumed(longer, folder)
    assert rounds == [3, 4]
    assert any("steps/epoch_00000003.npz" in line and "skipped" in line for line in lines)
    assert any("after round 1 alone" in line for line in lines)


def test_no_newer_checkpoint_is_skipped_without_a_word(tiny, left, tmp_path):
    """Where steps that all checkpoints need are damaged, and the newest weights, too."""
    folder = shutil.copytree(left, tmp_path / "run")
    shard = folder / "agents" / "shard_001"
    emptied(shard / "weights" / "epoch_00000002.npz")
    emptied(shard / "steps" / "epoch_00000001.npz")
    (folder / "checkpoints" / "epoch_00000000.npz").unlink(missing_ok=True)
    rounds, lines = resumed(tiny, folder)
    assert rounds == [2, 3]
    assert any("weights/epoch_00000002.npz" in line and "skipped" in line for line in lines)
    assert any("steps/epoch_00000001.npz" in line and "after round 1" in line for line in lines)


def test_an_objective_newer_than_its_agents_is_gone_before_they_go_on(tiny, left, tmp_path):
    """Else agents of the new round 2 could meet the objective of the old one after a kill. The run
    is stopped within that round.
    """
    folder = shutil.copytree(left, tmp_path / "run")
    emptied(folder / "agents" / "shard_001" / "weights" / "epoch_00000002.npz")
    (folder / "objectives" / "round_00000002_old").mkdir()  # a user's copy
    session = Session(MetaGenRLSystem(tiny, 0), RunTarget(folder, resume=True), print)
    session.stop()
    with contextlib.closing(session), pytest.raises(Interrupted):
        next(session.steps())
    assert max(checkpoints.epochs(folder / "checkpoints")) == 1
    assert 2 not in [number for number, _ in kept_objectives(folder)]
    assert (folder / "objectives" / "round_00000002_old").is_dir()


@pytest.mark.parametrize(
    ("broken", "factor", "reason"),
    [
        ("observe", np.nan, "the observation was not finite at env step 1 of round 1"),
        ("reward", 1e30, "a gradient or the critics' error was not finite at env step"),
    ],
)
def test_a_run_whose_agents_all_fail_ends_and_says_why(
    tiny, tmp_path, monkeypatch, broken, factor, reason
):
    right = getattr(PointGoal, broken)
    monkeypatch.setattr(PointGoal, broken, lambda *words: factor * right(*words))
    changed = dataclasses.replace(tiny, failed_rounds=2)
    rounds = meta_learn_in_folder(changed, 0, tmp_path / "run")
    with pytest.raises(RunFailed, match="^all 2 agents had failed in 2 rounds in a row") as error:
        list(rounds)
    assert f"e.g. agent 0 in point_goal: {reason}" in str(error.value)


def test_failed_agents_are_those_of_the_round(tiny, monkeypatch):
    """In round 3 the steps of round 1 have left the replay."""
    forgetful = dataclasses.replace(tiny.agent, replay_steps=12)
    rounds = meta_learn(dataclasses.replace(tiny, agent=forgetful), 0)
    reward = PointGoal.reward
    with monkeypatch.context() as broken:
        broken.setattr(PointGoal, "reward", lambda *words: 1e30 * reward(*words))
        assert next(rounds).metrics["failed_agents"] == 2
    assert [result.metrics["failed_agents"] for result in rounds][-1] == 0


def test_settings_that_do_not_fit_are_refused_before_a_run(tiny, tmp_path):
    wrong = dataclasses.replace(tiny, steps_per_agent=12)
    with pytest.raises(ConfigError, match="config.steps_per_agent=12 are 12 env steps"):
        next(meta_learn_in_folder(wrong, 0, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_goes_on_counting_failed_rounds(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(
        PointGoal, "reward", lambda self, before, after, action: np.full(len(action), np.nan)
    )
    changed = dataclasses.replace(tiny, failed_rounds=2)
    with contextlib.closing(meta_learn_in_folder(changed, 0, tmp_path / "run")) as rounds:
        next(rounds)
    rounds = meta_learn_in_folder(changed, 0, tmp_path / "run", resume=True)
    assert next(rounds).state.round == 2
    with pytest.raises(RunFailed, match="^all 2 agents had failed in 2 rounds in a row"):
        next(rounds)
