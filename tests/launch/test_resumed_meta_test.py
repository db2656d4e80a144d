"""launch.meta_test --resume, as users run it: after a kill, and with further rows."""

from __future__ import annotations

import json
import time

import pytest

from tests.launch import commands

pytestmark = pytest.mark.slow

OBJECTIVE = ["--loss=point_goal_objective", "--lives=2", "--env_steps=500", "--episodes=1"]


def _left(folder):
    """Returns what a test leaves: its table to the byte, its summary but for the command."""
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["about"].pop("command") and "continued_with" not in summary["about"]
    tables = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    return sorted(path.name for path in folder.iterdir() if path.is_file()), tables, repr(summary)


def test_a_killed_test_goes_on_to_the_bytes_of_an_uncut_one(tmp_path):
    """Killed in the middle of a slow baseline: what has lived is kept, and nothing else taken for
    it. Copies fill the last of three shards.
    """
    words = ["--loss=point_goal", "--lives=130", "--updates=4", "--seed=5", "--compare=alone,td3"]
    words += ["--config=point_goal"]
    words += [f"--config.td3.{each}" for each in ("hidden=(4,)", "batch=4", "random_steps=8")]
    uncut, cut = (f"--output_dir={tmp_path / name}" for name in ("uncut", "cut"))
    process = commands.run("meta_test", *words, uncut)
    assert process.returncode == 0, process.stderr
    shards = tmp_path / "cut" / "unfinished_shards"
    killed = commands.start("meta_test", *words, cut)
    while not [*shards.glob("td3-0-63-*.npz")]:
        assert killed.poll() is None, killed.communicate()[0]
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    assert not (tmp_path / "cut" / "summary.json").exists()
    foreign = shards / "td3-0-63-0123456789abcdef.npz"
    foreign.write_bytes(b"PK")
    refused = commands.run("meta_test", *words, cut)
    assert refused.returncode == 2 and "pass --resume to continue it" in refused.stderr
    other = commands.run("meta_test", *words, "--lives=4", cut, "--resume")
    assert other.returncode == 2 and "not those of 4 agents in this task" in other.stderr
    resumed = commands.run("meta_test", *words, cut, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "evolved loss (EPG): was there" in resumed.stdout
    assert _left(tmp_path / "cut") == _left(tmp_path / "uncut")
    assert [*shards.iterdir()] == [foreign]


def test_a_finished_test_of_an_objective_takes_further_rows(tmp_path):
    both, added = (f"--output_dir={tmp_path / name}" for name in ("both", "added"))
    for flags in (
        [both, "--compare=ppo"],
        [added, "--compare=none"],
        [added, "--compare=ppo", "--resume"],
        [added, "--compare=none", "--resume"],
    ):
        process = commands.run("meta_test", *OBJECTIVE, *flags)
        assert process.returncode == 0, process.stderr
    assert "untrained objective: was there" in process.stdout  # PPO's row stays though not named
    assert _left(tmp_path / "both") == _left(tmp_path / "added")
    damaged = tmp_path / "added" / "curves.csv"
    damaged.write_text(damaged.read_text().replace("final", "fin"))
    process = commands.run("meta_test", *OBJECTIVE, added, "--resume")
    assert process.returncode == 2 and process.stderr.count("\n") == 1
