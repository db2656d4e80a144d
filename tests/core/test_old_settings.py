"""Tests epg_tf.core.old_settings: files of earlier versions are read, methods that are gone are
refused.
"""

from __future__ import annotations

import copy

import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.core.old_settings import _NAMES_NOW, remark, renamed, renamed_channels
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment

OLD = {
    "policy": {"hidden": [8], "log_deviation": -1.0},
    "surrogate": {"baseline_passes": 4},
    "evolution": {"sigma": 0.5, "segments": 1, "tasks": 0, "diagnosis_period": 0},
    "loss": {"reduction": "mean", "head": 4},
    "distillation": {"rounds": 0, "steps": 3},
}


def test_old_names_become_todays():
    before = copy.deepcopy(OLD)
    assert renamed(OLD) == {
        "policy": {"hidden": [8], "log_std": -1.0},
        "surrogate": {"baseline_epochs": 4},
        "evolution": {"sigma": 0.5},
        "loss": {"head": 4},
    }
    assert before == OLD
    Experiment.from_mapping(renamed(OLD))
    old = {
        "baseline": {"objective_learning_rate": 0.0, "ppo_epochs": 3},
        "past": {"states": 0, "share": 0.25},
        "validation": {"patience": 0, "agents": 3},
    }
    made = MetaGenRLExperiment.from_mapping(renamed(old))
    assert (made.baseline.ppo_epochs, made.validation.agents) == (3, 3)


def test_todays_settings_stay_and_every_new_name_is_one():
    both = [Experiment().to_mapping(), MetaGenRLExperiment().to_mapping()]
    for settings in both:
        assert renamed(settings) == settings
    together = {**both[0], **both[1]}
    for path, name in _NAMES_NOW.items():
        group, old = path.split(".")
        assert name in together[group] and old not in together[group]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"loss": {"reduction": "sum"}}, "config.loss.reduction='sum'"),
        ({"adaptation": {"first_order": True}}, "config.adaptation.first_order=True"),
        ({"past": {"states": 3, "share": 0.5}}, "config.past.states=3"),
    ],
)
def test_a_method_that_is_gone_is_refused(settings, field):
    with pytest.raises(ConfigError, match=f"^{field}: this version of epg_tf cannot do that; use"):
        renamed(settings)


@pytest.mark.parametrize("settings", [3, {"policy": 3}, {"distillation": 3}])
def test_what_is_no_mapping_is_left_to_the_reader(settings):
    assert renamed(settings) == settings
    with pytest.raises(ConfigError):
        Experiment.from_mapping(renamed(settings))


def test_two_names_for_one_setting_are_refused():
    settings = {"policy": {"log_std": 0.0, "log_deviation": 1.0}}
    with pytest.raises(ConfigError, match="config.policy.log_deviation is not a setting"):
        Experiment.from_mapping(renamed(settings))


def test_channels():
    channels = [{"name": "reward"}, {"name": "policy_log_deviation", "width": 2}]
    assert renamed_channels(channels) == [
        {"name": "reward"},
        {"name": "policy_log_std", "width": 2},
    ]
    for damaged in (None, 3, [None], [{"name": []}]):
        assert renamed_channels(damaged) == damaged


def test_remarks():
    assert remark("policy.log_deviation") == "it is called log_std now"
    assert remark("distillation.steps") == "this version no longer has it"
    assert remark("policy.hidden") == remark("nothing") == ""
