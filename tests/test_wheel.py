"""The wheel: what it holds, and that an empty environment needs nothing but it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.launch import commands

ROOT = commands.ROOT
# What docs/Dockerfile installs from.
COPIES = re.findall(r"^COPY (.*) \S+$", (ROOT / "docs/Dockerfile").read_text(), re.MULTILINE)
PARTS = " ".join(COPIES).split()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy, so that nothing is left in the checkout."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, source / part, ignore=ignored)
        else:
            shutil.copy(ROOT / part, source)
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(target), "."]
    subprocess.run([sys.executable, "-m", "pip", *words], cwd=source, check=True, timeout=120)
    (path,) = target.glob("*.whl")
    return path


def test_the_wheel_holds_commands_configs_and_losses_in_one_package(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names} == {"epg_tf", "epg_tf-0.1.0.dist-info"}
    for folder in ("launch", "configs"):
        files = {f"epg_tf/{folder}/{path.name}" for path in (ROOT / folder).glob("*.py")}
        assert len(files) > 5 and files <= names
    package = {str(path.relative_to(ROOT)) for path in (ROOT / "epg_tf").rglob("*.py")}
    files = [path for path in (ROOT / "epg_tf/pretrained").rglob("*") if path.is_file()]
    pretrained = {str(path.relative_to(ROOT)) for path in files}
    assert len(pretrained) >= 12 and package | pretrained <= names
    assets = {str(path.relative_to(ROOT)) for path in (ROOT / "epg_tf/tasks/assets").glob("*.xml")}
    assert assets and assets | {"epg_tf/py.typed", "epg_tf/__init__.pyi"} <= names


class Installed:
    """An environment that holds the wheel and its dependencies, and a folder far from any checkout.

    Attributes:
      bin: Folder of its programs.
      home: Where commands are run.
    """

    def __init__(self, wheel: Path, folder: Path):
        self.bin, self.home = folder / "environment" / "bin", folder / "home"
        self.home.mkdir()
        subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
        pip = [self.bin / "python", "-m", "pip", "install", "--quiet", "--no-cache-dir"]
        constraints = ["-c", ROOT / "constraints.txt"]
        subprocess.run(
            [*pip, *constraints, f"{wheel}[notebook]"], check=True, cwd=self.home, timeout=900
        )

    def run(self, *words) -> subprocess.CompletedProcess:
        """Runs a program of the environment, without this process's paths."""
        variables = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.home)}
        program, *others = map(str, words)
        return subprocess.run(
            [self.bin / program, *others],
            cwd=self.home,
            env=variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def epg_tf(self, *words) -> str:
        """Returns the output of `epg-tf`, which must succeed and print no error."""
        process = self.run("epg-tf", *words)
        assert (process.returncode, process.stderr) == (0, ""), process.stderr
        return process.stdout


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return Installed(wheel, tmp_path_factory.mktemp("installed"))


@pytest.mark.slow
def test_from_the_command(installed):
    """Evolves two epochs, goes on to a third with the folder alone, tests, exports and renders."""
    tiny = commands.settings(evolution__epochs=2)
    output = installed.epg_tf("meta-train", "--config=point_goal", "--run_dir=~/run", *tiny)
    expected = f"epg-tf meta-test --loss={installed.home}/run/best --output_dir="
    assert [line for line in output.splitlines() if expected in line]
    installed.epg_tf("meta-train", "--run_dir=run", "--resume", "--config.evolution.epochs=3")
    assert len((installed.home / "run" / "metrics.csv").read_text().splitlines()) == 1 + 3
    installed.epg_tf("meta-test", "--loss=run/best", "--output_dir=test", "--lives=2")
    summary = json.loads((installed.home / "test" / "summary.json").read_text())
    assert summary["about"]["policy"]["hidden"] == [64, 64]
    installed.epg_tf("export", "--loss=run/best", "--output_dir=exported")
    assert (installed.home / "exported" / "saved_model.pb").is_file()
    words = ["--loss=none", "--config=goal_ant", "--view=path", "--output=path.png"]
    installed.epg_tf("render", *words, "--updates=1", "--config.inner.updates=1")
    assert (installed.home / "path.png").stat().st_size > 1000
    assert "random_hopper" in installed.epg_tf("list")
    assert "export" in installed.epg_tf("--help")


@pytest.mark.slow
def test_from_python(installed):
    code = """
import dataclasses, epg_tf
experiment = epg_tf.load_experiment("point_goal")
evolution = dataclasses.replace(experiment.evolution, epochs=1, lives=4, noise_vectors=4,
                                validation_period=0)
inner = dataclasses.replace(experiment.inner, updates=1)
experiment = dataclasses.replace(experiment, evolution=evolution, inner=inner)
for result in epg_tf.evolve_in_folder(experiment, 0, "python-run"):
    print(result.state.epoch)
"""
    process = installed.run("python", "-c", code)
    assert (process.returncode, process.stderr, process.stdout) == (0, "", "1\n"), process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["launch", "configs", "tests"])
def test_no_other_name_is_on_the_import_path(installed, name):
    process = installed.run("python", "-c", f"import {name}")
    assert process.returncode == 1 and "ModuleNotFoundError" in process.stderr


@pytest.mark.slow
def test_a_notebook_trains_after_other_work_of_tensorflow_and_saves(installed):
    """In a kernel that the extra `notebook` brings."""
    code = """
from jupyter_client.manager import run_kernel
cell = '''
import tensorflow as tf
tf.constant(1) + 1
import epg_tf
agent = epg_tf.train_agent(epg_tf.load_loss("point_goal"), seed=0, updates=1, lives=2)
agent.save("notebook-agent")
'''
with run_kernel() as client:
    answer = client.execute_interactive(cell, timeout=120)
    print(answer["content"]["status"])
"""
    process = installed.run("python", "-c", code)
    assert process.returncode == 0 and process.stdout.endswith("ok\n"), process.stdout
    assert (installed.home / "notebook-agent" / "saved_model.pb").is_file()
