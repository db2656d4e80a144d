"""Tests epg_tf.artifacts.exported and epg_tf.artifacts.export: an exported loss answers as the
package's own does; test_export_objective.py has what is of objectives alone.
"""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

import epg_tf
from epg_tf.artifacts import export, saved_models
from epg_tf.artifacts.artifact import LearnedLoss, interface
from epg_tf.artifacts.description import channels_of, describe
from epg_tf.artifacts.exported import loss_inputs
from epg_tf.core.errors import RecordError
from epg_tf.core.parameters import parameter_count
from epg_tf.epg.meta_parameters import divided, initial_phi, initial_policy
from epg_tf.losses.parameter_shapes import parameter_shapes
from epg_tf.losses.shared_conv import learned_loss
from epg_tf.tasks import registry
from tests.tasks.families import Choices

P, M = 3, 8
STEPS = np.array([[7, 0, 3], [1, 2, 6], [5, 5, 4]], np.int32)


@pytest.fixture
def make_learned(make_tiny, monkeypatch):
    """A function: settings by group -> a learned loss with a random phi, biases included."""
    monkeypatch.setitem(registry.FAMILIES, "choices", Choices)

    def make(**changes) -> LearnedLoss:
        experiment = make_tiny(**changes)
        channels = channels_of(interface(experiment))
        size = parameter_count(parameter_shapes(channels, experiment.loss))
        phi = 0.4 * np.random.default_rng(0).standard_normal(size).astype(np.float32)
        return LearnedLoss(phi, experiment, {"seed": 0})

    return make


@pytest.fixture
def asked(make_agent, make_experience):
    """A function: a learned loss -> inputs for its export, and what the package finds for the same
    agents.

    The latter are losses [P] and gradients by input name, through policies whose answers are
    nudged.
    """

    def ask(learned):
        experiment = learned.experiment
        known = interface(experiment)
        sizes = known["observation_size"], known["action_size"]
        agent = make_agent(experiment, P, *sizes, discrete=known["discrete_actions"])
        experience = make_experience(P, experiment.loss.buffer_steps, M, *sizes)
        own = learned_loss(P, channels_of(known), experiment.loss, M)
        own.load(np.repeat(learned.phi[None], P, axis=0))
        policy, memory = agent.policy, agent.memory_output()
        seen = policy.loss_input(experience.observation)
        if known["discrete_actions"]:
            moved = {"policy_probability": seen}
        elif experiment.policy.state_dependent_std:
            moved = dict(zip(("policy_mean", "policy_log_std"), tf.split(seen, 2, 2), strict=True))
        else:
            moved = {"policy_mean": seen, "policy_log_std": policy.shared_output}
        moved |= {} if memory is None else {"memory": memory}
        if experiment.loss.products and "log_prob" not in experiment.loss.without:
            newest = policy(experience.observation[:, -M:])
            found = policy.log_prob_from(newest, policy.shared_output, experience.raw_action)
            older = [[0, 0], [experiment.loss.buffer_steps - M, 0], [0, 0]]
            moved["policy_log_prob"] = tf.pad(found, older, constant_values=np.nan)
        widths = {channel.name: channel.width for channel in own.network.channels}
        extra = {
            name: tf.repeat(experience.reward + number, widths[name], axis=2)
            for number, name in enumerate(experiment.loss.channels, 1)
        }
        experience = experience._replace(extra=extra)
        inputs = {**experience._asdict(), **extra, **moved, "minibatch": tf.constant(STEPS)}
        return (
            {name: inputs[name] for name in loss_inputs(own.network.channels, experiment.loss)},
            own.minibatch_loss(agent, own.prepare(agent, experience), tf.constant(STEPS)).numpy(),
            list(moved),
        )

    return ask


CHOICES = {"family": "choices"}
SETTINGS = [
    {},
    {"loss": {"reward": True, "pooling": "mean"}},
    {"task": CHOICES, "loss": {"memory_units": 0}},
    {"loss": {"products": 3, "channels": ("future_reward", "novelty")}},
    {
        "loss": {
            "products": 3,
            "factors": 1,
            "channels": ("observation_as_it_is",),
            "without": ("log_prob", "termination"),
        }
    },
    {"policy": {"state_dependent_std": True}, "loss": {"products": 3}},
    {"loss": {"products": 3, "reward": True, "shared_over_actions": True}},
    {"task": CHOICES, "loss": {"products": 3}},
    {"loss": {"memory_units": 0}},
    {"loss": {"mean_limit": 0.1, "log_std_limits": (0.5, 1.0), "products": 3}},
    {"task": CHOICES},
]


@pytest.mark.slow
@pytest.mark.parametrize("changes", SETTINGS)
def test_an_exported_loss_and_its_gradients_are_the_packages_own(
    make_learned, asked, tmp_path, changes
):
    """The losses of P agents of the package; gradients by the tape, by the signature and by finite
    differences.
    """
    learned = make_learned(**changes)
    inputs, expected, moved = asked(learned)
    export.export(learned, tmp_path, "card")
    loaded = tf.saved_model.load(str(tmp_path))
    given = {name: inputs[name] for name in moved}
    with tf.GradientTape() as tape:
        tape.watch(given)
        found = loaded.loss(inputs | given)
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose(
        found["loss"], expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max()
    )
    np.testing.assert_allclose(np.mean(found["per_step"], axis=1), expected, rtol=1e-5)
    by_tape = tape.gradient(found["loss"], given)
    by_name = loaded.signatures["gradients"](**inputs)
    generator = np.random.default_rng(1)
    for name in moved:
        assert np.abs(by_tape[name]).max() > 1e-4
        np.testing.assert_allclose(
            by_name[name], by_tape[name], rtol=1e-6, atol=1e-6 * np.abs(by_tape[name]).max()
        )
        direction = generator.standard_normal(inputs[name].shape).astype(np.float32)
        ends = [
            float(
                tf.reduce_sum(
                    loaded.loss(inputs | {name: inputs[name] + side * 1e-3 * direction})["loss"]
                )
            )
            for side in (-1, 1)
        ]
        assert (ends[1] - ends[0]) / 2e-3 == pytest.approx(
            np.sum(direction * by_tape[name]), rel=0.05, abs=0.02
        )


def test_agents_do_not_meet(make_learned, asked):
    """NaN in one agent's rows changes no bit of another's loss and gradients; P is free."""
    learned = make_learned()
    inputs, _, moved = asked(learned)
    module, _ = export.exported_module(learned)
    poison = {name: value.numpy() for name, value in inputs.items()}
    poison["observation"][1] = np.nan
    well, ill = (module.gradients(given) | module.loss(given) for given in (inputs, poison))
    alone = module.loss({name: value[:1] for name, value in inputs.items()})
    assert np.isnan(ill["per_step"][1]).all()
    for name in [*moved, "per_step"]:
        for life in (0, 2):
            assert well[name][life].numpy().tobytes() == ill[name][life].numpy().tobytes()
    np.testing.assert_allclose(alone["loss"], well["loss"][:1], rtol=1e-6)


@pytest.mark.slow
def test_a_pretrained_loss_describes_itself(tmp_path):
    learned = epg_tf.load_loss("random_hopper")
    export.export(learned, tmp_path, "the card")
    loaded = saved_models.open_saved_model(tmp_path)
    described = json.loads(loaded.signatures["describe"]()["json"].numpy())
    assert described == json.loads(loaded.describe()["json"].numpy())
    expected = {
        "format_version": 1,
        "family": "random_hopper",
        "buffer_steps": 128,
        "update_period": 32,
        "minibatch": 32,
        "parameters": 1473,
        "phi_sha256": json.loads((tmp_path / "loss.json").read_text())["phi_sha256"],
    }
    assert {name: described[name] for name in expected} == expected
    shapes = {name: given["shape"] for name, given in described["inputs"].items()}
    assert shapes["policy_mean"] == ["P", 128, 3] and shapes["minibatch"] == ["P", "B"]
    assert "reward" not in shapes and described["memory"]["units"] == 4
    assert described["normalisation"]["channels"] == ["observation", "action"]
    assert sum(part.numpy().size for part in loaded.params.values()) == 1473
    assert (tmp_path / "README.md").read_text() == "the card"
    again = epg_tf.load_loss(tmp_path)
    assert again.phi.tobytes() == learned.phi.tobytes() and again.experiment == learned.experiment
    assert export.largest_difference(learned, tmp_path) <= 1e-6
    other = dataclasses.replace(learned, phi=learned.phi * np.float32(1.001))
    assert export.largest_difference(other, tmp_path) > 1e-5
    graph = (tmp_path / "saved_model.pb").read_bytes()
    assert not any(part in graph for part in (str(tmp_path).encode(), b"site-packages", b".py"))


def test_an_endless_buffer_is_refused(make_learned, tmp_path):
    """A foreign loss.json may hold it, and phi does not depend on it where pooling averages."""
    learned = make_learned(loss={"buffer_steps": 10**6, "pooling": "mean"})
    with pytest.raises(RecordError, match="config.loss.buffer_steps=1000000"):
        export.export(learned, tmp_path, "card")


@pytest.mark.parametrize("differences", [[0.0, np.nan], [np.nan, 0.0], [1e-3, np.nan, 1e-2]])
def test_a_difference_that_is_no_number_is_the_largest(differences):
    assert np.isnan(export.largest(differences)) and export.largest([0.0, 2.0, 1.0]) == 2.0


@pytest.mark.slow
def test_a_loss_with_an_initial_policy_that_overflows_is_not_kept(make_tiny, tmp_path):
    """The weights of the policy, which are compared first, are the same."""
    experiment = make_tiny(evolution={"moves": "both"})
    phi = initial_phi(experiment, 4)
    learned = LearnedLoss((1e30 * phi).astype(np.float32), experiment, {})
    with pytest.raises(RecordError, match="differs by nan .* huge parameters, which overflow"):
        export.export(learned, tmp_path / "exported", "card")
    assert not (tmp_path / "exported" / "saved_model.pb").exists()


@pytest.mark.slow
def test_a_loss_that_the_disk_changed_is_not_kept(make_learned, tmp_path, monkeypatch):
    export.export(make_learned(), tmp_path, "first")
    monkeypatch.setattr(export, "largest_difference", lambda learned, folder: 1e-3)
    with pytest.raises(RecordError, match=r"differs by 1.0e-03"):
        export.export(make_learned(), tmp_path, "second", overwrite=True)
    assert (tmp_path / "README.md").read_text() == "first" and saved_models.open_saved_model(
        tmp_path
    )


def fresh(make_tiny, moves, **changes):
    """Returns an artifact of a loss, an initial policy, or both."""
    guidance = 1.0 if moves == "initialisation" else 0.0
    evolution = {"moves": moves, "guidance": guidance, "final_guidance": guidance}
    experiment = make_tiny(evolution=evolution, **changes)
    return LearnedLoss(initial_phi(experiment, 4), experiment, {})


@pytest.mark.parametrize("moves", ["initialisation", pytest.param("both", marks=pytest.mark.slow)])
def test_an_initial_policy_is_exported_by_its_weights(make_tiny, tmp_path, moves):
    """PPO+I and EPG+I: the weights by name; read again, it is one to test."""
    learned, alone = fresh(make_tiny, moves), moves == "initialisation"
    assert export.export(learned, tmp_path) <= 1e-6
    loaded = epg_tf.open_saved_model(tmp_path)
    functions = [] if alone else ["gradients", "loss"]
    assert sorted(loaded.signatures) == sorted(["describe", "initial_policy", *functions])
    found = loaded.signatures["initial_policy"]()
    start = divided(learned.experiment, learned.phi)[1]
    expected = initial_policy(learned.experiment, start)
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        np.testing.assert_array_equal(found[name], weight)
    described = json.loads(loaded.describe()["json"].numpy())
    assert described["initial_policy"]["parameters"] == start.size
    assert described["parameters"] == learned.phi.size
    if alone:
        assert described["kind"] == "exported_initial_policy" and described["inputs"] == {}
        assert described["normalisation"]["channels"] == ["observation"]
        assert described["surrogate"]["kind"] == "ppo"
    np.testing.assert_array_equal(epg_tf.load_loss(tmp_path).phi, learned.phi)
    changed = learned.phi.copy()
    changed[-5] += 0.5  # a weight of the policy
    other = dataclasses.replace(learned, phi=changed)
    assert export.largest_difference(other, tmp_path) > 0.1


@pytest.mark.parametrize("moves", ["loss", "initialisation"])
@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({}, 1),
        ({"inner": {"centred_observations": False}}, 2),
        ({"policy": {"observation_pairs": True}}, 3),
    ],
)
def test_readers_of_earlier_formats_must_not_read_what_they_would_misuse(
    make_tiny, moves, changes, version
):
    described = describe(fresh(make_tiny, moves, **changes))
    assert described["format_version"] == version
    rule = described["normalisation"]
    assert rule["about_zero"] == (["observation"] if version == 2 else [])
    assert ("root mean square" in rule["rule"]) == (version == 2)
    assert ("pairs" in described["agent"]["inputs"]) == (version == 3)
