"""Tests launch.arguments: words of configs, folders of runs and ~ become what parsers load."""

from __future__ import annotations

import json

import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.epg.settings import Experiment
from epg_tf.runs import config_files
from launch import arguments

KNOWN = ("config", "run_dir", "resume", "loss")
POINT_GOAL = f"--config={config_files.FLAG_CONFIG}:point_goal"


@pytest.fixture
def run_folder(tmp_path):
    """A folder that looks like that of a run."""
    settings = Experiment().to_mapping()
    (tmp_path / "config.json").write_text(json.dumps({"config": settings, "seed": 0}))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--config=point_goal", "-v=1"], [POINT_GOAL, "-v=1"]),
        (["-config=point_goal:x"], [f"{POINT_GOAL}:x"]),
        (["--seed=1", "--config", "point_goal"], [POINT_GOAL, "--seed=1"]),
        (["--config=fetch", "--config", "goal_ant", "--config=point_goal"], [POINT_GOAL]),
        (["--config.task.range=nominal"], ["--config.task.range=nominal"]),
        (["--seed=1"], ["--seed=1"]),
    ],
)
def test_a_name_becomes_what_flags_load(words, found):
    assert arguments.prepared(words, KNOWN) == found


def test_other_commands_may_have_words_of_that_name():
    assert arguments.prepared(["--config=nothing"], ("loss",)) == ["--config=nothing"]


def test_a_tilde_is_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    words = ["--run_dir=~/runs/a", "--loss=~", "--name=a~b"]
    expanded = ["--run_dir=/home/somebody/runs/a", "--loss=/home/somebody", "--name=a~b"]
    assert arguments.prepared(words, KNOWN) == expanded


@pytest.mark.parametrize("resume", ["--resume", "-resume", "--resume=True"])
def test_to_resume_the_folder_is_enough(run_folder, resume):
    words = [f"--run_dir={run_folder}", resume, "--config.evolution.epochs=9"]
    config, *others = arguments.prepared(words, KNOWN)
    assert others == words and config == f"--config={config_files.FLAG_CONFIG}:{run_folder}"


@pytest.mark.parametrize(
    "words", [[], ["--resume=false"], ["--noresume"], ["--resume", "--noresume"]]
)
def test_a_new_run_takes_no_settings_from_a_folder(run_folder, words):
    words = [f"--run_dir={run_folder}", *words]
    assert arguments.prepared(words, KNOWN) == words


def test_what_is_typed_is_kept_for_messages():
    words = ["--loss=a", "--config.x.y=1", "--loss", "b", "--noconfig.task.z"]
    assert arguments.given("loss", words) == "b" and arguments.given("config", words) is None
    assert arguments.overrides(words) == ["x.y", "task.z"]
    assert arguments.override_words(words, ("x",)) == ["--config.x.y=1"]


@pytest.mark.parametrize("name", ["point_gaol", ""])
def test_unknown_names_are_refused(name):
    with pytest.raises(ConfigError, match=f"config='{name}' is not the name of a config"):
        arguments.prepared([f"--config={name}"], KNOWN)
