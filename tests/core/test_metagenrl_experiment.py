"""Tests epg_tf.core.metagenrl_experiment: the paper's numbers, and what is refused."""

from __future__ import annotations

import pytest
from ml_collections import ConfigDict

from configs import (
    metagenrl_bodies,
    metagenrl_laptop,
    metagenrl_night,
    metagenrl_paper,
    metagenrl_small,
)
from epg_tf.core.errors import ConfigError
from epg_tf.losses.lstm_objective import parameter_count
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.metagenrl.shard_plans import plan_shards
from epg_tf.tasks.registry import named_environment


def test_defaults_are_the_papers():
    """Tables 3 and 4, Appendix B.2."""
    experiment = MetaGenRLExperiment()
    agent, meta, objective = experiment.agent, experiment.meta, experiment.objective
    assert (experiment.agents, experiment.steps_per_agent) == (20, 1_000_000)
    assert (agent.hidden, agent.batch, agent.chunk, agent.clip) == ((350, 350), 100, 20, 1.0)
    assert {
        agent.critic_learning_rate,
        agent.policy_learning_rate,
        meta.virtual_learning_rate,
        meta.learning_rate,
    } == {1e-3}
    assert (
        agent.target_policy_noise,
        agent.target_policy_noise_clip,
        agent.tau,
        agent.discount,
    ) == (0.2, 0.5, 0.005, 0.99)
    assert (agent.random_steps, agent.exploration, agent.policy_delay) == (10_000, 0.1, 2)
    assert (
        objective.lstm_units,
        objective.action_layers,
        objective.action_filters,
        objective.bound,
    ) == (32, 3, 32, 1000.0)
    assert (meta.virtual_steps, meta.warm_up, meta.warm_up_steps) == (1, "ddpg", 10_000)
    assert (
        parameter_count(objective)
        == 2 * 32 + 32 + 2 * (32 * 32 + 32) + (36 + 32) * 128 + 128 + 32 + 1
    )


def test_every_setting_can_be_given_as_a_flag():
    """A ConfigDict's own methods hide fields of their names from the flags."""
    mapping = MetaGenRLExperiment().to_mapping()
    names = {
        *mapping,
        *(name for group in mapping.values() if isinstance(group, dict) for name in group),
    }
    assert len(names) > 40 and not [name for name in names if hasattr(ConfigDict, name)]


@pytest.mark.parametrize(
    "names", ["lunar", "hopper", "cheetah_lunar", "cheetah_hopper", "hopper_lunar"]
)
def test_every_training_set_of_table_2(names):
    experiment = MetaGenRLExperiment.from_mapping(metagenrl_paper.get_config(names).to_dict())
    assert len(experiment.environments) == len(names.split("_"))
    assert sum(plan.last - plan.first for plan in plan_shards(experiment)) == 20


def test_noise_and_rates_may_be_zero():
    agent = {
        "target_policy_noise": 0,
        "target_policy_noise_clip": 0,
        "exploration": 0,
        "policy_learning_rate": 0,
        "discount": 0,
    }
    meta = {"learning_rate": 0, "virtual_learning_rate": 0, "warm_up_steps": 0}
    made = MetaGenRLExperiment.from_mapping({"agent": agent, "meta": meta, "steps_per_agent": 0})
    assert made.agent.target_policy_noise == 0.0 and made.rounds == 0


def test_an_unknown_training_set_is_named():
    with pytest.raises(ConfigError, match="'walker'; join some of"):
        metagenrl_paper.get_config("hopper_walker")


def test_a_night_has_tests_in_the_bodies_that_training_leaves_out():
    made = MetaGenRLExperiment.from_mapping(metagenrl_night.get_config("hopper_walker").to_dict())
    assert made.environments == ("hopper", "walker2d")
    assert made.validation.environments == ("half_cheetah",)
    assert made.rounds == 96 == made.meta.learning_rate_rounds
    assert made.rounds % made.life_rounds == made.rounds % made.validation.period == 0
    assert [(plan.first, plan.last) for plan in plan_shards(made)] == [(0, 8), (8, 16)]
    bodies = MetaGenRLExperiment.from_mapping(
        metagenrl_bodies.get_config("hopper_walker").to_dict()
    )
    assert made.objective == bodies.objective and made.agent == bodies.agent
    assert (bodies.meta.virtual_steps, made.meta.virtual_steps) == (1, 3)
    assert made.validation.env_steps == 8000
    with pytest.raises(ConfigError, match="night:hopper_ant names 'ant'; write small, or join"):
        metagenrl_night.get_config("hopper_ant")


def test_bodies_have_six_agents_in_each_and_a_test_in_those_left_out():
    made = MetaGenRLExperiment.from_mapping(metagenrl_bodies.get_config().to_dict())
    small = MetaGenRLExperiment.from_mapping(metagenrl_small.get_config().to_dict())
    assert made.environments == ("hopper", "half_cheetah")
    assert made.validation.environments == ("walker2d",)
    assert [(plan.first, plan.last) for plan in plan_shards(made)] == [(0, 6), (6, 12)]
    assert made.rounds == 64 == made.meta.learning_rate_rounds
    assert made.rounds % made.life_rounds == made.rounds % made.validation.period == 0
    assert made.objective == small.objective and made.agent.hidden == small.agent.hidden
    with pytest.raises(ConfigError, match="bodies:hopper_ant names 'ant'; join some of"):
        metagenrl_bodies.get_config("hopper_ant")


def test_a_night_of_the_small_set_is_a_longer_one_with_three_virtual_steps():
    night = MetaGenRLExperiment.from_mapping(metagenrl_night.get_config().to_dict())
    small = MetaGenRLExperiment.from_mapping(metagenrl_small.get_config().to_dict())
    assert night.environments == small.environments and night.agent == small.agent
    assert night.rounds == 80 == night.meta.learning_rate_rounds
    assert night.rounds % night.life_rounds == night.rounds % night.validation.period == 0
    assert (small.meta.virtual_steps, night.meta.virtual_steps) == (1, 3)
    assert night.objective == small.objective


def test_the_laptop_config_is_valid():
    experiment = MetaGenRLExperiment.from_mapping(metagenrl_laptop.get_config().to_dict())
    assert experiment.rounds == 24
    assert MetaGenRLExperiment.from_mapping(experiment.to_mapping()) == experiment


def test_the_small_set_has_six_agents_in_each_of_four_environments():
    experiment = MetaGenRLExperiment.from_mapping(metagenrl_small.get_config().to_dict())
    assert experiment.rounds == 32 and experiment.agent.scale_rewards
    assert [(plan.first, plan.last) for plan in plan_shards(experiment)] == [
        (0, 6),
        (6, 12),
        (12, 18),
        (18, 24),
    ]
    specs = [named_environment(name).spec for name in experiment.environments]
    assert [(spec.observation_size, spec.action_size) for spec in specs] == [
        (6, 2),
        (3, 1),
        (4, 1),
        (10, 2),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": 0}, "config.agents=0 must be at least 1"),
        ({"agent": {"batch": -1}}, "config.agent.batch=-1 must be at least 1"),
        (
            {"agent": {"policy_delay": 3}},
            "config.round_steps=1000 is no multiple of config.agent.policy_delay=3",
        ),
        ({"agent": {"random_steps": 1500}}, "config.agent.random_steps=1500 is no multiple"),
        (
            {"agent": {"replay_steps": 10}},
            "config.agent.replay_steps=10 is below config.round_steps=1000",
        ),
        ({"agent": {"discount": 1.5}}, "config.agent.discount=1.5 must be at most 1"),
        ({"objective": {"value_inputs": 3}}, "config.objective.value_inputs=3 must be at most 2"),
        (
            {"objective": {"action_filters": 1}},
            "config.objective.action_filters=1 must be at least 2",
        ),
        ({"meta": {"warm_up": "none"}}, "config.meta.warm_up='none' is unknown"),
        ({"baseline": {"minibatch": 33}}, "config.baseline.minibatch=33 does not divide"),
        ({"environments": ()}, "cannot be distributed equally"),
        ({"environments": ("a", "b", "c")}, "cannot be distributed equally"),
        ({"steps_per_agent": 1500}, "consists of whole rounds"),
        ({"nothing": 1}, "config.nothing is not a setting of MetaGenRL"),
        ({"meta": {"equal_say": True}}, "it is called normalize_agent_gradients now"),
        ({"agent": {"tau": 0}}, "config.agent.tau=0 must be above 0"),
        ({"agent": {"clip": 1001}}, "config.agent.clip=1001 must be at most 1000"),
        ({"environments": ("a", "a")}, "names one twice"),
        ({"agent": {"nothing": 1}}, "config.agent.nothing is not a setting"),
        ({"agent": 3}, "config.agent=3 is not a group"),
        ({"steps_per_agent": "many"}, "config.steps_per_agent='many' must be of type int"),
    ],
)
def test_refuses(changes, message):
    with pytest.raises(ConfigError) as caught:
        MetaGenRLExperiment.from_mapping(changes)
    assert message in str(caught.value)
