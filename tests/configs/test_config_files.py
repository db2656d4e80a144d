"""Tests epg_tf.runs.config_files: experiments by name, by path, and from the folder of a run."""

from __future__ import annotations

import json
import sys

import pytest

import epg_tf
from epg_tf.core.errors import ConfigError
from epg_tf.epg.settings import Experiment
from epg_tf.runs import config_files

OWN = """
import dataclasses
import numbers_of_mine
from ml_collections import ConfigDict
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.settings import TaskConfig

@dataclasses.dataclass
class Sizes:
    limit: "int" = numbers_of_mine.LIMIT

def get_config(variant="short"):
    limit = Sizes().limit * (2 if variant == "long" else 1)
    return {kind}(Experiment(task=TaskConfig(episode_limit=limit)).to_mapping())
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A config file of a user, which imports a module beside it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "numbers_of_mine.py").write_text("LIMIT = 31\n")
    path = tmp_path / "mine.py"
    path.write_text(OWN.replace("{kind}", "ConfigDict"))
    yield path
    sys.modules.pop("numbers_of_mine", None)


@pytest.mark.parametrize("name", epg_tf.package_configs())
def test_every_shipped_config_is_an_experiment(name):
    kind = config_files.SYSTEMS.get(name.split("_")[0], Experiment)
    assert type(epg_tf.load_experiment(name)) is kind
    sentence, variants = config_files.describe_config(name)
    assert sentence and all(epg_tf.load_experiment(f"{name}:{variant}") for variant in variants)


def test_a_file_of_a_user(own):
    assert epg_tf.load_experiment(str(own)).task.episode_limit == 31
    assert epg_tf.load_experiment(f"{own}:long").task.episode_limit == 62


@pytest.mark.parametrize("kind", ["dict", "Experiment(task=TaskConfig(episode_limit=31)) or dict"])
def test_a_config_may_return_plain_mappings_or_an_experiment(own, kind):
    own.write_text(OWN.replace("{kind}", kind))
    assert epg_tf.load_experiment(str(own)).task.episode_limit == 31


def test_the_folder_of_a_run_is_a_config_in_any_working_folder(tmp_path, monkeypatch):
    paper = epg_tf.load_experiment("random_hopper:paper")
    for name in ("run", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "run" / "config.json").write_text(json.dumps({"config": paper.to_mapping()}))
    monkeypatch.chdir(tmp_path)
    found = str(config_files.absolute(config_files.find_config("run")))
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert epg_tf.load_experiment(found) == epg_tf.load_experiment(str(tmp_path / "run")) == paper


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{}", "holds no settings"),
        ('{"config": {"task": {"famly": "ant"}}}', "config.task.famly"),
        ("{", "config.json"),
    ],
)
def test_a_damaged_run_is_refused(tmp_path, content, part):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(epg_tf.EpgError, match=part):
        epg_tf.load_experiment(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("random_hoper", "did you mean 'random_hopper'"),
        ("random_hopper:papr", "did you mean :paper[?] use one of :laptop, :night, :paper"),
        ("point_goal:paper", "has no variants; leave out the colon"),
        ("nowhere/point_goal.py", "no file nowhere/point_goal.py; the config is 'point_goal'"),
        ("configs", "is not the name of a config of the package"),
    ],
)
def test_unknown_names_are_refused(name, part):
    with pytest.raises(ConfigError, match=part):
        epg_tf.load_experiment(name)


def test_a_shipped_name_is_never_a_folder(tmp_path, monkeypatch):
    """A run may lie in the working folder, or in a folder that has the name of a config."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "point_goal").mkdir()
    for folder in (tmp_path, tmp_path / "point_goal"):
        (folder / "config.json").write_text("{}")
    assert epg_tf.load_experiment("point_goal").task.family == "point_goal"
    with pytest.raises(ConfigError, match="is not the name of a config of the package"):
        epg_tf.load_experiment("")


def test_folders_may_have_colons(own):
    folder = own.parent / "a:b"
    folder.mkdir()
    (own.parent / "numbers_of_mine.py").rename(folder / "numbers_of_mine.py")
    file = own.rename(folder / "mine.py")
    assert epg_tf.load_experiment(f"{file}:long").task.episode_limit == 62


@pytest.mark.parametrize(
    "code",
    [
        "get_config = 3",
        "",
        "def get_config(): return 4",
        "def get_config(:",
        "import nothing_of_this_name",
        "raise OSError('no licence')",
    ],
)
def test_a_file_that_is_no_config_is_refused(tmp_path, code):
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(ConfigError, match="gives no settings"):
        epg_tf.load_experiment(str(tmp_path / "mine.py"))
