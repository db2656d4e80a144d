"""launch.evolution_study, as users start, kill and resume it."""

import csv
import json
import shutil
import time

import numpy as np
import pytest

from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation.evaluate import evaluate
from epg_tf.evaluation.summary import summarize
from tests.launch import commands

CONFIG = "--config=configs/point_goal.py"
SETTINGS = commands.settings(evolution__fitness_from="final_episodes", evolution__noise_vectors=2)
FLAGS = [
    CONFIG,
    *(flag for flag in SETTINGS if "validation_period" not in flag),  # --test_points says it
    "--estimators=paper,config",
    "--seeds=1",
    "--env_steps=2000",
    "--test_points=3",
    "--test_lives=4",
]


def study(folder, *flags):
    return commands.run("evolution_study", *FLAGS, f"--output_dir={folder}", *flags)


def rows(path) -> list[dict]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished") / "study"
    return folder, study(folder)


@pytest.mark.slow
def test_leaves_what_it_promises(finished):
    """2000 env steps are 6 epochs of 8 lives, each of 3 x 8 env steps and 3 final episodes of 6."""
    folder, process = finished
    assert process.returncode == 0 and process.stderr == "", process.stderr
    assert process.stdout.splitlines()[-2] == str(folder / "study.png")
    assert process.stdout.count("so far") == 2 * 4 and process.stdout.count("never") == 2
    table = rows(folder / "study.csv")
    assert [(row["estimator"], row["seed"], row["epoch"], row["env_steps"]) for row in table] == [
        (name, "1", str(epoch), str(epoch * 336))
        for name in ("paper", "config")
        for epoch in (0, 2, 4, 6)
    ]
    for name in ("paper", "config"):
        run = folder / f"{name}-1"
        for file in (
            "config.json",
            "metrics.csv",
            "best/loss.npz",
            "final/loss.npz",
            "summary.json",
        ):
            assert (run / file).is_file(), file
        tests = rows(run / "tests.csv")
        assert list(tests[0]) == ["epoch", "env_steps", "mean", "low", "high", "failed_lives"]
        same = [
            {k: v for k, v in row.items() if k not in ("estimator", "seed")}
            for row in table
            if row["estimator"] == name
        ]
        assert [{k: v for k, v in row.items() if k != "failed_lives"} for row in tests] == same
        assert int(rows(run / "metrics.csv")[-1]["env_steps"]) == 6 * 336
    assert len({row["mean"] for row in table}) > 4  # phi moves, and not alike
    summary = json.loads((folder / "summary.json").read_text())
    assert (
        list(summary["runs"]) == ["paper-1", "config-1"]
        and summary["runs"]["config-1"]["env_steps"] == 2016
    )


@pytest.mark.slow
def test_the_tests_are_meta_tests(finished):
    """The evolved loss, the unevolved one and PPO do as evaluate finds on the same tasks."""
    folder, _ = finished
    experiment = Experiment.from_mapping(
        json.loads((folder / "config-1" / "config.json").read_text())["config"]
    )
    with np.load(folder / "config-1" / "final" / "loss.npz", allow_pickle=False) as archive:
        final = archive["phi"]
    tests = rows(folder / "config-1" / "tests.csv")
    for row, phi in ((tests[0], initial_phi(experiment, 1)), (tests[-1], final)):
        found = summarize(evaluate(experiment, phi, 0, 4, methods=["epg", "ppo"]))
        evolved, ppo = found["epg"], found["ppo"]
        assert (float(row["mean"]), float(row["low"]), float(row["high"])) == pytest.approx(
            (evolved.final_return_mean, *evolved.ci95)
        )
    assert json.loads((folder / "ppo.json").read_text()) == pytest.approx(
        {
            "format_version": 1,
            "mean": ppo.final_return_mean,
            "low": ppo.ci95[0],
            "high": ppo.ci95[1],
            "failed_lives": 0,
        }
    )


@pytest.mark.slow
def test_killed_and_started_again_gives_the_same_bits(finished, tmp_path):
    """kill -9 in the middle of a run, between tests."""
    folder = tmp_path / "study"
    process = commands.start("evolution_study", *FLAGS, f"--output_dir={folder}")
    while not (folder / "paper-1" / "checkpoints" / "epoch_00000003.npz").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert not (folder / "study.csv").exists()
    process = study(folder)
    assert process.returncode == 0, process.stderr
    for name in (
        "study.csv",
        "summary.json",
        "ppo.json",
        "paper-1/tests.csv",
        "config-1/tests.csv",
    ):
        assert (folder / name).read_bytes() == (finished[0] / name).read_bytes()


@pytest.mark.slow
def test_what_is_lost_is_made_good(finished, tmp_path):
    """Old tests by evolving once more; the last epoch, whose checkpoint is torn, with its test."""
    folder = tmp_path / "study"
    shutil.copytree(finished[0], folder)
    (folder / "study.csv").unlink()
    (folder / "paper-1" / "tests.csv").unlink()
    (folder / "config-1" / "checkpoints" / "epoch_00000006.npz").write_bytes(b"torn")
    process = study(folder)
    assert process.returncode == 0, process.stderr
    assert (
        process.stdout.count("evolution is repeated") == 1
        and process.stdout.count("so far") == 4 + 1
    )
    for name in (
        "study.csv",
        "summary.json",
        "paper-1/tests.csv",
        "config-1/tests.csv",
        "paper-1/final/loss.npz",
    ):
        assert (folder / name).read_bytes() == (finished[0] / name).read_bytes()


BAD_INPUT = {
    "unknown estimator": (["--estimators=paper,magic"], "--estimators=paper,magic"),
    "the same seed twice": (["--seeds=1,01"], "--seeds=1,01"),
    "no budget": (["--env_steps=nan"], "--env_steps=nan"),
    "less than an epoch": (["--env_steps=300"], "--env_steps=300"),
}


@pytest.mark.parametrize("flags, named", BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_refused_in_one_line(tmp_path, flags, named):
    process = study(tmp_path / "study", *flags)
    assert process.returncode == 2
    assert named in process.stderr and process.stderr.count("\n") == 1, process.stderr
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
def test_other_settings_are_refused_in_one_line(finished):
    before = (finished[0] / "study.csv").read_bytes()
    process = study(finished[0], "--test_lives=5")
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert "--test_lives=5" in process.stderr and (finished[0] / "study.csv").read_bytes() == before


@pytest.mark.slow
def test_a_run_that_cannot_go_on_is_named(finished, tmp_path):
    """The one before it is through already: its last test, that a kill had torn, was made good from
    its checkpoint.
    """
    folder = tmp_path / "study"
    shutil.copytree(finished[0], folder)
    tests = folder / "paper-1" / "tests.csv"
    tests.write_bytes(tests.read_bytes()[:-10])
    for checkpoint in (folder / "config-1" / "checkpoints").iterdir():
        checkpoint.write_bytes(b"torn")
    process = study(folder)
    assert process.returncode == 2 and process.stderr.count("\n") == 1, process.stderr
    assert (
        "the run config-1 cannot continue" in process.stderr and "--overwrite" not in process.stderr
    )
    assert tests.read_bytes() == (finished[0] / "paper-1" / "tests.csv").read_bytes()
    assert process.stdout.count("so far") == 1 and "repeated" not in process.stdout
