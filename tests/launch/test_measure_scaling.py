"""launch.measure_scaling: its rows are those of the runs it starts, and it notices when bits differ."""

import json
import subprocess
import sys

import pytest

from tests.launch import commands

CONFIG = "--config=configs/point_goal.py"
TWO_EPOCHS = commands.settings(evolution__epochs=2, compute__shard_lives=2)


def test_threads_change_times_alone(tmp_path):
    path = tmp_path / "scaling.json"
    process = commands.run("measure_scaling", CONFIG, *TWO_EPOCHS, "--layouts=0x1,0x2", "--epochs=2", f"--json={path}")
    assert process.returncode == 0 and process.stderr == "", process.stderr
    assert "phi is the same to the bit" in process.stdout
    numbers = json.loads(path.read_text())
    one, two = numbers["rows"]
    assert numbers["same"] and one["phi"] == two["phi"] and len(one["phi"]) == 64
    assert (one["core_seconds"], two["core_seconds"]) == (one["seconds"], 2 * two["seconds"])
    assert two["efficiency"] == pytest.approx(one["core_seconds"] / two["core_seconds"]) and one["efficiency"] == 1.0
    assert one["communication_bytes"] == 0 and 8 * 3 * 8 < one["env_steps_per_second"] * one["seconds"]


def test_bits_that_differ_are_reported():
    """One layout's runs get another seed."""
    deceived = ("import sys; from launch import measure_scaling, command_line\n"
                "plain = measure_scaling.measure\n"
                "def measure(layout, settings):\n"
                "    settings['evolution']['sigma'] *= layout.threads\n"
                "    return plain(layout, settings)\n"
                "measure_scaling.measure = measure\n"
                "command_line.run(measure_scaling.main)\n")
    process = subprocess.run([sys.executable, "-c", deceived, CONFIG, *TWO_EPOCHS, "--layouts=0x1,0x2", "--epochs=2"],
                             cwd=commands.ROOT, capture_output=True, text=True, env=commands.environment(), check=False)
    assert process.returncode == 1 and "phi DIFFERS" in process.stdout, process.stderr


@pytest.mark.parametrize("layouts", ["2", "1x0", "x1", "-1x1", "0x1,", "manyx1"])
def test_bad_layouts_are_refused_in_one_line(layouts):
    process = commands.run("measure_scaling", CONFIG, f"--layouts={layouts}")
    assert process.returncode == 2 and process.stderr.count("\n") == 1 and "--layouts=" in process.stderr


def test_a_run_that_fails_is_quoted():
    """Horovod is not installed, or does not find the host."""
    process = commands.run("measure_scaling", CONFIG, *TWO_EPOCHS, "--layouts=1x1", "--hosts=nowhere.invalid:1")
    assert process.returncode == 2 and process.stderr.count("\n") == 1, process.stderr
    assert process.stderr.startswith("error: --layouts=1x1")
