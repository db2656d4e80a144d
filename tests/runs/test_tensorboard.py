"""Tests epg_tf.runs.tensorboard."""

from __future__ import annotations

import math
import resource

import numpy as np
import pytest
from PIL import Image

import epg_tf
from epg_tf.baselines import maml, rl2
from epg_tf.epg import epoch_metrics
from epg_tf.metagenrl import population
from epg_tf.runs.tensorboard import MEANINGS, TensorBoardWriter, meaning


def tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def points(folder, tag):
    return [(event.step, event.value) for event in tensorboard(folder).Scalars(tag)]


def test_tensorboard_shows_scalars_and_texts_at_once(tmp_path):
    writer = TensorBoardWriter(tmp_path / "new" / "tensorboard")
    writer.scalars(3, {"mean": 0.5, "absent": math.nan, "numpy": np.float32(2)}, prefix="fitness")
    writer.scalars(4, {"alpha": 1})
    writer.text("config", "**hopper**")
    events = tensorboard(tmp_path / "new" / "tensorboard")
    assert set(events.Tags()["scalars"]) == {"fitness/mean", "fitness/numpy", "alpha"}
    assert [(event.step, event.value) for event in events.Scalars("fitness/mean")] == [(3, 0.5)]
    assert events.Tensors("config")[0].tensor_proto.string_val[0] == b"**hopper**"
    writer.close()


def test_curves_say_what_they_mean_and_a_picture_keeps_its_bytes(tmp_path):
    writer = TensorBoardWriter(tmp_path / "board")
    writer.scalars(1, {"alpha": 0.5, "value/Hopper": 2.0}, prefix="evolution")
    Image.new("RGB", (3, 2)).save(tmp_path / "a.png")
    writer.picture("learning curve", tmp_path / "a.png")
    writer.close()
    events = tensorboard(tmp_path / "board")
    for tag, name in (("evolution/alpha", "alpha"), ("evolution/value/Hopper", "value")):
        assert events.SummaryMetadata(tag).summary_description == MEANINGS[name]
    (shown,) = events.Images("learning curve")
    assert (shown.width, shown.height) == (3, 2)
    assert shown.encoded_image_string == (tmp_path / "a.png").read_bytes()


def test_every_column_of_every_system_has_a_meaning():
    objectives = epg_tf.load_experiment("metagenrl_night:small")
    columns = [*epoch_metrics.COLUMNS, *population.metric_columns(objectives), *maml.COLUMNS]
    columns += rl2.metric_columns(epg_tf.load_experiment("rl2_goal_ant"))
    assert [name for name in columns if not meaning(name)] == ["epoch"] * 4


def test_a_resumed_run_continues_the_axis(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    for step in range(6):
        writer.scalars(step, {"a": step, "late": step}, "x")
    # The killed run is not closed. The next one starts within the same second and must neither
    # replace nor precede it.
    resumed = TensorBoardWriter(tmp_path)
    resumed.purge_after(2)
    assert points(tmp_path, "x/late") == [(0, 0), (1, 1), (2, 2)]
    for step in range(3, 5):
        resumed.scalars(step, {"a": 10 * step}, "x")
    assert points(tmp_path, "x/a") == [(0, 0), (1, 1), (2, 2), (3, 30), (4, 40)]
    resumed.close()
    writer.close()


def test_a_full_disk_is_an_error_of_the_disk(tmp_path, capfd):
    """No file may grow here; what is written once there is space again can be read."""
    writer = TensorBoardWriter(tmp_path)
    writer.scalars(1, {"a": 1}, "x")
    (log,) = tmp_path.iterdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 20, before[1]))
    try:
        with pytest.raises(OSError, match=f"{log}; File too large"):
            writer.scalars(2, {"a": 2}, "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    writer.scalars(3, {"a": 3}, "x")
    writer.close()
    assert points(tmp_path, "x/a") == [(1, 1), (3, 3)]
    assert "Traceback" not in capfd.readouterr().err
