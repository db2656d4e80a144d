"""launch.meta_test --resume, as users run it: after a kill, and with further rows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.launch import commands

pytestmark = pytest.mark.slow

LOSS = ["--loss=point_goal", "--lives=3", "--updates=4", "--seed=5"]
OBJECTIVE = ["--loss=point_goal_objective", "--lives=2", "--env_steps=500", "--episodes=1"]


def _files(folder):
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in (".csv", ".json")
    }


def _rows(table):
    return table.read_text().count("\n") - 1 if table.exists() else 0


def test_a_killed_test_goes_on_to_the_bytes_of_an_uncut_one(tmp_path):
    uncut, cut = (f"--output_dir={tmp_path / name}" for name in ("uncut", "cut"))
    process = commands.run("meta_test", *LOSS, uncut)
    assert process.returncode == 0, process.stderr
    words = [sys.executable, "-m", "launch.meta_test", *LOSS, cut]
    with subprocess.Popen(words, cwd=commands.ROOT, stdout=subprocess.DEVNULL) as killed:
        deadline = time.monotonic() + 120
        # The table counts beside the second file only, which is written after it.
        while not (
            _rows(tmp_path / "cut" / "unfinished.csv")
            and (tmp_path / "cut" / "unfinished.json").exists()
        ):
            assert killed.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
    assert not (tmp_path / "cut" / "summary.json").exists()
    refused = commands.run("meta_test", *LOSS, cut)
    assert refused.returncode == 2 and "pass --resume to continue it" in refused.stderr
    other = commands.run("meta_test", *LOSS, "--lives=4", cut, "--resume")
    assert other.returncode == 2 and "not those of 4 agents in this task" in other.stderr
    resumed = commands.run("meta_test", *LOSS, cut, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "evolved loss (EPG): was there" in resumed.stdout
    assert _files(tmp_path / "cut") == _files(tmp_path / "uncut")


def test_a_kill_in_the_middle_of_a_slow_rival_keeps_the_shards_that_lived(tmp_path):
    """Copies fill the last of three shards."""
    words = ["--loss=point_goal", "--lives=130", "--updates=4", "--seed=5", "--compare=alone,td3"]
    words += ["--config=point_goal"]
    words += [f"--config.td3.{each}" for each in ("hidden=(4,)", "batch=4", "random_steps=8")]
    uncut, cut = (f"--output_dir={tmp_path / name}" for name in ("uncut", "cut"))
    process = commands.run("meta_test", *words, uncut)
    assert process.returncode == 0, process.stderr
    command = [sys.executable, "-m", "launch.meta_test", *words, cut]
    shards = tmp_path / "cut" / "unfinished_shards"
    with subprocess.Popen(command, cwd=commands.ROOT, stdout=subprocess.DEVNULL) as killed:
        deadline = time.monotonic() + 120
        while not [*shards.glob("td3-0-63-*.npz")]:
            assert killed.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
    foreign = shards / "td3-0-63-0123456789abcdef.npz"
    foreign.write_bytes(b"PK")
    resumed = commands.run("meta_test", *words, cut, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert _files(tmp_path / "cut") == _files(tmp_path / "uncut")
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
    one, other = (
        json.loads((tmp_path / name / "summary.json").read_text()) for name in ("both", "added")
    )
    assert one == other
    assert "continued_with" not in one["about"]
    damaged = tmp_path / "added" / "curves.csv"
    damaged.write_text(damaged.read_text().replace("final", "fin"))
    process = commands.run("meta_test", *OBJECTIVE, added, "--resume")
    assert process.returncode == 2 and process.stderr.count("\n") == 1


def test_the_folder_of_a_run_is_refused_as_it_is(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    unfinished = tmp_path / ".summary.json.1.tmp"  # of the run, which may still be at work
    unfinished.write_text("{}")
    process = commands.run("meta_test", *LOSS, f"--output_dir={tmp_path}", "--resume")
    assert process.returncode == 2 and "it holds checkpoints" in process.stderr
    assert unfinished.exists()
