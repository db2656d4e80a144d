"""Tests that commands leave nothing in the folder that they are called in."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.launch import commands

pytestmark = pytest.mark.slow

MODEL = """
<mujoco><worldbody><body><joint name="hinge"/><geom size="0.1" mass="1"/></body></worldbody>
<actuator><motor joint="hinge"/></actuator></mujoco>
"""
# MuJoCo warns while the file is read, and where an agent does more than a little.
FAMILY = '''"""Wobbler: a hinge that MuJoCo warns about."""

import mujoco

_model = mujoco.MjModel.from_xml_path("{model}")
_data = mujoco.MjData(_model)
_data.qpos[:] = float("nan")
mujoco.mj_step(_model, _data)

import numpy as np
from epg_tf.epg import presets
from epg_tf.tasks.settings import TaskConfig
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.quantities import Quantity
from epg_tf.tasks.registry import register_family


@register_family
class Wobbler(BodyFamily):
    """Reward: the height."""

    name = "wobbler"
    observation_size = 2
    model_file = "{model}"
    quantities = (Quantity("mass", "kg", training=(0.5, 2.0), shifted=(2.0, 3.0)),)
    expanded = ("body_mass",)

    def fields(self, task):
        return {{"body_mass": self.model.body_mass * np.array([1.0, task["mass"]])}}

    def start(self, generator, task):
        return np.zeros(1), np.zeros(1), np.zeros(0)

    def control(self, state, controls, rows, action):
        controls[rows] = np.where(action > 0.3, np.nan, action)

    def observe(self, state):
        return np.concatenate([np.sin(state.qpos), np.tanh(state.qvel)], axis=1)

    def reward(self, before, after, action):
        return np.sin(after.qpos[:, 0])

    def place(self, state):
        return np.repeat(state.qpos, 2, axis=1)


def get_config():
    task = TaskConfig(family="wobbler", frame_skip=4, episode_limit=20)
    return presets.laptop(task, updates=4, reward=False)
'''
DIVERGING = ("--config=point_goal", "--config.inner.learning_rate=1e7")


@pytest.fixture
def empty(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.fixture
def file(tmp_path):
    """The file of a family."""
    model = tmp_path / "wobbler.xml"
    model.write_text(MODEL)
    path = tmp_path / "wobbler.py"
    path.write_text(FAMILY.format(model=model))
    return path


def run(empty, name, *flags):
    """Runs a launcher in the empty folder; returns its standard error."""
    process = subprocess.run(
        commands.command(name, *flags),
        cwd=empty,
        capture_output=True,
        text=True,
        env={**commands.environment(), "PYTHONPATH": str(commands.ROOT)},
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stderr


def test_a_family_that_mujoco_warns_about_leaves_nothing(file, empty, tmp_path):
    own = f"--config={file}"
    small = commands.settings(
        evolution__epochs=2, evolution__validation_period=1, evolution__failed_epochs=0
    )
    errors = run(empty, "list", own)
    errors += run(empty, "meta_train", own, f"--run_dir={tmp_path}/run", *small)
    drawn = ("--view=path", f"--output={tmp_path}/life.png")
    errors += run(empty, "render", own, f"--loss={tmp_path}/run", *drawn)
    assert not os.listdir(empty)
    assert "WARNING" not in errors


def test_processes_of_shards_leave_nothing(empty, tmp_path):
    """Policies with weights that are not finite send MuJoCo such controls."""
    apart = {"compute__parallel": "processes", "compute__threads": 2}
    small = commands.settings(**apart, evolution__failed_epochs=0)
    run(empty, "meta_train", *DIVERGING, *small, f"--run_dir={tmp_path}/run")
    assert not os.listdir(empty)


def test_mujoco_alone_does_write_its_log(empty, file):
    """Else the tests above could not fail."""
    model = file.with_suffix(".xml")
    steps = (
        f"import mujoco; m = mujoco.MjModel.from_xml_path({str(model)!r}); d = mujoco.MjData(m); "
        "d.qpos[:] = float('nan'); mujoco.mj_step(m, d)"
    )
    subprocess.run([sys.executable, "-c", steps], cwd=empty, capture_output=True, check=True)
    assert os.listdir(empty) == ["MUJOCO_LOG.TXT"]
