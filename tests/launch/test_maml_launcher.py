"""launch.meta_train, and launch.meta_test beside it, as users run them."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.launch import commands

FLAGS = [
    "--config=configs/maml_half_cheetah.py",
    *(
        f"--config.{name}={value}"
        for name, value in {
            "task.family": "point_goal",
            "task.frame_skip": 2,
            "task.episode_limit": 6,
            "task.physics": "exact",
            "policy.hidden": "(4,)",
            "adaptation.env_steps": 12,
            "outer.tasks": 2,
            "outer.validation_period": 1,
        }.items()
    ),
]
SHORT = [*FLAGS, "--config.outer.iterations=3"]


def lines_without_seconds(folder):
    return [line.rsplit(",", 1)[0] for line in (folder / "metrics.csv").read_text().splitlines()]


@pytest.mark.slow
def test_killed_and_resumed_gives_the_same_bits_and_is_a_row_of_a_test(tmp_path):
    """kill -9 after the first checkpoint."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finished = commands.run("meta_train", *SHORT, f"--run_dir={whole}")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "cost: 3 iterations x 2 lives x 2 x 12 env steps = 144 env steps" in finished.stdout
    process = commands.start("meta_train", *SHORT, f"--run_dir={killed}")
    while process.poll() is None and not (killed / "checkpoints" / "epoch_00000001.npz").exists():
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "final").exists()
    resumed = commands.run("meta_train", f"--run_dir={killed}", "--resume")  # no --config
    assert resumed.returncode == 0, resumed.stderr
    for name in ("best", "final"):
        both = [(path / name / "loss.npz").read_bytes() for path in (whole, killed)]
        assert both[0] == both[1]
    assert lines_without_seconds(whole) == lines_without_seconds(killed)

    test = commands.run(
        "meta_test",
        "--loss=point_goal",
        "--lives=2",
        "--updates=1",
        f"--compare=maml:{whole},maml10:{killed}/final",
        f"--output_dir={tmp_path / 'test'}",
    )
    assert (test.returncode, test.stderr) == (0, "")
    assert "MAML (1 step): done" in test.stdout
    summary = json.loads((tmp_path / "test" / "summary.json").read_text())
    assert summary["maml"]["lives"] == summary["maml10"]["lives"] == 2
    trained = summary["about"]["meta_trained"]
    assert trained[f"maml {whole}/best"]["env_steps"] > 144  # validation included
    assert f"maml10 {killed}/final" in trained


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path):
    folder = tmp_path / "run"
    process = commands.start(
        "meta_train",
        *FLAGS,
        "--config.outer.iterations=100000",
        f"--run_dir={folder}",
        "--resume",  # there is none yet
    )
    while not (folder / "checkpoints" / "epoch_00000001.npz").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert output.splitlines()[-1] == "to go on, run the same command again"


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("meta_train", [*SHORT, "--begin_with=point_goal"], "--begin_with=point_goal is for runs"),
        ("meta_train", [*SHORT, "--config.adaptation.env_steps=5"], "must hold a whole ep"),
        ("meta_train", [*SHORT, "--config.task.family=nowhere"], "is not a task family"),
        ("meta_test", ["--loss=point_goal", "--compare=maml"], "--compare='maml' was meta-trained"),
        ("meta_test", ["--loss=point_goal", "--compare=maml:/nowhere"], "no such folder"),
    ],
)
def test_refuses_in_one_line(name, flags, message, tmp_path):
    folder = "output_dir" if name == "meta_test" else "run_dir"
    process = commands.run(name, *flags, f"--{folder}={tmp_path / 'run'}")
    assert process.returncode != 0 and process.stderr.count("\n") == 1
    assert message in process.stderr and not (tmp_path / "run").exists()
