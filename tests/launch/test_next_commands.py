"""Tests the commands that launchers propose: with the file that registers the user's family."""

from __future__ import annotations

import dataclasses
import sys

import gymnasium
import pytest

from epg_tf.epg.settings import Experiment
from epg_tf.tasks.settings import TaskConfig
from launch import config_flag


@pytest.fixture
def words(monkeypatch):
    """A command line with the user's file, which has registered an id."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("MineOfTest-v0", entry_point="mine:Mine")
    words = ["meta_train", "--config=my file.py:a", "--config.task.range=nominal"]
    monkeypatch.setattr(sys, "argv", [*words, "--config.inner.updates=3"])
    return words


def test_the_file_is_named_for_what_it_registers_and_not_for_what_packages_have(words):
    for name in ("gymnasium:MineOfTest-v0", "gymnasium:MineOfTest-v0@25", "mine"):
        file = " '--config=my file.py:a'"
        assert config_flag.config_flag_for(name) == file
        assert config_flag.test_flags_for(name) == f"{file} --config.task.range=nominal"
    for name in ("gymnasium:Pendulum-v1", "gymnasium:Reacher-v5@50", "point_goal"):
        assert config_flag.test_flags_for(name) == config_flag.config_flag_for(name) == ""


def test_nothing_is_named_without_a_config(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["meta_train"])
    assert config_flag.test_flags_for("mine") == ""


@pytest.mark.parametrize(("channel", "named"), [("mine", True), ("time_in_life", False)])
def test_the_file_is_named_for_the_channels_that_it_registers(
    monkeypatch, tmp_path, channel, named
):
    file = tmp_path / "mine.py"
    file.write_text("")
    monkeypatch.setattr(sys, "argv", ["meta_train", f"--config={file}:a"])
    usual = Experiment(task=TaskConfig("point_goal", 2, 10))
    loss = dataclasses.replace(usual.loss, channels=(channel,))
    found = config_flag.file_of(dataclasses.replace(usual, loss=loss))
    assert found == (f"{file}:a" if named else None)
