"""Tests epg_tf.artifacts.artifact: of every kind, what is written comes back, and what does not fit
its description is refused in one line.
"""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import epg_tf
from epg_tf.artifacts.artifact import is_objective, load, load_loss, save
from epg_tf.artifacts.export import export
from epg_tf.artifacts.loss_files import PRETRAINED, loss_folder, pretrained_losses
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.maml_state import initial_state
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import RecordError
from epg_tf.epg.baseline_settings import BASELINES, PPOConfig, SACConfig
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.settings import Experiment
from epg_tf.losses.lstm_objective import initial_parameters
from epg_tf.losses.settings import ObjectiveConfig
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks import registry
from tests.tasks.families import Choices

TASK = {"family": "point_goal", "frame_skip": 4, "episode_limit": 6}


def of_epg(**changes):
    experiment = Experiment.from_mapping({"task": TASK, **changes})
    return initial_phi(experiment, 0), experiment


def of_metagenrl():
    config = ObjectiveConfig(lstm_units=3, action_filters=4, value_inputs=1)
    parameters = initial_parameters(np.random.default_rng(0), config)
    return parameters, MetaGenRLExperiment(objective=config)


def of_maml():
    experiment = MAMLExperiment.from_mapping({"task": TASK, "policy": {"hidden": (4,)}})
    return np.concatenate(initial_state(experiment, 0).start), experiment


def of_rl2():
    return (
        np.arange(6, dtype=np.float32),
        RL2Experiment.from_mapping({"task": TASK}),
        {"policy_00": [2, 3]},
    )


KINDS = {
    "temporal_conv_loss": of_epg,
    "initial_policy": lambda: of_epg(
        evolution={"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0}
    ),
    "lstm_objective": of_metagenrl,
    "maml_initialisation": of_maml,
    "rl2_policy": of_rl2,
}


def saved(kind, folder, **facts):
    """Saves an artifact; returns its vector and its experiment."""
    phi, experiment, *shapes = KINDS[kind]()
    save(folder, phi, experiment, facts, *shapes)
    return phi, experiment


def rewrite(folder, **changes):
    description = json.loads((folder / "loss.json").read_text())
    changes = {name: change(description[name]) for name, change in changes.items()}
    (folder / "loss.json").write_text(json.dumps({**description, **changes}))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_is_loaded(kind, tmp_path):
    phi, experiment = saved(kind, tmp_path, round=7)
    assert json.loads((tmp_path / "loss.json").read_text())["kind"] == kind
    found = load(tmp_path)
    assert found.phi.tobytes() == phi.tobytes() and found.experiment == experiment
    assert found.facts["round"] == 7 and "tensorflow" in found.facts["versions"]
    assert found.folder == tmp_path and found.name == str(tmp_path)
    assert is_objective(tmp_path) == (kind == "lstm_objective")


SYSTEMS = {  # settings: what they are of
    Experiment: "a loss of EPG",
    MetaGenRLExperiment: "an objective of MetaGenRL",
    MAMLExperiment: "an initialisation of MAML",
    RL2Experiment: "a policy of RL²",
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_not_mistaken_for_each_other(kind, tmp_path):
    _, experiment = saved(kind, tmp_path)
    mine = SYSTEMS[type(experiment)]
    for wanted, its in SYSTEMS.items():
        if mine == its:
            assert load(tmp_path, wanted)
            continue
        with pytest.raises(RecordError, match=f"it is {mine}, not {its} .*; name the folder"):
            load(tmp_path, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_refuses_a_description_that_does_not_fit(kind, tmp_path):
    saved(kind, tmp_path)
    before = (tmp_path / "loss.json").read_text()
    for change in (
        {"config": lambda _: {"agents": "many"}},
        {"config": lambda _: 3},
        {"parameter_shapes": lambda _: 3},
        {"parameter_shapes": lambda shapes: {**shapes, "more": [1]}},
        {"parameter_shapes": lambda shapes: {**shapes, "more": [True]}},
    ):
        (tmp_path / "loss.json").write_text(before)
        rewrite(tmp_path, **change)
        with pytest.raises(RecordError, match=r"does not describe|its shapes need") as caught:
            load(tmp_path)
        assert "\n" not in str(caught.value) and str(caught.value).startswith(f"{tmp_path}: ")


@pytest.mark.parametrize("kind", [[], None, "another"])
def test_an_unknown_kind_is_refused_in_one_line(kind, tmp_path):
    saved("temporal_conv_loss", tmp_path)
    rewrite(tmp_path, kind=lambda _: kind)
    with pytest.raises(RecordError, match="it states kind=.*, its config means"):
        load(tmp_path)


@pytest.mark.parametrize("kind", ["maml_initialisation", "rl2_policy"])
def test_what_has_no_export_is_refused(kind, tmp_path):
    saved(kind, tmp_path / "it")
    with pytest.raises(RecordError, match=f"it is a {kind}, which has no export"):
        export(load(tmp_path / "it"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("family", "discrete", "channels"),
    [
        ("point_goal", False, "observation action termination policy_mean policy_log_std memory"),
        ("choices", True, "observation action termination policy_probability memory"),
    ],
)
def test_a_saved_loss_names_its_kind_of_actions_and_its_channels(
    make_tiny, monkeypatch, tmp_path, family, discrete, channels
):
    monkeypatch.setitem(registry.FAMILIES, "choices", Choices)
    experiment = make_tiny(task={"family": family})
    save(tmp_path, initial_phi(experiment, 0), experiment, {})
    description = json.loads((tmp_path / "loss.json").read_text())
    assert description["discrete_actions"] is discrete and description["action_size"] == 2
    assert [channel["name"] for channel in description["channels"]] == channels.split()
    inputs = sum(channel["width"] for channel in description["channels"])
    assert description["parameter_shapes"]["convolution_1/kernel"][1] == inputs
    compute = dataclasses.replace(experiment.compute, threads=0)  # those were of another machine
    assert load(tmp_path).experiment == dataclasses.replace(experiment, compute=compute)


def test_a_family_that_is_not_registered_is_named(make_tiny, monkeypatch, tmp_path):
    monkeypatch.setitem(registry.FAMILIES, "choices", Choices)
    experiment = make_tiny(task={"family": "choices"})
    save(tmp_path, initial_phi(experiment, 0), experiment, {})
    monkeypatch.delitem(registry.FAMILIES, "choices")
    with pytest.raises(RecordError, match="the family 'choices', which is not registered; first"):
        load(tmp_path)


def test_an_environment_that_is_not_registered_is_named(tmp_path):
    saved("temporal_conv_loss", tmp_path)
    rewrite(tmp_path, config=lambda old: {**old, "task": {"family": "gymnasium:mine/Walk-v0"}})
    with pytest.raises(RecordError, match="mine/Walk-v0', which is not registered; first load"):
        load(tmp_path)


def test_a_misspelt_folder_is_compared_with_the_names_of_those_beside_it(tmp_path):
    saved("temporal_conv_loss", tmp_path / "walker")
    with pytest.raises(RecordError, match=r"did you mean '.*/walker'\?"):
        load(tmp_path / "walkr")
    with pytest.raises(RecordError, match="name one of them, or a run's folder"):
        load(tmp_path / "missing")


def test_a_loss_of_an_earlier_version_still_loads(tmp_path):
    """Without settings of methods that it is compared with."""
    phi, _ = saved("temporal_conv_loss", tmp_path)
    description = json.loads((tmp_path / "loss.json").read_text())
    for group in BASELINES:
        del description["config"][group]
    (tmp_path / "loss.json").write_text(json.dumps(description))
    found = load_loss(tmp_path)
    np.testing.assert_array_equal(found.phi, phi)
    assert found.experiment.sac == SACConfig() and found.experiment.ppo == PPOConfig()


def test_a_run_is_read_by_its_best_artifact_else_by_its_last(tmp_path):
    for name in ("final", "best"):
        saved("rl2_policy", tmp_path / name, name=name)
        assert load(tmp_path).folder == loss_folder(tmp_path) == tmp_path / name
    assert load(tmp_path / "final").facts["name"] == "final"  # who names it gets it
    saved("rl2_policy", tmp_path)
    assert load(tmp_path).folder == tmp_path


def test_a_pretrained_loss_is_found_where_there_is_no_such_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = load_loss("point_goal")
    assert found.folder == PRETRAINED / "point_goal" and found.name == "point_goal"
    assert dataclasses.replace(found, folder=None).name == "phi"
    (tmp_path / "point_goal").mkdir()
    with pytest.raises(RecordError, match=r"point_goal: the folder holds no loss\.json"):
        epg_tf.load_loss("point_goal")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("random_hoper", "did you mean 'random_hopper'?"),
        ("RandomReacher", "did you mean 'random_reacher'?"),
        ("runs/first", "name one of them, or a run's folder"),
        ("x" * 5000, "name too long"),
    ],
)
def test_what_is_neither_a_folder_nor_pretrained_names_the_pretrained_ones(name, remedy):
    with pytest.raises(RecordError) as caught:
        load_loss(name)
    message = str(caught.value)
    assert remedy in message and "\n" not in message
    assert "too long" in message or all(known in message for known in pretrained_losses())
