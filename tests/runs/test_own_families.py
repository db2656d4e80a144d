"""Tests epg_tf.runs.own_families: a run is not resumed in silence with another family."""

from __future__ import annotations

import contextlib
import json

import pytest

from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import RecordError
from epg_tf.metagenrl.settings import MetaGenRLExperiment, ValidationConfig
from epg_tf.runs import own_families
from epg_tf.runs.evolution import EVOLUTION
from epg_tf.runs.folder import RunFolder, RunLength, RunTarget
from epg_tf.runs.identity import RunIdentity

PARTS = {"source": "a", "model": "b", "mujoco": "4.0.0"}


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        (PARTS, PARTS, ""),
        (PARTS, PARTS | {"source": "c"}, "the source code of slide"),
        (PARTS, PARTS | {"model": "c"}, "the MuJoCo model of slide"),
        (PARTS, PARTS | {"model": "c", "mujoco": "4.1.0"}, ""),  # versions say so
        (
            {"source": "a", "arguments": "b"},
            {"source": "a", "arguments": "c"},
            "the arguments of slide",
        ),
        (None, PARTS, ""),
        ({}, PARTS, ""),
    ],
)
def test_what_has_changed_is_named(before, now, changed):
    assert own_families.changes({"slide": before}, {"slide": now}) == changed
    assert own_families.changes(None, {"slide": now}) == ""  # a run of an earlier version


@pytest.mark.parametrize(
    ("experiment", "names"),
    [
        (MAMLExperiment(), {MAMLExperiment().task.family}),
        (RL2Experiment(), {RL2Experiment().task.family}),
        (
            MetaGenRLExperiment(
                environments=("a@5", "b"), validation=ValidationConfig(environments=("c@7",))
            ),
            {"a", "b", "c"},
        ),
    ],
)
def test_all_systems_are_asked(monkeypatch, experiment, names):
    monkeypatch.setattr(own_families, "fingerprint", lambda task: {"source": "a"})
    assert set(own_families.fingerprints(experiment)) == names


@pytest.fixture
def run(make_tiny, tmp_path, monkeypatch):
    """A function (digest of the family, target) -> warnings of a run that began or was resumed."""

    def open_run(digest, **how):
        monkeypatch.setattr(own_families, "fingerprint", lambda task: digest)
        identity = RunIdentity(EVOLUTION, make_tiny().to_mapping(), 0)
        with contextlib.closing(RunFolder(identity, RunTarget(tmp_path / "run", **how))) as opened:
            opened.continue_after(0, RunLength(3, "config.evolution.epochs"), ["epoch"])
        return opened.warnings

    return open_run


def recorded(tmp_path):
    return json.loads((tmp_path / "run" / "config.json").read_text()).get("families")


def test_a_changed_family_is_refused_unless_that_is_meant(run, tmp_path):
    assert run({"source": "a"}) == []
    assert run({"source": "a"}, resume=True) == []
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RecordError, match="the source code of point_goal changed since") as raised:
        run({"source": "b"}, resume=True)
    assert "allow_changed_family=True" in str(raised.value) and "\n" not in str(raised.value)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    (warning,) = run({"source": "b"}, resume=True, allow_changed_family=True)
    assert warning.startswith("the source code of point_goal changed, so numbers from here on")
    assert run({"source": "b"}, resume=True) == []  # it was meant once and for all
    run({"source": "c"}, overwrite=True)
    assert recorded(tmp_path) == {"point_goal": {"source": "c"}}


def test_a_run_without_digests_is_resumed_and_gets_them(run, tmp_path):
    run({})
    assert recorded(tmp_path) is None
    assert run({"source": "a"}, resume=True) == []
    assert recorded(tmp_path) == {"point_goal": {"source": "a"}}
