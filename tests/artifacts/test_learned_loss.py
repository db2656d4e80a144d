"""Tests epg_tf.artifacts.learned_loss: what a loss says of itself."""

from __future__ import annotations

import json

import numpy as np
import pytest

from epg_tf.artifacts.learned_loss import (
    SHIPPED,
    load_loss,
    loss_folder,
    save_loss,
    shipped_losses,
)
from epg_tf.core.errors import RecordError
from epg_tf.core.rival_settings import RIVALS, PPOConfig, SACConfig
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.tasks import registry
from epg_tf.tasks.point_goal import PointGoal


class Choices(PointGoal):
    """The body is pushed along one axis or the other."""

    discrete_actions = True


@pytest.fixture
def save(make_tiny, monkeypatch, tmp_path):
    """A function: name of a family -> its experiment and phi, saved in `tmp_path`, and the
    description saved.
    """
    monkeypatch.setitem(registry.FAMILIES, "choices", Choices)

    def make(family):
        experiment = make_tiny(task={"family": family})
        phi = initial_phi(experiment, 0)
        save_loss(tmp_path, phi, experiment, {"seed": 0})
        return experiment, phi, json.loads((tmp_path / "loss.json").read_text())

    return make


@pytest.mark.parametrize(
    ("family", "discrete", "channels"),
    [
        ("point_goal", False, "observation action termination policy_mean policy_log_std memory"),
        ("choices", True, "observation action termination policy_probability memory"),
    ],
)
def test_a_saved_loss_names_its_kind_of_actions_and_its_channels(
    save, tmp_path, family, discrete, channels
):
    experiment, phi, description = save(family)
    assert description["discrete_actions"] is discrete and description["action_size"] == 2
    assert [channel["name"] for channel in description["channels"]] == channels.split()
    inputs = sum(channel["width"] for channel in description["channels"])
    assert description["parameter_shapes"]["convolution_1/kernel"][1] == inputs
    loaded = load_loss(tmp_path)
    assert loaded.experiment == experiment and loaded.phi.tobytes() == phi.tobytes()


def test_a_loss_saved_before_actions_had_kinds_still_loads(save, tmp_path):
    _, phi, description = save("point_goal")
    del description["discrete_actions"]
    (tmp_path / "loss.json").write_text(json.dumps(description))
    np.testing.assert_array_equal(load_loss(tmp_path).phi, phi)


@pytest.mark.parametrize("kind", [[], {"a": 1}, None, 3])
def test_a_kind_that_is_no_word_is_refused_in_one_line(save, tmp_path, kind):
    _, _, description = save("point_goal")
    (tmp_path / "loss.json").write_text(json.dumps({**description, "kind": kind}))
    with pytest.raises(RecordError, match="it states kind=.*, its config means"):
        load_loss(tmp_path)


def test_a_loss_saved_before_rivals_had_settings_still_loads(save, tmp_path):
    _, phi, description = save("point_goal")
    for group in RIVALS:
        del description["config"][group]
    (tmp_path / "loss.json").write_text(json.dumps(description))
    experiment = load_loss(tmp_path).experiment
    assert experiment.sac == SACConfig() and experiment.ppo == PPOConfig()


def test_a_run_is_read_by_its_best_loss_else_by_its_last(make_tiny, tmp_path):
    experiment = make_tiny()
    for name, seed in (("final", 1), ("best", 2)):
        phi = initial_phi(experiment, seed)
        save_loss(tmp_path / name, phi, experiment, {"seed": seed})
        found = load_loss(tmp_path)
        assert found.folder == loss_folder(tmp_path) == tmp_path / name
        assert found.phi.tobytes() == phi.tobytes() and found.name == f"{tmp_path / name}"
    assert load_loss(tmp_path / "final").facts["seed"] == 1  # who names it gets it
    save_loss(tmp_path, phi, experiment, {"seed": 3})
    assert load_loss(tmp_path).folder == tmp_path


def test_a_shipped_loss_is_found_where_there_is_no_such_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = load_loss("point_goal")
    assert found.folder == SHIPPED / "point_goal" and found.name == "point_goal"
    (tmp_path / "point_goal").mkdir()
    with pytest.raises(RecordError, match=r"point_goal: the folder holds no loss\.json"):
        load_loss("point_goal")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("random_hoper", "did you mean 'random_hopper'?"),
        ("RandomReacher", "did you mean 'random_reacher'?"),
        ("runs/first", "name one of them, or a run's folder"),
        ("x" * 5000, "name too long"),
    ],
)
def test_what_is_neither_a_folder_nor_shipped_names_the_shipped_ones(name, remedy):
    with pytest.raises(RecordError) as caught:
        load_loss(name)
    message = str(caught.value)
    assert remedy in message and "\n" not in message
    assert "too long" in message or all(known in message for known in shipped_losses())
