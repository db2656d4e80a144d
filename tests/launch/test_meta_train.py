"""launch.meta_train of every system, as users start, stop, kill and resume it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

import epg_tf
from tests.launch import commands
from tests.launch.systems import SYSTEMS

EVOLUTION = SYSTEMS["evolution"]
SLOW = ("metagenrl", "maml", "rl2")
EACH = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SYSTEMS]
LONG = 100_000
PROMISED = {
    "evolution": (
        "192 env steps an epoch",  # 8 lives x 3 updates x 8 steps
        ["best/loss.json", "checkpoints/epoch_00000004.npz"],
        ("temporal_conv_loss", 4),
    ),
    "metagenrl": (
        "cost: 2 agents x 60 env steps = 120 env steps; 30 updates of the objective",
        [
            "objectives/round_00000000/loss.json",
            "objectives/round_00000003/loss.npz",
            "agents/shard_000/weights/epoch_00000003.npz",
            "agents/shard_000/steps/epoch_00000003.npz",
        ],
        ("lstm_objective", 3),
    ),
    "maml": (
        "cost: 3 iterations x 2 lives x 2 x 12 env steps = 144 env steps",
        ["best/loss.npz"],
        ("maml_initialisation", 3),
    ),
    "rl2": (
        "cost: 3 iterations x 4 trials x 12 env steps = 144 env steps;",
        ["best/loss.npz"],
        ("rl2_policy", 3),
    ),
}
NEXT = {
    "evolution": "launch.meta_test --loss={0}/best --output_dir={0}-test",
    "metagenrl": "launch.meta_test --loss={0}/final --output_dir={0}-test",
    "maml": "launch.meta_test --compare=maml:{0} with a --loss for the same body",
    "rl2": "launch.meta_test --compare=rl2:{0} with a --loss for the same body",
}


def wait_for(path: Path, process) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.002)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A function (name of a system) -> folder and process of a run that nothing disturbed."""
    made = {}

    def run(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name) / "run"
            words = [*SYSTEMS[name].flags(), f"--run_dir={folder}"]
            # A new process, for the notices of its imports.
            start = commands.run_fresh if name == "evolution" else commands.run
            made[name] = folder, start("meta_train", *words)
            assert made[name][1].returncode == 0, made[name][1].stderr
        return made[name]

    return run


@pytest.fixture
def finished(undisturbed):
    """The folder of such a run of evolution."""
    return undisturbed("evolution")[0]


@pytest.mark.parametrize("name", EACH)
def test_leaves_what_it_promises(undisturbed, name):
    """Without a word of TensorFlow; what it costs comes first, what to do next comes last."""
    folder, process = undisturbed(name)
    cost, files, (kind, steps) = PROMISED[name]
    assert process.stderr == "" and cost in process.stdout
    for file in ["config.json", "learning_curve.png", "summary.json", "final/loss.npz", *files]:
        assert (folder / file).is_file(), file
    assert list((folder / "tensorboard").iterdir())
    description = json.loads((folder / "final" / "loss.json").read_text())
    assert description["kind"] == kind
    assert [int(row["epoch"]) for row in SYSTEMS[name].left(folder)[-1]] == [*range(1, steps + 1)]
    lines = process.stdout.splitlines()
    proposed = f"results are in {folder}; next: python -m {NEXT[name].format(folder)}"
    page = f"a page to look at: python -m launch.report --run_dir={folder} --output={folder}.html"
    assert proposed in lines[-2:]
    assert (lines[-1] == page) == (name in ("evolution", "metagenrl"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_killed_and_resumed_gives_the_same_bits(undisturbed, tmp_path, name):
    """kill -9 as soon as a file appears, and again when resumed: it ends with the same losses and
    rows, whatever computes its shards.
    """
    system, folder = SYSTEMS[name], tmp_path / "run"
    for moment in system.moments:
        words = [*system.flags(**system.compute), f"--run_dir={folder}", "--resume"]
        process = commands.start("meta_train", *words)
        wait_for(folder / moment, process)
        process.kill()
        process.wait()
    assert not (folder / "final").exists()
    process = commands.run("meta_train", f"--run_dir={folder}", "--resume")  # no --config
    assert process.returncode == 0, process.stderr
    assert system.left(folder) == system.left(undisturbed(name)[0])


@pytest.mark.parametrize(
    ("name", "number", "code", "words"),
    [
        ("evolution", signal.SIGTERM, 143, ()),
        *(
            pytest.param(name, signal.SIGINT, 130, ("--resume",), marks=pytest.mark.slow)
            for name in SYSTEMS
        ),
    ],
)
def test_signals_end_cleanly(tmp_path, name, number, code, words):
    """With the words that go on; while it runs, no other process may have the folder."""
    system, folder = SYSTEMS[name], tmp_path / "run"
    compute = system.compute if words else {}  # processes take seconds to start
    changes = {**compute, system.length.replace(".", "__"): LONG}
    flags = [*system.flags(**changes), f"--run_dir={folder}"]
    process = commands.start("meta_train", *flags, *words)
    wait_for(folder / "checkpoints" / "epoch_00000001.npz", process)
    if words:
        second = commands.run("meta_train", *flags, "--overwrite")
        assert second.returncode == 2 and "another process" in second.stderr
        assert process.poll() is None and (folder / "config.json").is_file()
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code and "Traceback" not in output
    how = "again" if words else "with --resume"
    assert output.splitlines()[-1] == f"to go on, run the same command {how}"


@pytest.mark.slow
def test_the_end_of_a_process_of_lives_is_one_line(tmp_path):
    """The line can be followed: the run resumes."""
    folder = tmp_path / "run"
    flags = EVOLUTION.flags(evolution__epochs=LONG, **EVOLUTION.compute)
    process = commands.start("meta_train", *flags, f"--run_dir={folder}")
    wait_for(folder / "checkpoints" / "epoch_00000001.npz", process)
    children = Path(f"/proc/{process.pid}/task").glob("*/children")
    for child in " ".join(path.read_text() for path in children).split():
        os.kill(int(child), signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and "Traceback" not in output
    assert "error: a process that ran lives was killed by signal 9" in output.splitlines()[-1]
    epochs = len((folder / "metrics.csv").read_text().splitlines())
    flags = EVOLUTION.flags(evolution__epochs=epochs, compute__threads=1)
    again = commands.run("meta_train", *flags, f"--run_dir={folder}", "--resume")
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_the_library_leaves_the_same_files(finished, tmp_path):
    """And takes over a run that the command has started, to the same bits."""
    experiment = epg_tf.read_run(finished).experiment
    folder = tmp_path / "run"
    short = EVOLUTION.flags(evolution__epochs=1)
    assert commands.run("meta_train", *short, f"--run_dir={folder}").returncode == 0
    results = list(epg_tf.evolve_in_folder(experiment, 0, folder, resume=True))
    assert [result.state.epoch for result in results] == [2, 3, 4]
    for name in ("best/loss.npz", "final/loss.npz", "checkpoints/epoch_00000004.npz"):
        assert (folder / name).read_bytes() == (finished / name).read_bytes()

    def names(run):
        return {str(path.relative_to(run)) for path in run.rglob("*") if "events" not in path.name}

    assert names(folder) == names(finished)
    assert list(epg_tf.evolve_in_folder(experiment, 0, finished, resume=True)) == []


@pytest.mark.slow
def test_a_finished_run_is_never_changed_unasked(finished):
    """The package's words for it are in tests/runs/test_session.py, for all systems."""
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    for changes, words, message in (
        ({}, ["--seed=1"], f"--run_dir={finished}: the folder is not empty; pass --resume"),
        ({}, ["--resume", "--seed=1"], "--seed=1: the run in"),
        ({"evolution__sigma": 0.2}, ["--resume"], "config.evolution.sigma=0.2"),
    ):
        flags = [*EVOLUTION.flags(**changes), f"--run_dir={finished}", *words]
        process = commands.run("meta_train", *flags)
        assert process.returncode == 2 and process.stderr.count("\n") == 1
        assert message in process.stderr
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_overwrite_begins_again_and_keeps_files_of_others(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "thesis.txt").write_text("precious")
    (folder / "final" / "loss.npz").write_bytes(b"damaged")
    process = commands.run("meta_train", *EVOLUTION.flags(), f"--run_dir={folder}", "--overwrite")
    assert process.returncode == 0, process.stderr
    assert (folder / "thesis.txt").read_text() == "precious"
    assert EVOLUTION.left(folder) == EVOLUTION.left(finished)


@pytest.mark.slow
def test_a_resumed_run_keeps_its_seed(finished, tmp_path):
    """Here one that had no checkpoint yet."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "checkpoints")
    (folder / "metrics.csv").unlink()
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"seed": 0', '"seed": 3'))
    flags = [*EVOLUTION.flags(), f"--run_dir={folder}", "--resume"]
    again = commands.run("meta_train", *flags)
    assert again.returncode == 0, again.stderr
    refused = commands.run("meta_train", *flags, "--seed=4")
    assert refused.returncode == 2 and "has seed 3" in refused.stderr


@pytest.mark.slow
def test_a_run_begins_with_the_loss_of_another_one(finished, tmp_path):
    """How it begins is in tests/runs/test_beginning.py."""
    folder, flags = tmp_path / "run", EVOLUTION.flags(evolution__epochs=1)
    begun = [f"--run_dir={folder}", f"--begin_with={finished / 'final'}"]
    assert commands.run("meta_train", *flags, *begun).returncode == 0
    facts = json.loads((folder / "config.json").read_text())
    earlier = json.loads((finished / "final" / "loss.json").read_text())
    assert facts["begun_with"]["phi_sha256"] == earlier["phi_sha256"]


@pytest.mark.slow
def test_the_next_command_tests_the_best_objective_where_tests_chose_one(tmp_path):
    tests = {"validation__period": 2, "validation__agents": 1, "validation__env_steps": 40}
    folder, flags = tmp_path / "run", SYSTEMS["metagenrl"].flags(**tests)
    process = commands.run("meta_train", *flags, f"--run_dir={folder}")
    assert (process.returncode, process.stderr) == (0, "")
    assert f"--loss={folder}/best " in process.stdout and (folder / "best").is_dir()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_signals_during_the_start_end_in_one_line(tmp_path, number, code):
    flags = [*EVOLUTION.flags(), f"--run_dir={tmp_path / 'run'}"]
    # A new process, which has yet to import TensorFlow.
    process = commands.start("meta_train", *flags, under=["env"])
    maps = Path(f"/proc/{process.pid}/maps")
    while "tensorflow" not in maps.read_text() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code and len(output.splitlines()) == 1


@pytest.mark.slow
def test_a_family_alone_is_enough_for_a_loss_and_what_it_is_worth(tmp_path):
    file, folder = tmp_path / "alone.py", tmp_path / "run"
    file.write_text(
        "from epg_tf.epg.settings import Experiment\n"
        "from epg_tf.tasks.settings import TaskConfig\n\n\n"
        "def get_config():\n"
        "    return Experiment(task=TaskConfig('point_goal', 2, 6)).to_mapping()\n"
    )
    flags = [f"--config={file}", f"--run_dir={folder}", "--minutes=0.1", *commands.settings()]
    done = commands.run("meta_train", *flags, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "trying 8 beginnings of a loss in point_goal" in done.stdout
    assert "64 fresh agents that learn from this loss for 24 env steps" in done.stdout
    assert "fixed linear policy at" in done.stdout
    assert "In tasks outside its range it ends at" in done.stdout
    for name in ("search.json", "best/loss.npz", "1/summary.json", "test/curves.csv"):
        assert (folder / name).is_file(), name
    again = commands.run("meta_train", *flags, "--resume")
    assert again.returncode == 0, again.stderr
    assert "trying" not in again.stdout
    refused = commands.run("meta_train", *flags, "--resume", "--seed=1")
    assert refused.returncode == 2
    assert "another family, seed, budget or settings" in refused.stderr
