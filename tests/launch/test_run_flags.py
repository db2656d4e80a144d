"""launch.run_flags: a folder that was made for unusable settings is removed again."""

from __future__ import annotations

import types

import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.runs.folder_lock import FolderLock
from launch import run_flags


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(run_flags, "RUN_DIR", types.SimpleNamespace(value=str(tmp_path / "run")))
    return tmp_path / "run"


def beginning(folder, *names):
    """A run that writes files, and then finds that its settings are unusable."""

    def run() -> int:
        folder.mkdir(exist_ok=True)
        for name in ("config.json", *names):
            (folder / name).write_text("")
        raise ConfigError("config.trials=5 is odd")

    return run


@pytest.mark.parametrize(("names", "left"), [([], False), (["metrics.csv"], True)])
def test_only_a_run_that_has_done_nothing_is_removed(folder, names, left):
    with pytest.raises(ConfigError):
        run_flags.guard(beginning(folder, *names))
    assert folder.exists() == left


def test_what_was_there_stays(folder):
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with pytest.raises(ConfigError):
        run_flags.guard(beginning(folder))
    assert (folder / "config.json").exists()


def test_a_run_of_another_process_stays(folder):
    folder.mkdir()
    lock = FolderLock(folder)
    lock.acquire()
    with pytest.raises(ConfigError):
        run_flags.guard(beginning(folder))
    lock.release()
    assert (folder / "config.json").exists()
