"""Tests epg_tf.evaluation.trained_methods: methods that were meta-trained before, in a test."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.artifacts.artifact import LearnedLoss, load, save
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.maml_state import initial_state
from epg_tf.baselines.method import LossName
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.evaluation.evaluate import Evaluation
from epg_tf.evaluation.methods import LOSS_METHODS
from epg_tf.evaluation.requests import loss_request
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.trained_methods import load_all


def saved(folder, **task):
    """Saves a fresh initialisation; returns its folder as a word has it."""
    settings = {
        "task": {"family": "point_goal", "episode_limit": 6, **task},
        "policy": {"hidden": (4,)},
        "outer": {"tasks": 2},
    }
    experiment = MAMLExperiment.from_mapping(settings)
    save(
        folder,
        np.concatenate(initial_state(experiment, 0).start),
        experiment,
        {"env_steps": 120, "seed": 7},
    )
    return str(folder)


def test_maml_is_a_row_of_a_test_and_lives_as_long_as_a_rival(tiny, tmp_path):
    folder = saved(tmp_path / "start")
    folders = LOSS_METHODS.folders(["ppo", f"maml:{folder}", f"maml10:{folder}"])
    request = loss_request(tiny, 0, 3)
    evaluation = Evaluation(
        LearnedLoss(initial_phi(tiny, 0), tiny, {}),
        LossName("phi"),
        request,
        (),
        compare_updates=2,
        trained=load_all(folders, tiny),
    )
    results = Results.join(list(evaluation.run()))
    assert list(results.groups()) == ["maml", "maml10"]
    assert set(results.loss) == {folder} and set(results.loss_seed) == {7}
    for name, steps in (("maml", 1), ("maml10", 10)):
        rows = results.select(name)
        assert rows.env_steps.max() == steps * 2 * request.env_steps
        assert np.isfinite(rows.final()).all() and len(rows.final()) == 3
    facts = evaluation.about()["meta_trained"][f"maml {folder}"]
    assert (facts["env_steps"], facts["folder"]) == (120, folder)
    assert facts["adaptation"]["learning_rate"] == 0.1
    costs = evaluation.about()["meta_training_env_steps"]
    assert costs == {"epg phi": None, f"maml {folder}": 120, f"maml10 {folder}": 120}


def test_what_does_not_fit_is_refused(tiny, make_tiny, tmp_path):
    folder = saved(tmp_path / "start")
    other = make_tiny(task={"family": "hidden_goal"})
    with pytest.raises(ConfigError, match=f"^compare='maml:{folder}' was meta-trained in p"):
        load_all([("maml", folder)], other)
    with pytest.raises(RecordError, match="it is a loss of EPG, not an initialisation of MAML"):
        load_all([("maml", "point_goal")], tiny)
    with pytest.raises(RecordError, match="there is no such folder"):
        load_all([("maml", str(tmp_path / "nowhere"))], tiny)


def test_runs_of_several_seeds_are_rows_of_one_method(tiny, tmp_path):
    words = [("maml", saved(tmp_path / name)) for name in ("a", "b")]
    names = [each.method.loss.name for each in load_all(words, tiny)]
    assert names == [folder for _, folder in words] and len(set(names)) == 2
    assert len(load_all([*words, ("maml10", words[0][1])], tiny)) == 3
    with pytest.raises(ConfigError, match="^compare='maml:.*b/' is there twice"):
        load_all([*words, ("maml", f"{words[1][1]}/")], tiny)


def test_a_start_that_does_not_fit_its_description_is_refused(tmp_path):
    small, large = saved(tmp_path / "small"), load(saved(tmp_path / "large"))
    wider = dataclasses.replace(
        large.experiment, policy=dataclasses.replace(large.experiment.policy, hidden=(5,))
    )
    save(tmp_path / "large", large.phi, wider, {})
    with pytest.raises(RecordError, match="its shapes need"):
        load(tmp_path / "large")
    assert load(small).facts["env_steps"] == 120


def test_words_of_a_method_need_one_folder():
    assert LOSS_METHODS.folders(["ppo", "maml10:b", "maml:a:1"]) == (
        ("maml10", "b"),
        ("maml", "a:1"),
    )
    assert LOSS_METHODS.chosen(["reinforce", "maml:a"]) == LOSS_METHODS.chosen(["reinforce"])
    for words, message in (
        (["maml"], "^compare='maml' was meta-trained before; name its folder, e.g. maml:runs/maml"),
        (["maml:a", "maml:b", "maml:a"], "^compare='maml:a' is there twice"),
        (["mamml:a"], "is no method; name some of .*maml:FOLDER, maml10:FOLDER"),
    ):
        with pytest.raises(ConfigError, match=message):
            LOSS_METHODS.chosen(words)
