"""Tests epg_tf.artifacts.exported_loss and epg_tf.artifacts.export: an exported loss answers as the
package's own does.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

import epg_tf
from epg_tf.artifacts import export, saved_models
from epg_tf.artifacts.cards import exported_card
from epg_tf.artifacts.description import channels_of, describe
from epg_tf.artifacts.exported_loss import ExportedLoss, input_specs
from epg_tf.artifacts.learned_loss import LearnedLoss, interface
from epg_tf.core.errors import RecordError
from epg_tf.core.parameters import parameter_count
from epg_tf.epg.meta_parameters import divided, initial_phi, initial_policy
from epg_tf.losses.shared_conv import learned_loss
from epg_tf.losses.temporal_conv import parameter_shapes
from epg_tf.tasks import registry
from epg_tf.tasks.point_goal import PointGoal

P, M = 3, 8
STEPS = np.array([[7, 0, 3], [1, 2, 6], [5, 5, 4]], np.int32)


class Choices(PointGoal):
    """The body is pushed along one axis or the other."""

    name = "choices"
    discrete_actions = True


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
            {name: inputs[name] for name in input_specs(own.network.channels, experiment.loss)},
            own.minibatch_loss(agent, own.prepare(agent, experience), tf.constant(STEPS)).numpy(),
            list(moved),
        )

    return ask


SETTINGS = [
    pytest.param({}, marks=pytest.mark.slow),
    pytest.param({"loss": {"reward": True, "pooling": "mean"}}, marks=pytest.mark.slow),
    pytest.param(
        {"task": {"family": "choices"}, "loss": {"memory_units": 0}}, marks=pytest.mark.slow
    ),
    pytest.param(
        {"loss": {"products": 3, "channels": ("future_reward", "novelty")}},
        marks=pytest.mark.slow,
    ),
    pytest.param(
        {
            "loss": {
                "products": 3,
                "factors": 1,
                "channels": ("reward_correlations",),
                "without": ("log_prob", "termination"),
            }
        },
        marks=pytest.mark.slow,
    ),
    pytest.param(
        {"policy": {"state_dependent_std": True}, "loss": {"products": 3}}, marks=pytest.mark.slow
    ),
    pytest.param(
        {"loss": {"products": 3, "reward": True, "shared_over_actions": True}},
        marks=pytest.mark.slow,
    ),
    pytest.param({"task": {"family": "choices"}, "loss": {"products": 3}}, marks=pytest.mark.slow),
    pytest.param({"loss": {"memory_units": 0}}, marks=pytest.mark.slow),
    pytest.param(
        {"loss": {"mean_limit": 0.1, "log_std_limits": (0.5, 1.0), "products": 3}},
        marks=pytest.mark.slow,
    ),
    pytest.param({"task": {"family": "choices"}}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("changes", SETTINGS)
def test_an_exported_loss_and_its_gradients_are_the_packages_own(
    make_learned, asked, tmp_path, changes
):
    """The losses of P agents of the package; gradients by the tape, by the signature and by finite
    differences.
    """
    learned = make_learned(**changes)
    inputs, expected, moved = asked(learned)
    export.export_loss(learned, tmp_path, "card")
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


@pytest.mark.slow
def test_gradients_of_the_package_through_a_policys_weights_are_the_same(
    make_learned, make_agent, make_experience, tmp_path
):
    learned = make_learned()
    agent, experience = make_agent(learned.experiment, P, 6, 2), make_experience(P, 32, M, 6, 2)
    own = learned_loss(P, channels_of(interface(learned.experiment)), learned.experiment.loss, M)
    own.load(np.repeat(learned.phi[None], P, axis=0))
    export.export_loss(learned, tmp_path, "card")
    exported, variables, gradients = (
        tf.saved_model.load(str(tmp_path)),
        agent.moved_by(True, False),
        [],
    )

    def by_export():
        recorded = {
            name: experience.channel(name) for name in ("observation", "action", "termination")
        }
        return exported.loss(
            recorded
            | {
                "policy_mean": agent.policy(experience.observation),
                "policy_log_std": agent.policy.shared_output,
                "memory": agent.memory_output(),
                "minibatch": tf.constant(STEPS),
            }
        )["loss"]

    for score in (
        by_export,
        lambda: own.minibatch_loss(agent, own.prepare(agent, experience), tf.constant(STEPS)),
    ):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(score())
        gradients.append(tape.gradient(total, variables))
    for one, other in zip(*gradients, strict=True):
        assert np.abs(other).max() > 1e-3
        assert np.abs(one - other).max() <= 1e-6 * np.abs(other).max()


def test_agents_do_not_meet(make_learned, asked):
    """NaN in one agent's rows changes no bit of another's loss and gradients; P is free."""
    learned = make_learned()
    inputs, _, moved = asked(learned)
    module = ExportedLoss(
        learned.phi, channels_of(interface(learned.experiment)), learned.experiment.loss, M, ""
    )
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
def test_a_shipped_loss_describes_itself(tmp_path):
    learned = epg_tf.load_loss("random_hopper")
    export.export_loss(learned, tmp_path, "the card")
    loaded = saved_models.open_saved_model(tmp_path)
    described = json.loads(loaded.signatures["describe"]()["json"].numpy())
    assert described == json.loads(loaded.describe()["json"].numpy())
    assert (described["format_version"], described["family"]) == (1, "random_hopper")
    assert (described["buffer_steps"], described["update_period"], described["minibatch"]) == (
        128,
        32,
        32,
    )
    assert (
        described["inputs"]["policy_mean"]["shape"] == ["P", 128, 3]
        and "reward" not in described["inputs"]
    )
    assert (
        described["inputs"]["minibatch"]["shape"] == ["P", "B"]
        and described["memory"]["units"] == 4
    )
    assert described["parameters"] == 1473 and described["normalisation"]["channels"] == [
        "observation",
        "action",
    ]
    assert described["phi_sha256"] == json.loads((tmp_path / "loss.json").read_text())["phi_sha256"]
    assert sum(part.numpy().size for part in loaded.params.values()) == 1473
    assert (tmp_path / "card.md").read_text() == "the card"
    again = epg_tf.load_loss(tmp_path)
    assert again.phi.tobytes() == learned.phi.tobytes() and again.experiment == learned.experiment
    assert export.largest_difference(learned, tmp_path) <= 1e-6


@pytest.mark.slow
def test_a_wrong_phi_is_noticed(make_learned, tmp_path):
    learned = make_learned()
    export.export_loss(learned, tmp_path, "card")
    other = LearnedLoss(learned.phi * 1.001, learned.experiment, {})
    assert export.largest_difference(other, tmp_path) > 1e-5


def test_an_endless_buffer_is_refused(make_learned, tmp_path):
    """A foreign loss.json may hold it, and phi does not depend on it where pooling averages."""
    learned = make_learned(loss={"buffer_steps": 10**6, "pooling": "mean"})
    with pytest.raises(RecordError, match="config.loss.buffer_steps=1000000"):
        export.export_loss(learned, tmp_path, "card")


@pytest.mark.slow
def test_a_graph_names_no_path(make_learned, tmp_path):
    export.export_loss(make_learned(), tmp_path, "card")
    graph = (tmp_path / "saved_model.pb").read_bytes()
    assert not any(part in graph for part in (str(tmp_path).encode(), b"site-packages", b".py"))


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
        export.export_loss(learned, tmp_path / "exported", "card")
    assert not (tmp_path / "exported" / "saved_model.pb").exists()


@pytest.mark.slow
def test_a_loss_that_the_disk_changed_is_not_kept(make_learned, tmp_path, monkeypatch):
    export.export_loss(make_learned(), tmp_path, "first")
    monkeypatch.setattr(export, "largest_difference", lambda learned, folder: 1e-3)
    with pytest.raises(RecordError, match=r"differs by 1.0e-03"):
        export.export_loss(make_learned(), tmp_path, "second", overwrite=True)
    assert (tmp_path / "card.md").read_text() == "first" and saved_models.open_saved_model(tmp_path)


@pytest.mark.parametrize("marks", [True, False])
def test_what_the_termination_channel_marks_is_described(make_learned, marks):
    described = describe(make_learned(loss={"truncation_as_end": marks}))
    assert described["termination_marks_time_limits"] is marks
    assert ("not at a time limit" in described["inputs"]["termination"]["meaning"]) is not marks


@pytest.mark.slow
def test_a_loss_with_an_initial_policy_brings_it_along(make_learned, make_tiny, tmp_path):
    """The loss is that of phi alone; the policy's weights have names."""
    alone = make_learned()
    experiment = make_tiny(evolution={"moves": "both"})
    start = divided(experiment, initial_phi(experiment, 4))[1]
    learned = LearnedLoss(np.concatenate([alone.phi, start]), experiment, {})
    export.export_loss(learned, tmp_path / "exported")
    loaded = epg_tf.open_saved_model(tmp_path / "exported")
    found = loaded.signatures["initial_policy"]()
    for name, weight in initial_policy(experiment, start).items():
        np.testing.assert_array_equal(found[name], weight)
    described = json.loads(loaded.describe()["json"].numpy())
    assert described["initial_policy"]["parameters"] == start.size
    assert described["parameters"] == learned.phi.size
    export.export_loss(alone, tmp_path / "alone")
    assert "initial_policy" not in epg_tf.open_saved_model(tmp_path / "alone").signatures
    again = epg_tf.load_loss(tmp_path / "exported")
    np.testing.assert_array_equal(again.phi, learned.phi)
    card = (tmp_path / "exported" / "card.md").read_text()
    assert "and a policy of" in card and "that `initial_policy` returns by name" in card
    changed = learned.phi.copy()
    changed[-1] += 0.5  # a weight of the policy
    other = LearnedLoss(changed, experiment, {})
    assert export.largest_difference(other, tmp_path / "exported") > 0.1


def test_an_initial_policy_alone_is_exported_as_its_weights(make_tiny, tmp_path):
    """PPO+I: no loss, the weights by name, and how agents learn from them; read again, it is one to
    test.
    """
    experiment = make_tiny(
        evolution={"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0}
    )
    learned = LearnedLoss(initial_phi(experiment, 3), experiment, {})
    assert export.export_loss(learned, tmp_path / "exported") == 0.0
    loaded = epg_tf.open_saved_model(tmp_path / "exported")
    assert sorted(loaded.signatures) == ["describe", "initial_policy"]
    found = loaded.signatures["initial_policy"]()
    expected = initial_policy(experiment, learned.phi)
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        np.testing.assert_array_equal(found[name], weight)
    described = json.loads(loaded.describe()["json"].numpy())
    assert described["kind"] == "exported_initial_policy" and described["inputs"] == {}
    assert described["normalisation"]["channels"] == ["observation"]
    assert described["surrogate"]["kind"] == "ppo"
    np.testing.assert_array_equal(epg_tf.load_loss(tmp_path / "exported").phi, learned.phi)
    card = (tmp_path / "exported" / "card.md").read_text()
    assert "loaded.initial_policy()" in card and "loaded.loss(" not in card


@pytest.mark.parametrize("moves", ["loss", "initialisation"])
@pytest.mark.parametrize("centred", [True, False])
def test_the_description_says_whether_observations_are_centred(make_tiny, moves, centred):
    guidance = 1.0 if moves == "initialisation" else 0.0
    experiment = make_tiny(
        evolution={"moves": moves, "guidance": guidance, "final_guidance": guidance},
        inner={"centred_observations": centred},
    )
    described = describe(LearnedLoss(initial_phi(experiment, 3), experiment, {}))
    rule = described["normalisation"]
    assert rule["about_zero"] == ([] if centred else ["observation"])
    assert ("root mean square" in rule["rule"]) == (not centred)
    assert ("x - mean" in rule["rule"]) == (centred or moves == "loss")
    assert described["format_version"] == (1 if centred else 2)


@pytest.mark.parametrize("moves", ["loss", "initialisation"])
@pytest.mark.parametrize("pairs", [False, True])
def test_the_description_and_the_card_say_what_policies_see(make_tiny, moves, pairs):
    """Readers of earlier formats would build another network, so they must not read it."""
    guidance = 1.0 if moves == "initialisation" else 0.0
    experiment = make_tiny(
        evolution={"moves": moves, "guidance": guidance, "final_guidance": guidance},
        policy={"observation_pairs": pairs},
    )
    learned = LearnedLoss(initial_phi(experiment, 3), experiment, {})
    described = describe(learned)
    assert described["format_version"] == (3 if pairs else 1)
    inputs = described["agent"]["inputs"]
    assert inputs.startswith("the normalised observation")
    assert (
        inputs.endswith("pairs j <= k of its components, (1, 1), (1, 2), ... (2, 2), ...") == pairs
    )
    assert f": {inputs}.\n" in exported_card(learned)


@pytest.mark.slow
def test_an_export_whose_observations_are_not_centred_loads(make_tiny, tmp_path):
    experiment = make_tiny(inner={"centred_observations": False})
    learned = LearnedLoss(initial_phi(experiment, 3), experiment, {})
    export.export_loss(learned, tmp_path / "exported")
    loaded = epg_tf.load_loss(tmp_path / "exported")
    assert loaded.experiment == experiment
    assert "but of observations x / max(root" in (tmp_path / "exported" / "card.md").read_text()


def test_a_changed_weight_of_an_initial_policy_shows(make_tiny, tmp_path):
    experiment = make_tiny(evolution={"moves": "initialisation"}, inner={"updates": 0})
    learned = LearnedLoss(initial_phi(experiment, 3), experiment, {})
    export.export_loss(learned, tmp_path / "exported")
    assert "agents do not learn in their lives" in (tmp_path / "exported" / "card.md").read_text()
    changed = learned.phi.copy()
    changed[5] += 0.5
    other = LearnedLoss(changed, experiment, {})
    assert export.largest_difference(other, tmp_path / "exported") > 0.1


@pytest.mark.parametrize(
    ("changes", "outputs"),
    [
        ({}, "means of Gaussians, whose log standard deviations are weights, too"),
        ({"policy": {"state_dependent_std": True}}, "means and log standard deviations of Gaus"),
        ({"task": {"family": "choices"}}, "a logit for each action"),
    ],
)
def test_the_card_of_an_initial_policy_says_what_its_weights_give(
    make_learned, make_tiny, changes, outputs
):
    moves = {"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0}
    experiment = make_tiny(evolution=moves, **changes)
    card = exported_card(LearnedLoss(initial_phi(experiment, 3), experiment, {}))
    assert card.startswith("# An initial policy for ") and outputs in card
