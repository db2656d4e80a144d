"""Tests the tool behind `make figures`: what it runs, and what it leaves out."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from epg_tf.figures.commands import Command
from tests.figures import kept

ROOT = Path(__file__).resolve().parents[1]
SHIPPED_ALONE = {"random_reacher", "random_hopper", "directional_half_cheetah"}


@pytest.fixture(scope="module")
def tool():
    """The tool, which is in no package."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("figure_tests")
    sys.path.remove(str(ROOT / "tools"))


def losses(commands) -> list[str]:
    return [str(dict(command.flags)["loss"]) for command in commands]


def test_without_runs_it_tests_shipped_losses_alone(tool, tmp_path):
    found = tool.lacking([tmp_path])
    objectives = {"point_goal_objective", "four_environments_objective"}
    assert set(losses(found)) == SHIPPED_ALONE | objectives
    assert {command.name for command in found} == {"meta_test"}


def test_a_run_that_is_there_is_tested_until_its_test_is_there(tool, tmp_path):
    run = kept.run(tmp_path / "run", "random_hopper:laptop")

    def tests():
        return [c for c in tool.lacking([tmp_path]) if dict(c.flags)["loss"] == str(run)]

    plain = [c for c in tests() if "updates" not in dict(c.flags)]
    assert [dict(c.flags)["compare"] for c in plain] == ["ppo"]
    kept.test(tmp_path / "test", "random_hopper:laptop")
    assert [dict(c.flags).get("updates") for c in tests()] == [768]


def test_a_test_beside_rivals_that_are_not_there_waits_for_them(tool, tmp_path):
    kept.run(tmp_path / "cheetah", "directional_half_cheetah:laptop")
    assert "maml" not in {name for c in tool.lacking([tmp_path]) for name in rivals(tool, c)}
    kept.run(tmp_path / "maml", "maml_half_cheetah:laptop")
    assert "maml" not in {name for c in tool.lacking([tmp_path]) for name in rivals(tool, c)}
    kept.run(tmp_path / "rl2", "rl2_half_cheetah:laptop")
    chosen = [c for c in tool.lacking([tmp_path]) if "maml" in rivals(tool, c)]
    assert [rivals(tool, c) for c in chosen] == [{"ppo", "maml", "rl2"}]


def rivals(tool, command) -> set[str]:
    return {rival.partition(":")[0] for rival in tool._rivals(command)}


def test_of_two_tests_that_differ_in_rivals_the_larger_one_is_run(tool, tmp_path):
    for name in ("directional_half_cheetah", "maml_half_cheetah", "rl2_half_cheetah"):
        kept.run(tmp_path / name, f"{name}:laptop")
    flags = [dict(command.flags) for command in tool.lacking([tmp_path])]
    mine = [each for each in flags if each["loss"] == str(tmp_path / "directional_half_cheetah")]
    assert len(mine) == 1 and "maml:" in mine[0]["compare"]


def test_a_test_that_fails_is_told_with_its_output(tool, tmp_path, capfd, monkeypatch):
    """From any working folder; a command that there is not fails in a moment."""
    monkeypatch.chdir(tmp_path)
    flags = (("loss", "no_such_loss"), ("output_dir", tmp_path / "out"))
    assert not tool.run(Command("no_such_test", flags))
    told = capfd.readouterr().out
    assert "No module named launch.no_such_test" in told  # but launch there is
    assert "failed: launch.no_such_test --loss=no_such_loss" in told


@pytest.mark.parametrize(
    ("code", "told"), [(0, "told"), (1, "told"), (2, "told"), (2, "a test cannot go on with it")]
)
def test_a_stopped_test_goes_on_or_begins_anew_where_it_was_of_another_loss(
    tool, tmp_path, capsys, monkeypatch, code, told
):
    calls = []

    def start(command, again):
        calls.append(again)
        return subprocess.CompletedProcess([], code if again == "--resume" else 0, stdout=told)

    monkeypatch.setattr(tool, "_start", start)
    command = Command("meta_test", (("loss", "point_goal"), ("output_dir", tmp_path)))
    assert tool.run(command) and calls == ["--overwrite"]
    (tmp_path / tool.ABOUT_FILE).touch()
    calls.clear()
    other = told != "told"
    assert tool.run(command) == (code == 0 or other)
    assert calls == ["--resume"] + ["--overwrite"] * other
    assert ("told" in capsys.readouterr().out) == (code > 0 and not other)


def test_it_says_what_it_needs(tool, capsys):
    assert tool.main([]) == 2 and "name the folder" in capsys.readouterr().err
