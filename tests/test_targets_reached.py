"""Tests the tool that counts the targets of lives without resets."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from epg_tf.core.experiment import TaskConfig
from tests.evaluation.tables import NAN, table

ROOT = Path(__file__).resolve().parents[1]
NO_RESET = vars(TaskConfig("goal_ant_no_reset", 5, 100))


@pytest.fixture(scope="module")
def tool():
    """The tool, which is in no package."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("targets_reached")
    sys.path.remove(str(ROOT / "tools"))


def test_episodes_that_end_before_the_limit_are_counted(tool):
    """Points every 10 env steps, episodes of at most 50; those that end between points 40 and 50
    steps after the last end may have been cut, so they do not count.
    """
    steps = np.arange(10, 130, 10)
    lives = np.array(
        [
            [NAN, 3, 3, -2, -2, -2, -2, -2, 0, 0, 0, 0],  # ends after 20, 40 and 90 env steps
            [NAN, NAN, NAN, NAN, 1, 1, 1, 1, 1, 2, 2, 2],  # cut after 50 and 100
            [NAN, NAN, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5],  # 30 and 40 long
            [NAN] * 12,
        ]
    )
    ended, early = tool.episode_counts(steps, lives, 50)
    assert ended.tolist() == [3, 2, 2, 0]
    assert early.tolist() == [2, 0, 1, 0]


def test_a_test_becomes_a_file(tool, tmp_path, capsys):
    """Agents of `table` have a point every 10 env steps."""
    curve = [[NAN, 1, 2, 2, 2, 2], [NAN, NAN, 3, 3, 3, 4], [NAN] * 6, [NAN, 1, 1, 1, 1, 1]]
    table("epg", [1.0] * 4, curve).write(tmp_path / "curves.csv")
    about = {"task": NO_RESET, "made_with": {"commit": "abc"}}
    (tmp_path / "summary.json").write_text(json.dumps({"about": about}))
    output = f"--output={tmp_path / 'found.json'}"
    assert tool.main([output, str(tmp_path)]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["about"] == {"commit": "abc", "task": NO_RESET}
    assert (found["epg"]["targets"], found["epg"]["episodes"]) == (1.25, 1.25)
    assert found["epg"]["agents"] == 4 and found["epg"]["ci95"][0] < 1.25
    assert "epg: 1.2 [" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        tool.main([output, str(tmp_path)])
    assert "there is such a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"task": vars(TaskConfig("goal_ant", 5, 100)), "made_with": {}}, "goal_ant has resets"),
        ({"task": NO_RESET}, "made_with"),
        ({"environment": "point_goal"}, "holds no test of a loss of EPG"),
    ],
)
def test_other_folders_are_refused_in_one_line(tool, tmp_path, capsys, about, message):
    table("ppo", [1.0, 2.0], np.zeros((2, 1))).write(tmp_path / "curves.csv")
    (tmp_path / "summary.json").write_text(json.dumps({"about": about}))
    assert tool.main([f"--output={tmp_path / 'found.json'}", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "found.json").exists()
