"""Tests epg_tf.runs.folder: what is refused, and that nothing is lost by it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from epg_tf.core.errors import RecordError
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs import folder_lock
from epg_tf.runs.evolution import EVOLUTION
from epg_tf.runs.folder import RunFolder, RunLength, RunTarget
from epg_tf.runs.folder_lock import FolderLock
from epg_tf.runs.identity import RunIdentity
from epg_tf.runs.metagenrl import METAGENRL


def identity_of(experiment, seed):
    return RunIdentity(EVOLUTION, experiment.to_mapping(), seed)


@pytest.fixture
def run(tiny, tmp_path):
    """A function that opens and closes the folder of a run; returns it."""

    def make(experiment=tiny, seed=0, path=tmp_path / "run", **how):
        folder = RunFolder(identity_of(experiment, seed), RunTarget(path, **how))
        folder.close()
        return folder

    return make


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_other_settings_are_refused_by_name(run, make_tiny, tmp_path):
    """Another seed and a folder in use are in test_session.py."""
    run()
    before = content(tmp_path)
    with pytest.raises(
        RecordError, match=r"^config.evolution.sigma=0.2: the run in .*run has 0\."
    ) as raised:
        run(make_tiny(evolution={"sigma": 0.2}), resume=True)
    assert "\n" not in str(raised.value) and "--" not in str(raised.value)
    assert content(tmp_path) == before


def test_epochs_and_threads_may_change(run, make_tiny):
    facts = run().facts
    compute = {"threads": 2, "parallel": "processes"}
    later = run(make_tiny(evolution={"epochs": 9}, compute=compute), resume=True)
    assert later.facts == facts and later.warnings == []


@pytest.fixture(scope="module")
def metagenrl():
    """Two rounds of 12 env steps."""
    return MetaGenRLExperiment.from_mapping(
        {
            "steps_per_agent": 24,
            "round_steps": 12,
            "agent": {"random_steps": 12, "updates_after": 12},
        }
    )


@pytest.mark.parametrize("kind", ["evolution", "metagenrl"])
def test_both_kinds_of_runs_warn_of_missing_rows_and_show_their_settings(
    make_tiny, metagenrl, tmp_path, kind
):
    if kind == "evolution":
        identity, length = identity_of(make_tiny(), 0), RunLength(2, "config.evolution.epochs")
        setting = b"| evolution.epochs | "
    else:
        identity = RunIdentity(METAGENRL, metagenrl.to_mapping(), 0)
        length, setting = RunLength(2, "config.steps_per_agent", 12), b"| steps_per_agent | 24 |"
    with contextlib.closing(RunFolder(identity, RunTarget(tmp_path / "run"))) as folder:
        for epoch in (2, 3):
            folder.metrics.append({"epoch": epoch})
        folder.continue_after(2, length, ["epoch"])
        assert folder.warnings == ["metrics.csv has 1 of 2 rows; curve and summary lack the others"]
        events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
        assert setting in events.Tensors("settings")[0].tensor_proto.string_val[0]


@pytest.mark.parametrize(("done", "left"), [(1, []), (2, ["final", "summary.json"])])
def test_a_run_that_continues_is_not_finished(tiny, tmp_path, done, left):
    with contextlib.closing(RunFolder(identity_of(tiny, 0), RunTarget(tmp_path))) as folder:
        (tmp_path / "final").mkdir()
        (tmp_path / "summary.json").write_text("{}")
        for epoch in (1, 2):
            folder.metrics.append({"epoch": epoch})
        folder.continue_after(done, RunLength(2, "config.evolution.epochs"), ["epoch"])
        assert [name for name in ("final", "summary.json") if (tmp_path / name).exists()] == left
        assert len(folder.metrics.read()) == done and folder.warnings == []


def test_a_kill_while_a_run_is_lengthened_leaves_none_that_seems_finished(
    tiny, tmp_path, monkeypatch
):
    with contextlib.closing(RunFolder(identity_of(tiny, 0), RunTarget(tmp_path))) as folder:
        (tmp_path / "summary.json").write_text("{}")
        folder.metrics.append({"epoch": 1})

        def killed(path, content):
            raise KeyboardInterrupt

        monkeypatch.setattr("epg_tf.core.files.write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.continue_after(1, RunLength(2, "config.evolution.epochs"), ["epoch"])
        assert not (tmp_path / "summary.json").exists()


def test_other_versions_are_reported(run, tmp_path):
    run()
    path = tmp_path / "run" / "config.json"
    description = {**json.loads(path.read_text()), "commit": "0123", "versions": {}}
    path.write_text(json.dumps(description))
    first, second = run(resume=True).warnings
    assert first.startswith("this run started with commit 0123; now it is ")
    assert second.startswith("this run started with versions {}; now it is ")


def test_two_runs_do_not_share_a_folder(tiny, run, tmp_path):
    """Whatever the second asks for, and until the first has closed it."""
    target = RunTarget(tmp_path / "run")
    with contextlib.closing(RunFolder(identity_of(tiny, 0), target)):
        for how in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(RecordError, match="another process is writing"):
                run(**how)
        assert (tmp_path / "run" / "config.json").is_file()
    run(resume=True)


def test_a_folder_that_cannot_be_locked_is_named(tmp_path, monkeypatch):
    def none(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    with pytest.raises(RecordError, match="missing: cannot be locked .No such file"):
        FolderLock(tmp_path / "missing").acquire()
    monkeypatch.setattr(folder_lock.fcntl, "flock", none)
    with pytest.raises(RecordError, match="cannot be locked .No locks available.; choose another"):
        FolderLock(tmp_path).acquire()


def test_a_refused_folder_is_not_kept_locked(run):
    run()
    with pytest.raises(RecordError, match="not empty"):
        run()
    run(resume=True)


def test_a_run_of_another_kind_is_refused(tiny, run, tmp_path):
    run()
    identity = dataclasses.replace(identity_of(tiny, 0), kind=METAGENRL)
    for how in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(RecordError, match=r"another kind \(evolution, not metagenrl\)"):
            RunFolder(identity, RunTarget(tmp_path / "run", **how))


def test_overwrite_replaces_runs_alone(run, tmp_path):
    """A folder that only uses the same names is kept."""
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "model.pt").write_text("precious")
    (tmp_path / "config.json").write_text("{}")
    before = content(tmp_path)
    with pytest.raises(RecordError, match="overwrite=True would replace checkpoints, config.json"):
        run(path=tmp_path, overwrite=True)
    assert content(tmp_path) == before


@pytest.mark.parametrize("failing", ["permission", "rename", "write"])
def test_a_failing_overwrite_deletes_nothing(run, tmp_path, monkeypatch, failing):
    run()
    for name in ("checkpoints", "final"):
        (tmp_path / "run" / name).mkdir()
        (tmp_path / "run" / name / "precious").write_text("old")
    before, rename, access = content(tmp_path), os.rename, os.access

    def fails(*words):
        raise OSError(errno.EIO, "Input/output error")

    def denied(path, mode):
        return "checkpoints" not in str(path) and access(path, mode)

    def rename_once(source, target):
        return fails() if "checkpoints" == Path(source).name else rename(source, target)

    if failing == "permission":
        monkeypatch.setattr(os, "access", denied)
    elif failing == "rename":
        monkeypatch.setattr(os, "rename", rename_once)
    else:
        monkeypatch.setattr("epg_tf.core.files.write_json", fails)
    with pytest.raises((RecordError, OSError), match="checkpoints: .* not writable|Input/output"):
        run(overwrite=True)
    assert content(tmp_path) == before


def test_a_folder_with_other_files(run, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RecordError, match="nothing to resume"):
        run(path=tmp_path, resume=True)
    run(path=tmp_path, overwrite=True)
    run(path=tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_damaged_settings_are_refused(run, tmp_path):
    run()
    path = tmp_path / "run" / "config.json"
    description = json.loads(path.read_text())
    description["config"]["evolution"]["epochs"] = "many"
    path.write_text(json.dumps(description))
    with pytest.raises(RecordError, match="config.json is damaged, .* or pass overwrite=True"):
        run(resume=True)


def test_targets_are_checked():
    with pytest.raises(RecordError, match="run_dir='' must name a folder"):
        RunTarget("")
    with pytest.raises(RecordError, match="resume=True and overwrite=True contradict"):
        RunTarget("run", resume=True, overwrite=True)


def test_the_digest_ignores_how_shards_are_computed(tiny, make_tiny):
    digest = identity_of(tiny, 0).digest()
    assert len(digest) == 32 and identity_of(make_tiny(), 0).digest() == digest
    assert identity_of(make_tiny(compute={"threads": 2}), 0).digest() == digest
    assert identity_of(make_tiny(compute={"parallel": "processes"}), 0).digest() == digest
    assert identity_of(make_tiny(compute={"shard_lives": 2}), 0).digest() != digest
    assert identity_of(tiny, 1).digest() != digest


def test_letters_that_the_locale_cannot_decode_are_refused(tmp_path):
    """So Python reads the name of a folder with an umlaut under LC_ALL=C without UTF-8 mode."""
    with pytest.raises(RecordError, match="^run_dir=.*LC_ALL=C.UTF-8"):
        RunTarget(f"{tmp_path}/l\udcc3\udcbc")
