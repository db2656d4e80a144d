"""launch.meta_train as users run it."""

from __future__ import annotations

import csv
import json
import signal
import time

import pytest

from tests.launch import commands

SETTINGS = {
    "task.family": "hidden_goal",
    "task.physics": "exact",
    "task.episode_limit": 6,
    "iterations": 3,
    "trials": 4,
    "validation_period": 2,
    "validation_trials": 2,
    "network.input_units": 4,
    "network.lstm_units": 4,
    "ppo.epochs": 2,
}
FLAGS = [
    "--config=configs/rl2_half_cheetah.py",
    *(f"--config.{name}={value}" for name, value in SETTINGS.items()),
]


@pytest.mark.slow
def test_a_killed_run_ends_with_the_bits_of_an_undisturbed_one(tmp_path):
    """Killed after an iteration, and resumed with another number of threads."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = commands.run("meta_train", *FLAGS, "--config.threads=1", f"--run_dir={whole}")
    assert (process.returncode, process.stderr) == (0, "")
    lines = process.stdout.splitlines()
    assert lines[0] == "meta-training a recurrent policy by RL² in hidden_goal"
    assert lines[1].startswith("cost: 3 iterations x 4 trials x 12 env steps = 144 env steps;")
    assert lines[-1] == (
        f"results are in {whole}; next: python -m launch.meta_test --compare=rl2:{whole} "
        "with a --loss for the same body"
    )
    with open(whole / "metrics.csv", newline="") as stream:
        assert [int(row["epoch"]) for row in csv.DictReader(stream)] == [1, 2, 3]
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["env_steps"] == 144 + 2 * 12  # with validation
    assert json.loads((whole / "final" / "loss.json").read_text())["kind"] == "rl2_policy"
    assert (whole / "learning_curve.png").is_file()

    running = commands.start("meta_train", *FLAGS, f"--run_dir={killed}")
    while running.poll() is None and not (killed / "checkpoints/epoch_00000001.npz").is_file():
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    resumed = commands.run(
        "meta_train", *FLAGS, "--config.threads=2", f"--run_dir={killed}", "--resume"
    )
    assert resumed.returncode == 0, resumed.stderr
    for name in ("best/loss.npz", "final/loss.npz", "checkpoints/epoch_00000003.npz"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([*FLAGS, "--config.trials=5"], "config.ppo.minibatches=2 does not divide"),
        ([*FLAGS, "--config.task.family=none"], "config.task.family='none' is not a task family"),
    ],
)
def test_what_cannot_be_trained_is_one_line(flags, message, tmp_path):
    process = commands.run("meta_train", *flags, f"--run_dir={tmp_path / 'run'}")
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert message in process.stderr and not (tmp_path / "run").exists()


def test_print_config_shows_settings_and_cost():
    process = commands.run("meta_train", "--config=rl2_goal_ant:paper", "--print_config")
    assert (process.returncode, process.stderr) == (0, "")
    lines = process.stdout.splitlines()
    assert "config.task.family='goal_ant'" in lines and "config.trial.episodes=2" in lines
    assert lines[-1].startswith("cost: 391 iterations x 64 trials x 2000 env steps = 50 M env")
