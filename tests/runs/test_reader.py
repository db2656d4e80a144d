"""Tests epg_tf.runs.reader on folders that are not those of runs; the sessions' tests read runs."""

from __future__ import annotations

import json

import pytest

import epg_tf
from epg_tf.core.errors import RecordError
from epg_tf.runs.evolution import EVOLUTION
from epg_tf.runs.folder import RunFolder, RunTarget
from epg_tf.runs.identity import RunIdentity


@pytest.fixture
def folder(tiny, tmp_path):
    """A run without any epoch."""
    RunFolder(RunIdentity(EVOLUTION, tiny.to_mapping(), 5), RunTarget(tmp_path / "run")).close()
    return tmp_path / "run"


def test_a_run_that_has_only_started(folder, tiny):
    record = epg_tf.read_run(folder)
    assert (record.path, record.kind, record.seed) == (folder, "evolution", 5)
    assert record.experiment == tiny and record.metrics == [] and not record.finished
    assert (record.summary, record.best, record.final) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "alchemy"}, "config.json is damaged, or of a later version"),
        ({"seed": "0"}, "config.json is damaged, or of a later version"),
        ({"config": {"task": {"episode_limit": "long"}}}, "config.json is damaged, or of another"),
    ],
)
def test_damage_is_named(folder, changes, message):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(RecordError, match=message) as raised:
        epg_tf.read_run(folder)
    assert str(raised.value).startswith(f"{folder}: ") and "\n" not in str(raised.value)


def test_other_folders_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RecordError, match="this is no run"):
            epg_tf.read_run(path)
