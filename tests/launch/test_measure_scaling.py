"""launch.measure_scaling: its rows are those of the runs it starts, and it notices when bits
differ.
"""

import hashlib
import importlib.util
import json
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from launch import measure_scaling
from tests.launch import commands

CONFIG = "--config=configs/point_goal.py"
_REPLACED = ("--config.evolution.epochs=", "--config.compute.threads=")
SMALL = [
    flag for flag in commands.settings(compute__shard_lives=2) if not flag.startswith(_REPLACED)
]
NEEDS_HOROVOD = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None, reason="Horovod is not installed"
)


@pytest.mark.slow
@pytest.mark.parametrize("second", [(0, 2), pytest.param((2, 1), marks=NEEDS_HOROVOD)])
def test_layouts_change_times_alone(tmp_path, second):
    """48 bytes for each of 8 lives, and for each of 4 validation lives in one of the two timed
    epochs; 32 for each of 2 ranks.
    """
    path, layouts = tmp_path / "scaling.json", f"--layouts=0x1,{second[0]}x{second[1]}"
    process = commands.run(
        "measure_scaling", CONFIG, *SMALL, layouts, "--epochs=3", f"--json={path}"
    )
    assert process.returncode == 0 and process.stderr == "", process.stderr
    assert "phi is the same to the bit" in process.stdout
    numbers = json.loads(path.read_text())
    one, two = numbers["rows"]
    assert numbers["same"] and one["phi"] == two["phi"] and len(one["phi"]) == 64
    assert (two["ranks"], two["threads"]) == second
    assert (one["core_seconds"], two["core_seconds"]) == (one["seconds"], 2 * two["seconds"])
    assert (
        two["efficiency"] == pytest.approx(one["core_seconds"] / two["core_seconds"])
        and one["efficiency"] == 1.0
    )
    assert (one["communication_bytes"], two["communication_bytes"]) == (
        0,
        48 * (8 + 4 / 2) + 32 * 2 if second[0] else 0,
    )


def test_times_are_means_over_the_epochs_after_the_first(monkeypatch, tiny):
    """Of a run that wrote known rows."""

    class Written:
        """Stands for the process; finds the run's folder among its words."""

        returncode = 0

        def __init__(self, words, cwd, stdout, stderr, text):
            folder = Path(
                next(word for word in words if word.startswith("--run_dir=")).split("=")[1]
            )
            (folder / "final").mkdir(parents=True)
            (folder / "final" / "loss.npz").write_bytes(b"phi")
            description = {"kind": "evolution", "seed": 0, "config": tiny.to_mapping()}
            (folder / "config.json").write_text(json.dumps(description))
            names = "seconds,env_steps_per_second,communication_seconds,communication_bytes"
            (folder / "metrics.csv").write_text(
                f"{names}\n100,1,50,7\n1,10,0.5,320\n3,30,0.25,320\n"
            )

        def __enter__(self):
            return self

        def __exit__(self, *_):
            """Leaves."""

        def communicate(self):
            return "", None

    monkeypatch.setattr(measure_scaling.subprocess, "Popen", Written)
    monkeypatch.setattr(measure_scaling, "_SEED", types.SimpleNamespace(value=0))
    row = measure_scaling.measure(measure_scaling.Layout(0, 4), {}, "point_goal")
    assert row == {
        "ranks": 0,
        "threads": 4,
        "seconds": 2.0,
        "env_steps_per_second": 20.0,
        "communication_seconds": 0.375,
        "communication_bytes": 320.0,
        "core_seconds": 8.0,
        "phi": hashlib.sha256(b"phi").hexdigest(),
    }


@pytest.mark.slow
def test_bits_that_differ_are_reported():
    """One layout's runs get another sigma."""
    deceived = (
        "import sys; from launch import measure_scaling, command_line\n"
        "plain = measure_scaling.measure\n"
        "def measure(layout, settings, families):\n"
        "    settings['evolution']['sigma'] *= layout.threads\n"
        "    return plain(layout, settings, families)\n"
        "measure_scaling.measure = measure\n"
        "command_line.run(measure_scaling.main)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", deceived, CONFIG, *SMALL, "--layouts=0x1,0x2", "--epochs=2"],
        cwd=commands.ROOT,
        capture_output=True,
        text=True,
        env=commands.environment(),
        check=False,
    )
    assert process.returncode == 1 and "phi DIFFERS" in process.stdout, process.stderr


@pytest.mark.parametrize("layouts", ["", "2", "1x0", "x1", "-1x1", "0x1,", "manyx1"])
def test_bad_layouts_are_refused_in_one_line(layouts):
    process = commands.run("measure_scaling", CONFIG, f"--layouts={layouts}")
    assert (
        process.returncode == 2
        and process.stderr.count("\n") == 1
        and "--layouts=" in process.stderr
    )


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("epoch 1\nerror: no space\n", "error: no space"),
        ("[1]<stderr>:error on rank 1: lost\nRuntimeError: exit\n", "error on rank 1: lost"),
        ("Traceback\n  errors_impl.py\nValueError: bad host\n", "ValueError: bad host"),
        ("", "it failed without output"),
    ],
)
def test_the_reason_of_a_failure_is_found(output, reason):
    assert measure_scaling._reason(output) == reason


@pytest.mark.slow
def test_a_run_that_fails_is_quoted():
    """No file may grow beyond 4 kB."""
    process = commands.run(
        "measure_scaling",
        CONFIG,
        *SMALL,
        "--layouts=0x1",
        under=["bash", "-c", 'ulimit -f 4; exec "$@"', "limited"],
    )
    assert process.returncode == 2 and process.stderr.count("\n") == 1, process.stderr
    assert process.stderr.startswith("error: --layouts=0x1: error: cannot write to --run_dir=")


@pytest.mark.slow
def test_sigterm_ends_the_run_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = (CONFIG, *SMALL, "--layouts=0x1", "--epochs=10000")
    process = commands.start("measure_scaling", *words, under=["env"])  # reads TMPDIR itself
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("*/run/metrics.csv")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM and not list(tmp_path.glob("*/run"))


@pytest.mark.parametrize("name", ["measure_scaling", "simulate_scaling", "benchmark"])
@pytest.mark.parametrize("path", ["nowhere/x.json", ".", "keep.txt", "config.json"])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path, name, path):
    """Also the settings of a run, which have a format version as results have."""
    (tmp_path / "keep.txt").write_text("precious")
    (tmp_path / "config.json").write_text('{"format_version": 1}')
    process = commands.run(name, CONFIG, f"--json={tmp_path / path}", timeout=60)
    assert (
        process.returncode == 2
        and process.stderr.count("\n") == 1
        and f"--json={tmp_path / path}" in process.stderr
    )
