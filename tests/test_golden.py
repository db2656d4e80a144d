"""Today's program reads what was written in format version 1, and says so where a version is beyond
it.
"""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

import epg_tf
from epg_tf.core.errors import RecordError
from epg_tf.core.old_settings import renamed
from epg_tf.epg.settings import Experiment
from epg_tf.runs import checkpoints
from epg_tf.runs.evolution import evolve_in_folder
from tests.launch import commands

GOLDEN = commands.ROOT / "tests" / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


@pytest.mark.parametrize("folder", ["run/best", "exported"])
def test_a_loss_is_read(folder):
    learned = epg_tf.load_loss(GOLDEN / folder)
    assert (
        learned.phi.size == EXPECTED["parameters"]
        and learned.experiment.task.family == "point_goal"
    )
    assert (
        float(learned.phi.sum()) == pytest.approx(EXPECTED["sum"], rel=1e-6)
        and learned.facts["seed"] == 0
    )


def test_an_exported_loss_answers_as_it_did():
    loaded = epg_tf.open_saved_model(GOLDEN / "exported")
    signature = loaded.signatures["loss"]
    inputs = {
        name: tf.fill([1, *spec.shape[1:]], 0.1)
        for name, spec in signature.structured_input_signature[1].items()
        if name != "minibatch"
    }
    found = signature(**inputs, minibatch=tf.constant([[0, 1, 2, 3]]))
    np.testing.assert_allclose(found["per_step"], EXPECTED["per_step"], rtol=1e-5)
    described = json.loads(loaded.describe()["json"].numpy())
    assert {name: described[name] for name in EXPECTED["described"]} == EXPECTED["described"]


def test_a_policy_acts():
    policy = epg_tf.open_saved_model(GOLDEN / "policy")
    step = policy.action(ts.restart(tf.fill([3, 6], 0.1), 3))
    assert step.action.shape == (3, 2) and np.isfinite(step.action).all()
    assert json.loads((GOLDEN / "policy" / "policy.json").read_text())["format_version"] == 1


@pytest.mark.slow
def test_a_run_is_resumed(tmp_path):
    """From its checkpoint of epoch 3 to the phi it ended with at epoch 4; other CPUs may round
    otherwise.
    """
    shutil.copytree(GOLDEN / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "final")
    config = renamed(json.loads((GOLDEN / "run" / "config.json").read_text())["config"])
    flags = [
        f"--config.{group}.{name}={tuple(value) if isinstance(value, list) else value}"
        for group, fields in config.items()
        for name, value in fields.items()
    ]
    process = commands.run(
        "meta_train",
        "--config=configs/point_goal.py",
        *flags,
        f"--run_dir={tmp_path / 'run'}",
        "--resume",
    )
    assert process.returncode == 0, process.stderr
    resumed, expected = (
        epg_tf.load_loss(path / "run" / "final").phi for path in (tmp_path, GOLDEN)
    )
    np.testing.assert_allclose(resumed, expected, rtol=1e-4, atol=1e-5)
    assert checkpoints.load_newest(tmp_path / "run" / "checkpoints")[0].epoch == 4


@pytest.mark.parametrize(
    ("file", "read"),
    [
        ("best/loss.json", lambda run: epg_tf.load_loss(run / "best")),
        ("config.json", epg_tf.read_run),
        ("config.json", lambda run: next(evolve_in_folder(Experiment(), 0, run, resume=True))),
    ],
)
def test_a_version_beyond_it_is_named(tmp_path, file, read):
    shutil.copytree(GOLDEN / "run", tmp_path / "run")
    path = tmp_path / "run" / file
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(RecordError) as caught:
        read(tmp_path / "run")
    line = str(caught.value)
    assert "\n" not in line and "update epg_tf" in line
    assert "format_version 2, this program reads 1" in line
