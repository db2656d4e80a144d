"""Tests epg_tf.core.experiment: what is accepted, and that what is refused is refused in one clear
line.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.epg.baseline_settings import RIVALS
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.registry import FAMILIES, make_family
from epg_tf.tasks.settings import TaskConfig


def test_defaults_survive_the_round_trip():
    assert Experiment.from_mapping({}) == Experiment()
    assert Experiment.from_mapping(Experiment().to_mapping()) == Experiment()
    assert (
        Experiment.from_mapping(json.loads(json.dumps(Experiment().to_mapping()))) == Experiment()
    )  # tuples become lists


def test_settings_survive_the_round_trip():
    experiment = Experiment.from_mapping(
        {
            "task": {"family": "random_hopper", "range": "nominal"},
            "policy": {"hidden": [8, 8, 8]},
            "loss": {"reward": True, "widths": (4, 2)},
            "evolution": {"sigma": 0.5, "lives": 128},
        }
    )
    assert experiment.task.family == "random_hopper" and experiment.task.range == "nominal"
    assert experiment.policy.hidden == (8, 8, 8) and experiment.loss.widths == (4, 2)
    assert (
        experiment.evolution.sigma == 0.5
        and experiment.evolution.epochs == Experiment().evolution.epochs
    )
    assert Experiment.from_mapping(experiment.to_mapping()) == experiment


def test_ints_do_for_floats_and_lists_for_tuples():
    experiment = Experiment.from_mapping(
        {"evolution": {"sigma": 1}, "policy": {"log_std": -2}, "loss": {"strides": [3, 1]}}
    )
    assert type(experiment.evolution.sigma) is float and experiment.evolution.sigma == 1.0
    assert type(experiment.policy.log_std) is float and experiment.policy.log_std == -2.0
    assert experiment.loss.strides == (3, 1) and hash(experiment)


@pytest.mark.parametrize(
    ("group", "values"),
    [
        ("loss", {"memory_units": 0}),
        ("loss", {"leaky_slope": 0.0}),
        ("surrogate", {"discount": 0, "gae_lambda": 1}),
        (
            "evolution",
            {"guidance_epochs": 0, "learning_rate_epochs": 0, "validation_period": 0, "l2": 0.0},
        ),
        ("evolution", {"guidance": 0.0, "final_guidance": 1.0}),
        ("inner", {"learning_rate": 0.0}),
        ("inner", {"update_period": 512}),
        ("inner", {"update_period": 32, "minibatch": 32}),
        ("evolution", {"antithetic": True, "common_random_numbers": True}),
        ("evolution", {"noise_vectors": 2, "lives": 2, "antithetic": True}),
        ("compute", {"threads": 0}),
        (
            "loss",
            {"buffer_steps": 64, "widths": (64, 1)},
        ),  # the shortest buffer these convolutions can do with
        ("policy", {"hidden": ()}),
        ("surrogate", {"kind": "reinforce"}),
        ("loss", {"pooling": "mean"}),
    ],
)
def test_the_edge_of_what_is_allowed(group, values):
    assert Experiment.from_mapping({group: values}).to_mapping()[group] == {
        **Experiment().to_mapping()[group],
        **values,
    }


# (mapping, what the message must contain: field, value, remedy)
REFUSED: list[Any] = [
    # Names.
    ({"losss": {}}, ("config.losss", "'loss'", "'evolution'")),
    ({"loss": {"reward_": True}}, ("config.loss.reward_", "'reward'")),
    ({"inner": {"sigma": 0.1}}, ("config.inner.sigma", "'updates'")),
    ({"loss": None}, ("config.loss=None", "config.loss.FIELD=VALUE")),
    ({"loss": 3}, ("config.loss=3", "config.loss.FIELD=VALUE")),
    ({"loss": [("reward", True)]}, ("config.loss=[", "config.loss.FIELD=VALUE")),
    ({"policy": {"log_deviation": 0.0}}, ("config.policy.log_deviation", "called log_std now")),
    ({"distillation": {"rounds": 0}}, ("config.distillation", "no longer has it")),
    (3, ("config=3", "not a group")),
    # Types.
    ({"inner": {"updates": 3.0}}, ("config.inner.updates=3.0", "int")),
    ({"inner": {"updates": True}}, ("config.inner.updates=True", "int")),
    ({"inner": {"updates": "3"}}, ("config.inner.updates='3'", "int")),
    ({"inner": {"updates": None}}, ("config.inner.updates=None", "int")),
    ({"evolution": {"sigma": "0.1"}}, ("config.evolution.sigma='0.1'", "float")),
    ({"evolution": {"sigma": True}}, ("config.evolution.sigma=True", "float")),
    ({"loss": {"reward": 1}}, ("config.loss.reward=1", "bool")),
    ({"loss": {"reward": "False"}}, ("config.loss.reward='False'", "bool")),
    ({"task": {"family": 1}}, ("config.task.family=1", "str")),
    ({"loss": {"pooling": ["mean"]}}, ("config.loss.pooling=['mean']", "'flatten'")),
    ({"policy": {"hidden": 64}}, ("config.policy.hidden=64", "tuple", "int")),
    ({"policy": {"hidden": "64"}}, ("config.policy.hidden='64'", "tuple", "int")),
    ({"policy": {"hidden": (64, 64.0)}}, ("config.policy.hidden[1]=64.0", "int")),
    ({"policy": {"hidden": (64, True)}}, ("config.policy.hidden[1]=True", "int")),
    ({"loss": {"widths": (8,)}}, ("config.loss.widths=(8,)", "2")),
    ({"loss": {"widths": (8, 4, 2)}}, ("config.loss.widths=(8, 4, 2)", "2")),
    ({"loss": {"strides": ()}}, ("config.loss.strides=()", "2")),
    # Ranges.
    ({"evolution": {"sigma": float("nan")}}, ("config.evolution.sigma=nan", "finite")),
    ({"evolution": {"sigma": float("inf")}}, ("config.evolution.sigma=inf", "finite")),
    ({"evolution": {"sigma": 10**400}}, ("config.evolution.sigma=1000", "too large")),
    ({"evolution": {"guidance": 10**400}}, ("config.evolution.guidance=1000", "at most 1")),
    ({"loss": {"leaky_slope": float("nan")}}, ("config.loss.leaky_slope=nan", "finite")),
    ({"loss": {"buffer_steps": 10**12}}, ("config.loss.buffer_steps=1000", "too large")),
    ({"policy": {"log_std": float("-inf")}}, ("config.policy.log_std=-inf", "finite")),
    ({"evolution": {"sigma": 0.0}}, ("config.evolution.sigma=0.0", "above 0")),
    ({"evolution": {"sigma": -0.1}}, ("config.evolution.sigma=-0.1", "above 0")),
    (
        {"evolution": {"sigma": 0.01, "final_sigma": 0.02}},
        ("config.evolution.final_sigma=0.02", "config.evolution.sigma=0.01", "or 0"),
    ),
    (
        {"evolution": {"final_sigma": 0.001, "learning_rate_epochs": 0}},
        ("config.evolution.final_sigma=0.001", "set config.evolution.learning_rate_epochs"),
    ),
    ({"evolution": {"epochs": 0}}, ("config.evolution.epochs=0", "at least 1")),
    ({"evolution": {"l2": -1e-9}}, ("config.evolution.l2=-1e-09", "at least 0")),
    ({"evolution": {"guidance": 1.01}}, ("config.evolution.guidance=1.01", "at most 1")),
    ({"evolution": {"guidance": -0.5}}, ("config.evolution.guidance=-0.5", "at least 0")),
    ({"evolution": {"final_guidance": 2}}, ("config.evolution.final_guidance=2", "at most 1")),
    ({"surrogate": {"discount": 1.5}}, ("config.surrogate.discount=1.5", "at most 1")),
    ({"surrogate": {"gae_lambda": 1.0001}}, ("config.surrogate.gae_lambda=1.0001", "at most 1")),
    ({"surrogate": {"clip": 0.0}}, ("config.surrogate.clip=0.0", "above 0")),
    ({"surrogate": {"baseline_epochs": 0}}, ("config.surrogate.baseline_epochs=0", "at least 1")),
    ({"task": {"frame_skip": 0}}, ("config.task.frame_skip=0", "at least 1")),
    ({"task": {"episode_limit": -1}}, ("config.task.episode_limit=-1", "at least 1")),
    ({"policy": {"hidden": (64, 0)}}, ("config.policy.hidden[1]=0", "at least 1")),
    ({"policy": {"output_scale": 0}}, ("config.policy.output_scale=0", "above 0")),
    ({"loss": {"widths": (0, 4)}}, ("config.loss.widths[0]=0", "at least 1")),
    ({"loss": {"strides": (7, 0)}}, ("config.loss.strides[1]=0", "at least 1")),
    ({"loss": {"filters": (-1, 10)}}, ("config.loss.filters[0]=-1", "at least 1")),
    ({"loss": {"memory_units": -1}}, ("config.loss.memory_units=-1", "at least 0")),
    ({"loss": {"memory_inputs": 0}}, ("config.loss.memory_inputs=0", "at least 1")),
    ({"loss": {"leaky_slope": 1.5}}, ("config.loss.leaky_slope=1.5", "at most 1")),
    ({"inner": {"minibatch": 0}}, ("config.inner.minibatch=0", "at least 1")),
    ({"inner": {"update_period": 0}}, ("config.inner.update_period=0", "at least 1")),
    ({"inner": {"learning_rate": -1e-3}}, ("config.inner.learning_rate=-0.001", "at least 0")),
    ({"inner": {"final_episodes": 0}}, ("config.inner.final_episodes=0", "at least 1")),
    ({"compute": {"threads": -1}}, ("config.compute.threads=-1", "at least 0")),
    ({"compute": {"threads": 1025}}, ("config.compute.threads=1025", "at most 1024")),
    ({"compute": {"shard_lives": 0}}, ("config.compute.shard_lives=0", "at least 1")),
    # Choices.
    ({"policy": {"activation": "tahn"}}, ("config.policy.activation='tahn'", "'tanh'")),
    ({"loss": {"pooling": "max"}}, ("config.loss.pooling='max'", "'flatten'", "'mean'")),
    ({"surrogate": {"kind": "PPO"}}, ("config.surrogate.kind='PPO'", "'ppo'", "'reinforce'")),
    ({"evolution": {"fitness": "ranks"}}, ("config.evolution.fitness='ranks'", "'rank'", "'raw'")),
    (
        {"evolution": {"fitness": "rank_in_pair", "antithetic": True}},
        ("fitness='rank_in_pair'", "common_random_numbers=True"),
    ),
    ({"past": {"share": 0.3}}, ("config.past.share=0.3", "config.past.policies")),
    (
        {"evolution": {"shortest_life": 129}},
        ("config.evolution.shortest_life=129", "config.inner.updates=128"),
    ),
    (
        {"evolution": {"longest_life": 129}},
        ("config.evolution.longest_life=129", "config.inner.updates=128"),
    ),
    (
        {"evolution": {"shortest_life": 5, "longest_life": 4}},
        ("config.evolution.shortest_life=5", "config.evolution.longest_life=4"),
    ),
    (
        {"evolution": {"fitness_from": "steps"}},
        ("config.evolution.fitness_from='steps'", "'last_episodes'"),
    ),
    (
        {
            "evolution": {"fitness_from": "whole_life", "shortest_life": 1},
            "task": {"episode_limit": 65},
        },
        ("fitness_from='whole_life'", "64 env steps", "config.task.episode_limit=65"),
    ),
    ({"evolution": {"fitness": "two\nlines"}}, ("config.evolution.fitness=", "'rank'")),
    # What must fit together.
    (
        {"inner": {"minibatch": 48}},
        ("config.inner.minibatch=48", "config.inner.update_period=64", "divisor"),
    ),
    (
        {"inner": {"minibatch": 128}},
        ("config.inner.minibatch=128", "config.inner.update_period=64", "divisor"),
    ),
    (
        {"loss": {"buffer_steps": 63}},
        ("config.loss.buffer_steps=63", "config.inner.update_period=64", "N >= M"),
    ),
    (
        {"loss": {"buffer_steps": 64, "widths": (64, 2)}},
        ("config.loss.buffer_steps=64", "(64, 2)", "lengthen"),
    ),
    (
        {"loss": {"buffer_steps": 64, "widths": (65, 1)}},
        ("config.loss.buffer_steps=64", "(65, 1)", "lengthen"),
    ),
    ({"loss": {"factors": 4}}, ("config.loss.factors=4", "[1, 2, 3]")),
    (
        {"loss": {"start": "policy_gradient", "reward": True, "products": 3, "factors": 1}},
        ("config.loss.factors=1", "config.loss.factors=2 or 3"),
    ),
    (
        {"loss": {"start": "correlating"}},
        ("config.loss.start='correlating'", "config.loss.reward=True"),
    ),
    (
        {"loss": {"start": "correlating", "reward": True, "filters": (3, 2)}},
        ("config.loss.filters=(3, 2)", "too few"),
    ),
    ({"loss": {"strides": (512, 1)}}, ("config.loss.buffer_steps=512", "(512, 1)", "lengthen")),
    (
        {"evolution": {"noise_vectors": 48}},
        ("config.evolution.noise_vectors=48", "config.evolution.lives=256", "equally many"),
    ),
    (
        {"evolution": {"noise_vectors": 512}},
        ("config.evolution.noise_vectors=512", "config.evolution.lives=256"),
    ),
    ({"evolution": {"noise_vectors": 1}}, ("config.evolution.noise_vectors=1", "at least 2")),
    (
        {"evolution": {"lives": 255, "noise_vectors": 51, "antithetic": True}},
        ("config.evolution.noise_vectors=51", "even", "antithetic"),
    ),
    (
        {"evolution": {"common_random_numbers": True}},
        ("config.evolution.common_random_numbers=True", "config.evolution.antithetic=True"),
    ),
]


@pytest.mark.parametrize(
    ("mapping", "parts"),
    REFUSED,
    ids=lambda value: f"{value!s:.60}" if isinstance(value, dict) else "",
)
def test_what_cannot_work_is_refused_in_one_line(mapping, parts):
    with pytest.raises(ConfigError) as caught:
        Experiment.from_mapping(mapping)
    message = str(caught.value)
    assert "\n" not in message and message
    assert all(part in message for part in parts), message


def test_every_number_has_a_lower_bound():
    """A new field of numbers is checked without anyone thinking of it; only log deviations and the
    target entropy may be negative.
    """
    any_sign = ("log_std", "log_std_limits", "target_entropy")
    for group, fields in Experiment().to_mapping().items():
        for name, value in fields.items():
            if isinstance(value, (bool, str)) or name in any_sign:
                continue
            bad = (-1,) * max(len(value), 1) if isinstance(value, tuple) else -1
            with pytest.raises(ConfigError, match=rf"^config\.{group}\.{name}(\[0\])?="):
                Experiment.from_mapping({group: {name: bad}})


def test_every_string_but_those_of_the_task_is_one_of_a_list():
    """The family's name and range are checked by the registry, which knows them."""
    for group, fields in Experiment().to_mapping().items():
        for name, value in fields.items():
            if isinstance(value, str) and group != "task":
                with pytest.raises(ConfigError, match=rf"^config\.{group}\.{name}='nonsense'"):
                    Experiment.from_mapping({group: {name: "nonsense"}})


def test_an_experiment_built_by_hand_can_be_validated():
    experiment = Experiment()
    experiment.check()
    with pytest.raises(ConfigError, match="episode_limit"):
        dataclasses.replace(experiment, task=TaskConfig(episode_limit=0)).check()


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Experiment().inner.updates = 1  # type: ignore[misc]


def test_derived_numbers():
    experiment = Experiment.from_mapping({"inner": {"updates": 5, "update_period": 64}})
    assert experiment.life_steps == 5 * 64


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


def test_settings_from_before_rivals_and_mixes_are_read():
    """Files of earlier versions lack their groups, which get defaults."""
    experiment = Experiment.from_mapping({"sac": {"batch": 7}, "ppo": {"update_period": 9}})
    old = {
        name: v
        for name, v in experiment.to_mapping().items()
        if name not in (*RIVALS, "mix", "past")
    }
    assert len(old) == 7 and Experiment.from_mapping(old) == Experiment()
    assert (
        experiment.sac.batch == 7 and Experiment.from_mapping(experiment.to_mapping()) == experiment
    )
    with pytest.raises(ConfigError, match="^config.reinforce.gae_lambda is not a setting"):
        Experiment.from_mapping({"reinforce": {"gae_lambda": 0.9}})
