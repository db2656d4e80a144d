"""Tests the settings of EPG, MetaGenRL, MAML and RL²: what cannot work is refused in one clear
line, and the defaults of MetaGenRL are the paper's.
"""

from __future__ import annotations

import dataclasses
import json

import pytest
from ml_collections import ConfigDict

from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import ConfigError
from epg_tf.epg.baseline_settings import BASELINES
from epg_tf.epg.settings import Experiment
from epg_tf.losses.lstm_objective import parameter_count
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs.config_files import SYSTEMS, read_experiment
from epg_tf.tasks.registry import FAMILIES, make_family
from epg_tf.tasks.settings import TaskConfig

CHANGES = [
    (
        Experiment,
        {
            "task": {"family": "random_hopper", "range": "nominal"},
            "policy": {"hidden": [8, 8, 8], "log_std": -2},
            "loss": {"reward": True, "widths": (4, 2)},
            "evolution": {"sigma": 1, "lives": 128},
        },
    ),
    (MetaGenRLExperiment, {"agents": 4, "agent": {"tau": 1}}),
    (MAMLExperiment, {"adaptation": {"steps": 3}, "outer": {"tasks": 5}}),
    (RL2Experiment, {"trial": {"episodes": 3, "exploratory_episodes": 1}}),
]


@pytest.mark.parametrize(("system", "changes"), CHANGES)
def test_settings_survive_files_and_name_their_system(system, changes):
    """In files tuples are lists."""
    assert system.from_mapping({}) == system()
    for made in (system(), system.from_mapping(changes)):
        saved = json.loads(json.dumps(made.to_mapping()))
        assert read_experiment(saved) == made and hash(made)
    assert made != system() and type(made) in SYSTEMS.values()


@pytest.mark.parametrize("system", SYSTEMS.values())
def test_every_setting_can_be_given_as_a_flag(system):
    """A ConfigDict's own methods hide fields of their names from the flags."""
    names = {name for row in system.describe() for name in row.name.split(".")[1:]}
    assert len(names) > 20 and not [name for name in names if hasattr(ConfigDict, name)]


@pytest.mark.parametrize("system", SYSTEMS.values())
def test_every_string_but_those_of_tasks_is_one_of_a_list(system):
    """Families and ranges are checked by the registry, which knows them."""
    free = {row.name for row in system.describe() if "str" in row.type and not row.bounds}
    assert free <= {
        *(f"config.{name}" for name in ("task.family", "task.range", "environments")),
        *(f"config.{name}" for name in ("validation.environments", "mix.families")),
        "config.loss.channels",
    }


@pytest.mark.parametrize(
    "values",
    [
        {"loss": {"memory_units": 0}},
        {"loss": {"leaky_slope": 0.0}},
        {"surrogate": {"discount": 0, "gae_lambda": 1}},
        {"evolution": {"guidance_epochs": 0, "learning_rate_epochs": 0, "validation_period": 0}},
        {"evolution": {"guidance": 0.0, "final_guidance": 1.0, "l2": 0.0}},
        {"inner": {"learning_rate": 0.0}},
        {"inner": {"update_period": 512}},
        {"inner": {"update_period": 32, "minibatch": 32}},
        {"evolution": {"antithetic": True, "common_random_numbers": True}},
        {"evolution": {"noise_vectors": 2, "lives": 2, "antithetic": True}},
        {"loss": {"buffer_steps": 64, "widths": (64, 1)}},  # the shortest that these can do with
        {"policy": {"hidden": ()}},
    ],
    ids=str,
)
def test_the_edge_of_what_is_allowed(values):
    (group, fields), usual = *values.items(), Experiment().to_mapping()
    assert Experiment.from_mapping(values).to_mapping()[group] == {**usual[group], **fields}


def test_noise_and_rates_of_metagenrl_may_be_zero():
    names = ("target_policy_noise", "target_policy_noise_clip", "exploration", "discount")
    agent = dict.fromkeys((*names, "policy_learning_rate"), 0)
    meta = {"learning_rate": 0, "virtual_learning_rate": 0, "warm_up_steps": 0}
    made = MetaGenRLExperiment.from_mapping({"agent": agent, "meta": meta, "steps_per_agent": 0})
    assert made.agent.target_policy_noise == 0.0 and made.rounds == 0


# group, its fields, and what the message must contain after "config.GROUP.": field, value, remedy
REFUSED_OF_EPG = [
    ("policy", {"log_deviation": 0.0}, ("log_deviation", "called log_std now")),
    ("distillation", {"rounds": 0}, ("", "no longer has it")),
    ("policy", {"activation": "tahn"}, ("activation='tahn'", "'tanh'")),
    ("evolution", {"noise_vectors": 1}, ("noise_vectors=1", "at least 2")),
    ("evolution", {"guidance": 10**400}, ("guidance=1000", "at most 1")),
    ("loss", {"factors": 4}, ("factors=4", "[1, 2, 3]")),
    ("reinforce", {"gae_lambda": 0.9}, ("gae_lambda is not a setting",)),
    # What must fit together.
    ("evolution", {"final_sigma": 0.02}, ("final_sigma=0.02", "evolution.sigma=0.01", "or 0")),
    (
        "evolution",
        {"final_sigma": 0.001, "learning_rate_epochs": 0},
        ("final_sigma=0.001", "set config.evolution.learning_rate_epochs"),
    ),
    (
        "evolution",
        {"fitness": "rank_in_pair", "antithetic": True},
        ("fitness='rank_in_pair'", "common_random_numbers=True"),
    ),
    ("past", {"share": 0.3}, ("share=0.3", "config.past.policies")),
    ("evolution", {"shortest_life": 129}, ("shortest_life=129", "config.inner.updates=128")),
    ("evolution", {"longest_life": 129}, ("longest_life=129", "config.inner.updates=128")),
    (
        "evolution",
        {"shortest_life": 5, "longest_life": 4},
        ("shortest_life=5", "config.evolution.longest_life=4"),
    ),
    ("inner", {"minibatch": 128}, ("minibatch=128", "inner.update_period=64", "divisor")),
    ("inner", {"updates": 0}, ("updates=0", "moves='initialisation'")),
    ("loss", {"buffer_steps": 63}, ("buffer_steps=63", "inner.update_period=64", "N >= M")),
    ("loss", {"buffer_steps": 64, "widths": (64, 2)}, ("buffer_steps=64", "(64, 2)", "lengthen")),
    ("loss", {"buffer_steps": 64, "widths": (65, 1)}, ("buffer_steps=64", "(65, 1)", "lengthen")),
    ("loss", {"strides": (512, 1)}, ("buffer_steps=512", "(512, 1)", "lengthen")),
    (
        "loss",
        {"start": "policy_gradient", "reward": True, "products": 3, "factors": 1},
        ("factors=1", "config.loss.factors=2 or 3"),
    ),
    ("loss", {"start": "correlating"}, ("start='correlating'", "config.loss.reward=True")),
    (
        "loss",
        {"start": "correlating", "reward": True, "filters": (3, 2)},
        ("config.loss.filters=(3, 2)", "too few"),
    ),
    ("evolution", {"noise_vectors": 48}, ("noise_vectors=48", "lives=256", "equally many")),
    (
        "evolution",
        {"lives": 255, "noise_vectors": 51, "antithetic": True},
        ("noise_vectors=51", "even", "antithetic"),
    ),
    (
        "evolution",
        {"common_random_numbers": True},
        ("common_random_numbers=True", "config.evolution.antithetic=True"),
    ),
]
REFUSED = [
    *((Experiment, {group: fields}, parts) for group, fields, parts in REFUSED_OF_EPG),
    (Experiment, {"losss": {}}, ("config.losss", "'loss'", "'evolution'")),
    (
        Experiment,
        {
            "evolution": {"fitness_from": "whole_life", "shortest_life": 1},
            "task": {"episode_limit": 65},
        },
        ("fitness_from='whole_life'", "64 env steps", "config.task.episode_limit=65"),
    ),
    *(
        (MetaGenRLExperiment, changes, (part,))
        for changes, part in (
            ({"agent": {"policy_delay": 3}}, "is no multiple of config.agent.policy_delay=3"),
            ({"agent": {"random_steps": 1500}}, "config.agent.random_steps=1500 is no multiple"),
            ({"agent": {"replay_steps": 10}}, "replay_steps=10 is below config.round_steps=1000"),
            ({"agent": {"tau": 0}}, "config.agent.tau=0 must be above 0"),
            ({"agent": {"clip": 1001}}, "config.agent.clip=1001 must be at most 1000"),
            ({"objective": {"value_inputs": 3}}, "objective.value_inputs=3 must be at most 2"),
            ({"objective": {"action_filters": 1}}, "action_filters=1 must be at least 2"),
            ({"baseline": {"minibatch": 33}}, "config.baseline.minibatch=33 does not divide"),
            ({"environments": ()}, "cannot be distributed equally"),
            ({"environments": ("a", "b", "c")}, "cannot be distributed equally"),
            ({"environments": ("a", "a")}, "names one twice"),
            ({"steps_per_agent": 1500}, "consists of whole rounds"),
            ({"steps_per_agent": "many"}, "config.steps_per_agent='many' must be a whole number"),
            (
                {"steps_per_agent": 10_000},
                "steps_per_agent=10000 are 10000 env steps, not more than",
            ),
            ({"life_rounds": 10}, "life_rounds=10 are 10000 env steps, not more than"),
            (
                {"agent": {"random_steps": 0, "updates_after": 10**6}},
                "steps_per_agent=1000000 are 1000000 env steps, not more than",
            ),
            ({"meta": {"final_learning_rate": 1e-4}}, "final_learning_rate=0.0001 needs rounds"),
            ({"validation": {"patience": 1}}, "config.validation.patience is not a setting"),
        )
    ),
    (
        MAMLExperiment,
        {"adaptation": {"env_steps": 49}},
        ("env_steps=49 is below config.task.episode_limit=50",),
    ),
    (RL2Experiment, {"trial": {"exploratory_episodes": 2}}, ("leaves no episode",)),
    (RL2Experiment, {"ppo": {"minibatches": 3}}, ("minibatches=3 does not divide config.trials",)),
]


@pytest.mark.parametrize(("system", "changes", "parts"), REFUSED)
def test_what_cannot_work_is_refused_in_one_line(system, changes, parts):
    with pytest.raises(ConfigError) as caught:
        system.from_mapping(changes)
    message = str(caught.value)
    assert "\n" not in message and "config." in message
    assert all(part in message for part in parts), message


def test_settings_made_by_hand_can_be_checked():
    made = Experiment()
    made.check()
    with pytest.raises(ConfigError, match="episode_limit"):
        dataclasses.replace(made, task=TaskConfig(episode_limit=0)).check()


def test_files_from_before_baselines_and_mixes_are_read():
    old = {
        name: values
        for name, values in Experiment().to_mapping().items()
        if name not in (*BASELINES, "mix", "past")
    }
    assert len(old) == 7 and Experiment.from_mapping(old) == Experiment()


def test_an_unknown_family_is_refused_by_the_registry():
    with pytest.raises(ConfigError) as caught:
        make_family(TaskConfig(family="pointgoal"))
    message = str(caught.value)
    assert "\n" not in message and "config.task.family='pointgoal'" in message
    assert all(name in message for name in FAMILIES)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_registry_passes_the_settings_on(name):
    family = make_family(TaskConfig(family=name, frame_skip=3, episode_limit=17, range="nominal"))
    assert isinstance(family, FAMILIES[name])
    assert (family.frame_skip, family.episode_limit, family.task_range) == (3, 17, "nominal")


def test_defaults_of_metagenrl_are_the_papers():
    """Tables 3 and 4, Appendix B.2."""
    made, rate = MetaGenRLExperiment(), 1e-3
    expected = {
        "": {"agents": 20, "steps_per_agent": 1_000_000},
        "agent": {
            "hidden": (350, 350),
            "batch": 100,
            "chunk": 20,
            "clip": 1.0,
            "critic_learning_rate": rate,
            "policy_learning_rate": rate,
            "target_policy_noise": 0.2,
            "target_policy_noise_clip": 0.5,
            "tau": 0.005,
            "discount": 0.99,
            "random_steps": 10_000,
            "exploration": 0.1,
            "policy_delay": 2,
        },
        "objective": {"lstm_units": 32, "action_layers": 3, "action_filters": 32, "bound": 1000.0},
        "meta": {
            "learning_rate": rate,
            "virtual_learning_rate": rate,
            "virtual_steps": 1,
            "warm_up": "ddpg",
            "warm_up_steps": 10_000,
        },
    }
    for group, fields in expected.items():
        found = made.to_mapping()[group] if group else made.to_mapping()
        assert {name: found[name] for name in fields} == fields
    layers = 2 * 32 + 32 + 2 * (32 * 32 + 32)
    assert parameter_count(made.objective) == layers + (36 + 32) * 128 + 128 + 32 + 1
