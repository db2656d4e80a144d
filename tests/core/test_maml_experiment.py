"""Tests epg_tf.core.maml_experiment."""

from __future__ import annotations

import pytest

from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.core.errors import ConfigError
from epg_tf.runs.config_files import load_experiment, read_experiment
from epg_tf.tasks.registry import make_family


def test_settings_survive_a_mapping():
    experiment = MAMLExperiment.from_mapping({"adaptation": {"steps": 3}, "outer": {"tasks": 5}})
    assert MAMLExperiment.from_mapping(experiment.to_mapping()) == experiment
    assert read_experiment(experiment.to_mapping()) == experiment
    assert experiment.iteration_steps == 5 * 4 * 2048


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"adaptation": {"env_steps": 49}}, "env_steps=49 is below config.task.episode_limit=50"),
        ({"adaptation": {"learning_rate": 0.0}}, "config.adaptation.learning_rate=0.0 must be"),
        ({"outer": {"clipping": 1}}, "clipping"),
    ],
)
def test_unusable_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        MAMLExperiment.from_mapping(settings)


@pytest.mark.parametrize(
    ("name", "epg"),
    [
        ("maml_half_cheetah", "directional_half_cheetah:laptop"),
        ("maml_half_cheetah:paper", "directional_half_cheetah:paper"),
        ("maml_goal_ant", "goal_ant:laptop_right_half"),
    ],
)
def test_configs_have_the_task_policy_and_life_of_the_loss_they_are_compared_with(name, epg):
    mine, its = load_experiment(name), load_experiment(epg)
    assert isinstance(mine, MAMLExperiment)
    assert (mine.task, mine.policy) == (its.task, its.policy)
    assert mine.adaptation.env_steps == its.life_steps


def test_the_papers_ant_has_steps_on_8192_env_steps_and_sees_goals_in_front():
    paper = load_experiment("maml_goal_ant:paper")
    assert paper.adaptation.env_steps == 8192 and paper.task.range == "training"
    assert make_family(paper.task).episode_limit == 1000
