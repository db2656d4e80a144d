"""Tests the tool that joins two tests of the same tasks."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from epg_tf.baselines.method import LossName
from epg_tf.core.experiment import Experiment, PolicyConfig, TaskConfig
from epg_tf.evaluation.results import Results, read_results
from tests.evaluation.tables import table

ROOT = Path(__file__).resolve().parents[1]
CURVE = np.zeros((3, 2))
PPO = table("ppo", [1.0, 2.0, np.nan], CURVE)
ONE = table("epg", [4.0, 5.0, 6.0], CURVE, loss=LossName("one", 0))
TWO = table("epg", [7.0, 8.0, 9.0], CURVE, loss=LossName("two", 1))
ABOUT = {
    "loss": "one",
    "other_losses": [],
    "task": vars(TaskConfig()),
    "phase": "reporting",
    "seed": 0,
    "updates": 2,
    "compare_updates": 1,
    "policy": vars(PolicyConfig()),
    "alpha": 0.0,
    "baseline": {},
    "rivals": {},
    "config": Experiment().to_mapping(),
    "meta_training_env_steps": {"epg one": 5},
    "zero_shot_facts": {},
    "meta_trained": {},
    "made_with": {"commit": "abc"},
}


@pytest.fixture(scope="module")
def tool():
    """The tool, which is in no package."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("join_tests")
    sys.path.remove(str(ROOT / "tools"))


def write(folder, tables, **changes):
    folder.mkdir()
    Results.join(tables).write(folder / "curves.csv")
    (folder / "summary.json").write_text(json.dumps({"about": ABOUT | changes}))
    return str(folder)


def test_rows_that_one_test_lacks_are_added(tool, tmp_path, capsys):
    """The test of both losses gets PPO of the other one, whose failed agent stays failed."""
    first = write(tmp_path / "a", [ONE, TWO], meta_training_env_steps={"epg one": 5, "epg two": 6})
    second = write(tmp_path / "b", [ONE, PPO], made_with={"commit": "def"})
    assert tool.main([f"--output={tmp_path / 'c'}", first, second]) == 0
    found = read_results(tmp_path / "c")
    assert list(found.groups()) == ["epg one", "epg two", "ppo"]
    expected = Results.join([ONE, TWO, PPO])
    np.testing.assert_array_equal(found.returns, expected.returns)
    about = json.loads((tmp_path / "c" / "summary.json").read_text())["about"]
    assert about["meta_training_env_steps"] == {"epg one": 5, "epg two": 6}
    assert about["made_with"] == {"commit": "abc"} and about["joined_with"] == {"commit": "def"}
    assert str(tmp_path / "c") in capsys.readouterr().out


def test_a_test_that_is_older_than_a_setting_had_its_default(tool, tmp_path, capsys):
    older = {name: value for name, value in ABOUT["policy"].items() if name != "observation_pairs"}
    first = write(tmp_path / "a", [ONE, TWO])
    second = write(tmp_path / "b", [ONE, PPO], policy=older)
    assert tool.main([f"--output={tmp_path / 'c'}", first, second]) == 0
    pairs = write(tmp_path / "d", [ONE, PPO], policy=older | {"observation_pairs": True})
    assert tool.main([f"--output={tmp_path / 'e'}", first, pairs]) == 2
    assert "the tests differ in policy" in capsys.readouterr().err


OTHER = table("epg", [4.0, 5.0, 6.5], CURVE, loss=LossName("one", 0))


@pytest.mark.parametrize(
    ("tables", "changes", "message"),
    [
        ([OTHER, PPO], {}, "epg one differs between the tests"),
        ([PPO], {}, "no method and loss in common"),
        ([ONE, table("ppo", [1.0, 2.0], CURVE[:2])], {}, "other agents than the 3 of the first"),
        ([ONE, TWO], {"other_losses": ["two"]}, "the first test has no two; name the test of more"),
        ([ONE, PPO], {"seed": 1}, "the tests differ in seed: 0 and 1"),
        ([ONE, PPO], {"updates": 3}, "the tests differ in updates"),
        ([ONE, PPO], {"rivals": {"ppo": {}}}, "the tests differ in rivals"),
        ([ONE, PPO], {"baseline": {"clip": 0.1}}, "the tests differ in baseline"),
    ],
)
def test_what_does_not_belong_together_is_refused(tool, tmp_path, capsys, tables, changes, message):
    first, second = write(tmp_path / "a", [ONE, TWO]), write(tmp_path / "b", tables, **changes)
    assert tool.main([f"--output={tmp_path / 'c'}", first, second]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "c").exists()


def test_other_folders_are_refused(tool, tmp_path, capsys):
    first = write(tmp_path / "a", [ONE])
    (tmp_path / "b").mkdir()
    assert tool.main([f"--output={tmp_path / 'c'}", first, str(tmp_path / "b")]) == 2
    assert tool.main([f"--output={tmp_path / 'a'}", first, first]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert errors[1].endswith("a: the folder is not empty; choose another folder")
