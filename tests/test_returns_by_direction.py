"""Tests the tool that splits the returns of a test by direction."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from epg_tf.core.experiment import TaskConfig
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.evaluation.results import Results
from epg_tf.tasks.registry import make_family
from tests.evaluation.tables import table

ROOT = Path(__file__).resolve().parents[1]
TASK = TaskConfig("directional_half_cheetah", 5, 100)


@pytest.fixture(scope="module")
def tool():
    """The tool, which is in no package."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("returns_by_direction")
    sys.path.remove(str(ROOT / "tools"))


def test_directions_are_those_of_the_agents_tasks(tool):
    """A longer test has the same tasks first; about half of them are forward."""
    found = tool.directions(TASK, "reporting", 0, 40)
    family = make_family(TASK)
    for number in (0, 7, 39):
        key = LifeKey(0, "reporting", 0, number)
        assert found[number] == family.sample_task(life_generator(key, "task"))["direction"]
    assert set(found) == {-1.0, 1.0} and 10 < (found > 0).sum() < 30
    np.testing.assert_array_equal(found, tool.directions(TASK, "reporting", 0, 60)[:40])
    assert (found != tool.directions(TASK, "reporting", 1, 40)).any()


def test_means_are_of_either_half_and_failed_agents_are_the_worst(tool):
    curve = np.zeros((4, 1))
    results = Results.join(
        [table("epg", [5.0, -1.0, 7.0, np.nan], curve), table("ppo", [1.0, 2.0, 3.0, 4.0], curve)]
    )
    found = tool.by_direction(results, np.array([True, False, True, False]))
    assert found["epg"]["forward"]["mean"] == 6.0 and found["epg"]["backward"]["mean"] == -1.0
    assert found["ppo"]["backward"] == {
        "mean": 3.0,
        "ci95": [pytest.approx(3 - 12.706204736432095), pytest.approx(3 + 12.706204736432095)],
        "agents": 2,
    }


def test_a_test_becomes_a_file(tool, tmp_path, capsys):
    results = table("ppo", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], np.zeros((6, 1)))
    results.write(tmp_path / "curves.csv")
    about = {"task": vars(TASK), "phase": "reporting", "seed": 0, "made_with": {"commit": "abc"}}
    (tmp_path / "summary.json").write_text(json.dumps({"about": about}))
    output = f"--output={tmp_path / 'found.json'}"
    assert tool.main([output, str(tmp_path)]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert sum(half["agents"] for half in found["ppo"].values()) == 6
    assert found["about"]["commit"] == "abc" and "ppo: forward " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        tool.main([output, str(tmp_path)])
    assert "there is such a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"task": vars(TaskConfig()), "phase": "reporting", "seed": 0}, "have no direction"),
        ({"environment": "point_goal"}, "holds no test of a loss of EPG"),
        (None, "holds no test of a loss of EPG"),
        ({"task": vars(TASK), "phase": "reporting", "seed": 0}, "made_with"),
    ],
)
def test_other_folders_are_refused_in_one_line(tool, tmp_path, capsys, about, message):
    table("ppo", [1.0, 2.0], np.zeros((2, 1))).write(tmp_path / "curves.csv")
    (tmp_path / "summary.json").write_text(json.dumps({} if about is None else {"about": about}))
    assert tool.main([f"--output={tmp_path / 'found.json'}", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "found.json").exists()


@pytest.mark.parametrize("output", ["found.txt", "missing/found.json"])
def test_a_file_that_cannot_be_written_is_refused_at_once(tool, tmp_path, capsys, output):
    with pytest.raises(SystemExit):
        tool.main([f"--output={tmp_path / output}", str(tmp_path)])
    assert "must end in .json and lie in a folder that exists" in capsys.readouterr().err


def test_a_test_without_rows_is_refused_in_one_line(tool, tmp_path, capsys):
    results = table("ppo", [1.0, 2.0], np.zeros((2, 1)))
    results.select("epg", "").write(tmp_path / "curves.csv")
    about = {"task": vars(TASK), "phase": "reporting", "seed": 0, "made_with": {}}
    (tmp_path / "summary.json").write_text(json.dumps({"about": about}))
    assert tool.main([f"--output={tmp_path / 'found.json'}", str(tmp_path)]) == 2
    assert "its curves.csv has no rows" in capsys.readouterr().err
    assert not (tmp_path / "found.json").exists()
