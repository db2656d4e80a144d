"""launch.meta_train, as users start, stop, kill and resume it."""

import csv
import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import epg_tf
from tests.launch import commands

CONFIG = "--config=configs/point_goal.py"


def phi(folder) -> np.ndarray:
    with np.load(folder / "loss.npz", allow_pickle=False) as archive:
        return archive["phi"]


def rows(folder) -> list[dict]:
    with open(folder / "metrics.csv", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    flags = [CONFIG, f"--run_dir={folder}", *commands.settings()]
    return folder, commands.run_fresh("meta_train", *flags)  # with the notices of its imports


def test_leaves_what_it_promises(finished):
    folder, process = finished
    assert process.returncode == 0, process.stderr
    for name in (
        "config.json",
        "metrics.csv",
        "learning_curve.png",
        "summary.json",
        "best/loss.npz",
        "best/loss.json",
        "final/loss.npz",
        "final/loss.json",
        "checkpoints/epoch_00000004.npz",
    ):
        assert (folder / name).is_file(), name
    assert list((folder / "tensorboard").iterdir())
    assert [int(row["epoch"]) for row in rows(folder)] == [1, 2, 3, 4]
    assert phi(folder / "final").dtype == np.float32
    description = json.loads((folder / "final" / "loss.json").read_text())
    assert "reward" not in [channel["name"] for channel in description["channels"]]
    assert description["parameters"] == phi(folder / "final").size


def test_output_is_for_people(finished):
    """Framework noise is gone, the cost is announced, and the last lines say what to do next."""
    folder, process = finished
    assert process.stderr == ""
    assert "192 env steps an epoch" in process.stdout  # 8 lives x 3 updates x 8 steps
    assert process.stdout.splitlines()[-2:] == [
        f"results are in {folder}; next: python -m launch.meta_test --loss={folder}/best "
        f"--output_dir={folder}-test",
        f"a page to look at: python -m launch.report --run_dir={folder} --output={folder}.html",
    ]


@pytest.mark.parametrize(
    "parallel, moments",
    [
        pytest.param(
            "threads",
            ("config.json", "checkpoints/epoch_00000002.npz"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "processes",
            ("checkpoints/epoch_00000001.npz", "checkpoints/epoch_00000003.npz"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_killed_and_resumed_gives_the_same_bits(finished, tmp_path, parallel, moments):
    """kill -9 as soon as a file appears, and again when resumed: it ends with the same phi and the
    same rows, whatever computes its shards.
    """
    folder, flags = tmp_path / "run", commands.settings(compute__parallel=parallel)
    for moment in moments:
        process = commands.start("meta_train", CONFIG, f"--run_dir={folder}", *flags, "--resume")
        while not (folder / moment).exists():
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.002)
        process.kill()
        process.wait()
    assert not (folder / "final").exists()
    process = commands.run("meta_train", CONFIG, f"--run_dir={folder}", *flags, "--resume")
    assert process.returncode == 0, process.stderr
    for name in ("best", "final"):
        assert phi(folder / name).tobytes() == phi(finished[0] / name).tobytes()
    timeless = [{k: v for k, v in row.items() if "second" not in k} for row in rows(folder)]
    assert timeless == [
        {k: v for k, v in row.items() if "second" not in k} for row in rows(finished[0])
    ]


def test_fewer_epochs_than_done_are_refused(finished):
    process = commands.run(
        "meta_train",
        CONFIG,
        f"--run_dir={finished[0]}",
        *commands.settings(evolution__epochs=2),
        "--resume",
    )
    assert process.returncode == 2 and "config.evolution.epochs=2" in process.stderr


@pytest.mark.parametrize(
    "number, code, parallel",
    [
        pytest.param(signal.SIGINT, 130, "threads", marks=pytest.mark.slow),
        (signal.SIGTERM, 143, "threads"),
        pytest.param(signal.SIGINT, 130, "processes", marks=pytest.mark.slow),
    ],
)
def test_signals_end_cleanly(tmp_path, number, code, parallel):
    folder = tmp_path / "run"
    settings = commands.settings(evolution__epochs=100000, compute__parallel=parallel)
    process = commands.start("meta_train", CONFIG, f"--run_dir={folder}", *settings)
    while not (folder / "checkpoints" / "epoch_00000001.npz").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert "--resume" in output.splitlines()[-1] and "Traceback" not in output


@pytest.mark.slow
def test_the_end_of_a_process_of_lives_is_one_line(tmp_path):
    """The line can be followed: the run resumes."""
    folder = tmp_path / "run"
    settings = commands.settings(
        evolution__epochs=100000, compute__parallel="processes", compute__threads=2
    )
    process = commands.start("meta_train", CONFIG, f"--run_dir={folder}", *settings)
    while not (folder / "checkpoints" / "epoch_00000001.npz").exists() and process.poll() is None:
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task").glob("*/children")
    for child in " ".join(path.read_text() for path in children).split():
        os.kill(int(child), signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and "Traceback" not in output
    assert "error: a process that ran lives was killed by signal 9" in output.splitlines()[-1]
    epochs = len((folder / "metrics.csv").read_text().splitlines())
    settings = commands.settings(evolution__epochs=epochs, compute__threads=1)
    again = commands.run("meta_train", CONFIG, f"--run_dir={folder}", *settings, "--resume")
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_two_processes_do_not_share_a_folder(tmp_path):
    """The second is refused, whatever its flags, and the first is not disturbed."""
    folder = tmp_path / "run"
    first = commands.start(
        "meta_train", CONFIG, f"--run_dir={folder}", *commands.settings(evolution__epochs=100000)
    )
    while not (folder / "checkpoints" / "epoch_00000001.npz").exists() and first.poll() is None:
        time.sleep(0.05)
    for flag in ("--resume", "--overwrite"):
        second = commands.run(
            "meta_train",
            CONFIG,
            f"--run_dir={folder}",
            *commands.settings(evolution__epochs=100000),
            flag,
        )
        assert second.returncode == 2 and "another process" in second.stderr
    assert first.poll() is None and (folder / "config.json").is_file()
    first.terminate()
    assert first.wait(timeout=60) == 143


@pytest.mark.slow
def test_the_library_leaves_the_same_files(finished, tmp_path):
    """And takes over a run that the command has started, to the same bits."""
    experiment = epg_tf.read_run(finished[0]).experiment
    folder = tmp_path / "run"
    short = commands.settings(evolution__epochs=1)
    assert commands.run("meta_train", CONFIG, f"--run_dir={folder}", *short).returncode == 0
    results = list(epg_tf.evolve_in_folder(experiment, 0, folder, resume=True))
    assert [result.state.epoch for result in results] == [2, 3, 4]
    for name in ("best/loss.npz", "final/loss.npz", "checkpoints/epoch_00000004.npz"):
        assert (folder / name).read_bytes() == (finished[0] / name).read_bytes()

    def names(run):
        return {str(path.relative_to(run)) for path in run.rglob("*") if "events" not in path.name}

    assert names(folder) == names(finished[0])
    assert list(epg_tf.evolve_in_folder(experiment, 0, finished[0], resume=True)) == []


def test_a_resumed_run_keeps_its_seed(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished[0], folder)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"seed": 0', '"seed": 3'))
    again = commands.run(
        "meta_train", CONFIG, f"--run_dir={folder}", *commands.settings(), "--resume"
    )
    assert again.returncode == 0, again.stderr
    other = [f"--run_dir={folder}", *commands.settings(), "--resume", "--seed=4"]
    refused = commands.run("meta_train", CONFIG, *other)
    assert refused.returncode == 2 and "has seed 3" in refused.stderr


def test_a_run_begins_with_the_loss_of_another_one(finished, tmp_path):
    """With noise of almost 0 its loss stays what it began with; a loss of other sizes, or a name
    that nothing has, is refused in one line.
    """
    folder, flags = tmp_path / "run", [f"--run_dir={tmp_path / 'run'}", *commands.settings()]
    still = ["--config.evolution.learning_rate=1e-9", "--config.evolution.final_learning_rate=1e-9"]
    begun = ["--config.evolution.epochs=1", f"--begin_with={finished[0] / 'final'}"]
    assert commands.run("meta_train", CONFIG, *flags, *still, *begun).returncode == 0
    np.testing.assert_allclose(phi(folder / "final"), phi(finished[0] / "final"), atol=1e-6)
    for name, message in (("nothing", "nothing"), ("random_hopper", "begin_with=random_hopper")):
        refused = commands.run(
            "meta_train",
            CONFIG,
            *commands.settings(),
            f"--run_dir={tmp_path / name}",
            f"--begin_with={name}",
        )
        assert refused.returncode == 2 and message in refused.stderr
        assert len(refused.stderr.splitlines()) == 1 and not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "scales the policy of --begin_with, which is not given"),
        (["--begin_with=point_goal"], "is for fixed linear policies, and begin_with=point_goal"),
    ],
)
def test_what_is_no_policy_is_not_scaled(flags, message, tmp_path):
    folder = tmp_path / "run"
    words = [CONFIG, *commands.settings(), f"--run_dir={folder}", "--begin_scale=0.5", *flags]
    process = commands.run("meta_train", *words)
    assert process.returncode == 2 and message in process.stderr
    assert len(process.stderr.splitlines()) == 1 and not folder.exists()


def test_changed_settings_are_not_resumed(finished):
    folder, _ = finished
    process = commands.run(
        "meta_train",
        CONFIG,
        f"--run_dir={folder}",
        *commands.settings(evolution__sigma=0.2),
        "--resume",
    )
    assert process.returncode == 2
    assert "config.evolution.sigma=0.2" in process.stderr and len(process.stderr.splitlines()) == 1


BAD_INPUT = {
    "unknown flag": (["--epochs=3"], "epochs"),
    "unknown setting": (
        ["--config.evolution.epoch=3"],
        "--config.evolution.epoch names no setting",
    ),
    "wrong type": (["--config.evolution.epochs=many"], "epochs=many: 'many' is no whole number"),
    "fractional count": (["--config.evolution.epochs=2.5"], "epochs"),
    "minibatch": (["--config.inner.minibatch=5"], "config.inner.minibatch=5"),
    "short buffer": (["--config.loss.buffer_steps=4"], "config.loss.buffer_steps=4"),
    "vectors": (["--config.evolution.noise_vectors=3"], "config.evolution.noise_vectors=3"),
    "family": (["--config.task.family=chess"], "config.task.family='chess'"),
    "negative seed": (["--seed=-1"], "seed"),
    "positional": (["fast"], "fast"),
}


@pytest.mark.parametrize("flags, named", BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_refused_in_one_line(tmp_path, flags, named):
    process = commands.run(
        "meta_train", CONFIG, f"--run_dir={tmp_path / 'run'}", *commands.settings(), *flags
    )
    assert process.returncode == 2
    assert named in process.stderr and len(process.stderr.splitlines()) == 1, process.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "flags, named",
    [
        ([], "--config"),
        (["--config=configs/nothing.py"], "configs/nothing.py"),
        (["--config=configs/random_hopper.py:huge"], ":huge"),
        ([CONFIG], "--run_dir"),
    ],
)
def test_missing_configs_are_refused_in_one_line(flags, named):
    process = commands.run("meta_train", *flags)
    assert process.returncode == 2
    assert named in process.stderr and len(process.stderr.splitlines()) == 1, process.stderr


@pytest.mark.parametrize("name", ["meta_train", "meta_test", "benchmark", "tune"])
def test_help_is_no_error(name):
    process = commands.run(name, "--help")
    assert process.returncode == 0 and f"epg-tf {name.replace('_', '-')}" in process.stdout


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_during_the_start_end_in_one_line(tmp_path, number, code):
    process = commands.start(
        "meta_train",
        CONFIG,
        f"--run_dir={tmp_path / 'run'}",
        *commands.settings(),
        under=["env"],  # a new process, which has yet to import TensorFlow
    )
    while (
        "tensorflow" not in Path(f"/proc/{process.pid}/maps").read_text() and process.poll() is None
    ):
        time.sleep(0.01)  # until TensorFlow is being imported
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code and len(output.splitlines()) == 1


def test_overwrite_replaces_runs_alone(tmp_path):
    """A folder that only uses the same names is kept."""
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "model.pt").write_text("precious")
    (tmp_path / "config.json").write_text("{}")
    process = commands.run(
        "meta_train", CONFIG, f"--run_dir={tmp_path}", *commands.settings(), "--overwrite"
    )
    assert (
        process.returncode == 2 and "no run" in process.stderr and process.stderr.count("\n") == 1
    )
    assert (tmp_path / "checkpoints" / "model.pt").read_text() == "precious"


@pytest.mark.slow
def test_a_folder_in_use_is_refused_and_left_alone(finished, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    process = commands.run("meta_train", CONFIG, f"--run_dir={tmp_path}", *commands.settings())
    assert process.returncode == 2 and "--overwrite" in process.stderr
    process = commands.run(
        "meta_train", CONFIG, f"--run_dir={tmp_path}", *commands.settings(), "--resume"
    )
    assert process.returncode == 2 and "nothing to resume" in process.stderr
    process = commands.run(
        "meta_train", CONFIG, f"--run_dir={tmp_path}", *commands.settings(), "--overwrite"
    )
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "thesis.txt").read_text() == "precious"
    assert phi(tmp_path / "final").tobytes() == phi(finished[0] / "final").tobytes()
