"""Tests epg_tf.artifacts.exported: an exported objective computes what the package's own does."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.artifacts import saved_models
from epg_tf.artifacts.artifact import LearnedObjective, load_objective
from epg_tf.artifacts.description import describe
from epg_tf.artifacts.export import export, exported_module, largest_difference
from epg_tf.artifacts.exported import PREDICTED, examples, objective_inputs
from epg_tf.losses.lstm_objective import LSTMObjective, initial_parameters, stacked
from epg_tf.losses.objectives import Trajectories
from epg_tf.losses.settings import ObjectiveConfig
from epg_tf.metagenrl.settings import AgentConfig, MetaGenRLExperiment
from tests import metagenrl_reference as slow

pytestmark = pytest.mark.slow

T = 4
SMALL = MetaGenRLExperiment(
    objective=ObjectiveConfig(lstm_units=3, action_layers=2, action_filters=4),
    agent=AgentConfig(chunk=T, discount=0.9),
)


def learned_of(**changes):
    """Returns an objective whose parameters are all random, biases included."""
    objective = dataclasses.replace(SMALL.objective, **changes)
    experiment = dataclasses.replace(SMALL, objective=objective)
    size = initial_parameters(np.random.default_rng(0), objective).size
    parameters = 0.6 * np.random.default_rng(0).standard_normal(size).astype(np.float32)
    return LearnedObjective(parameters, experiment, {"seed": 0})


def drawn(agents, chunks, actions):
    """Returns inputs by name; the last chunk of each agent ends after one step."""
    generator = np.random.default_rng(1)
    inputs = {
        name: generator.standard_normal((agents, chunks, T, actions)[: len(spec.shape)])
        for name, spec in objective_inputs(T).items()
    }
    inputs["mask"] = np.ones_like(inputs["mask"])
    inputs["mask"][:, -1, 1:] = 0.0
    return {name: np.float32(values) for name, values in inputs.items()}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objective")
    assert export(learned_of(), folder) <= 1e-6
    return folder


@pytest.mark.parametrize("actions", [1, 3])
def test_scores_are_those_of_the_network_step_by_step(exported, actions):
    """In NumPy, one agent, chunk and step at a time; padding scores nothing."""
    learned, inputs = learned_of(), drawn(2, 3, actions)
    loaded = tf.saved_model.load(str(exported))
    found = loaded.objective(inputs)
    config, discount = learned.experiment.objective, learned.experiment.agent.discount
    names = ("action", PREDICTED, "reward", "value", "next_value")
    for agent in range(2):
        chunks = slow.without_padding(
            inputs["mask"][agent], *(np.float64(inputs[name][agent]) for name in names)
        )
        expected = slow.objective(np.float64(learned.phi), config, discount, T, chunks)
        for chunk, scores in enumerate(expected):
            row = found["per_step"][agent, chunk, : len(scores)]
            np.testing.assert_allclose(row, scores, rtol=1e-4, atol=1e-5)
        mean = sum(scores.sum() for scores in expected) / len(expected)
        assert float(found["objective"][agent]) == pytest.approx(mean, rel=1e-4, abs=1e-5)
    assert not found["per_step"].numpy()[:, -1, 1:].any()


@pytest.mark.parametrize(
    "learned",
    [
        learned_of(value_inputs=0, time=False),
        learned_of(next_value="value"),
        load_objective("point_goal_objective"),
    ],
    ids=["no values", "values as printed", "pretrained"],
)
def test_what_is_read_again_is_the_packages_own_to_1e_6(learned, tmp_path):
    assert export(learned, tmp_path) <= 1e-6
    other = dataclasses.replace(learned, phi=learned.phi * np.float32(1.001))
    assert largest_difference(other, tmp_path) > 1e-5
    experiment = learned.experiment
    own = LSTMObjective(3, experiment.objective, experiment.agent.discount)
    own.load(stacked(learned.phi, 3))
    inputs = examples(objective_inputs(experiment.agent.chunk), 2, 1)
    recorded = Trajectories(**{name: inputs[name] for name in Trajectories._fields})
    expected = own(recorded, inputs[PREDICTED]).numpy()
    loaded = saved_models.open_saved_model(tmp_path)
    found = loaded.objective(inputs)["per_step"]
    assert np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max()
    again = load_objective(tmp_path)
    assert again.phi.tobytes() == learned.phi.tobytes()
    assert again.experiment == learned.experiment


def test_gradients_are_finite_differences_and_reach_the_prediction_alone(exported):
    loaded, inputs = tf.saved_model.load(str(exported)), drawn(2, 3, 2)
    given = {name: tf.constant(values) for name, values in inputs.items()}
    with tf.GradientTape() as tape:
        tape.watch(given)
        found = loaded.objective(given)["objective"]
    slopes = tape.gradient(found, given)
    reached = [name for name, slope in slopes.items() if slope is not None and np.any(slope)]
    assert reached == [PREDICTED]
    by_name = loaded.signatures["gradients"](**given)[PREDICTED]
    np.testing.assert_allclose(by_name, slopes[PREDICTED], rtol=1e-5, atol=1e-8)
    direction = np.random.default_rng(2).standard_normal(inputs[PREDICTED].shape)
    ends = [
        loaded.objective(
            {**inputs, PREDICTED: np.float32(inputs[PREDICTED] + side * 1e-2 * direction)}
        )["objective"].numpy()
        for side in (-1, 1)
    ]
    expected = np.sum(direction * by_name, axis=(1, 2, 3))
    np.testing.assert_allclose((ends[1] - ends[0]) / 2e-2, expected, rtol=0.05, atol=1e-3)


def test_agents_do_not_meet():
    """NaN in one agent's rows changes no bit of another's objective and gradients."""
    learned, inputs = learned_of(), drawn(3, 2, 2)
    module, _ = exported_module(learned)
    poison = {name: values.copy() for name, values in inputs.items()}
    poison["reward"][1] = np.nan
    well, ill = (module.gradients(each) | module.objective(each) for each in (inputs, poison))
    assert np.isnan(ill["objective"][1])
    for name in (PREDICTED, "objective"):
        for agent in (0, 2):
            assert well[name][agent].numpy().tobytes() == ill[name][agent].numpy().tobytes()


def test_an_export_describes_itself_and_names_no_path(exported):
    loaded = saved_models.open_saved_model(exported)
    described = json.loads(loaded.signatures["describe"]()["json"].numpy())
    assert described == json.loads(loaded.describe()["json"].numpy())
    assert (described["format_version"], described["chunk"]) == (1, T)
    assert described["inputs"][PREDICTED]["shape"] == ["P", "B", T, "A"]
    assert described["inputs"]["mask"]["shape"] == ["P", "B", T]
    assert described["agent"]["discount"] == 0.9
    assert described["agent"]["reward_rule"] == "as received"
    scaled = AgentConfig(scale_rewards=True)
    told = describe(
        dataclasses.replace(learned_of(), experiment=dataclasses.replace(SMALL, agent=scaled))
    )
    assert told["agent"]["reward_rule"].startswith("divided by the root mean square")
    graph = (exported / "saved_model.pb").read_bytes()
    assert not any(part in graph for part in (str(exported).encode(), b"site-packages", b".py"))
