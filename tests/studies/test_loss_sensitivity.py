"""Tests epg_tf.studies.loss_sensitivity against differences of a slow reference."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import EnvironmentSpec, LifeKey
from epg_tf.epg.learner import Learner
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.studies.analysed_lives import analysis_request
from epg_tf.studies.loss_sensitivity import (
    LossSensitivity,
    input_gradients,
    loss_inputs,
    loss_sensitivity_rows,
    measure_loss_sensitivity,
    summarize_loss_sensitivity,
)
from tests import reference

P, O, A = 2, 3, 2  # noqa: E741 (the legend's letter)
STEP = 5
KINDS = {
    "the paper's": {"memory_units": 0},
    "memory": {},
    "rewards and products": {
        "reward": True,
        "products": 2,
        "channels": ("time_in_life", "novelty"),
        "pooling": "mean",
    },
}


def begun(experiment):
    """Returns a learner with P lives whose memories and policies are far from 0."""
    learner = Learner(P, EnvironmentSpec(O, A), experiment, measure_kl=False)
    generator = np.random.default_rng(3)
    size = sum(int(np.prod(shape)) for shape in learner.loss.shapes.values())
    phi = 0.4 * generator.standard_normal((P, size)).astype(np.float32)
    keys = [LifeKey(0, "test", 0, index) for index in range(P)]
    learner.begin(keys, phi, 0.0, 0.01)
    for variable in learner.agent.trainable_variables_of(True, False):
        variable.assign(0.5 * generator.standard_normal(variable.shape))
    return learner, phi


def reference_gradients(experiment, life, phi, inputs):
    """Returns dL_t / dx of each input by central differences of the slow network, float64; of an
    input that is the same at all steps, one row.
    """
    settings, constants = experiment.loss, ("policy_log_std", "memory")
    period = experiment.inner.update_period
    values = {name: np.float64(array[life]) for name, array in inputs.items()}
    for name in constants:
        if name in values:
            values[name] = values[name][:1]
    if "policy_log_prob" in values:
        values["policy_log_prob"] = values["policy_log_prob"][-period:]

    def loss(parts):
        named = dict(zip(values, parts, strict=True))
        return reference.loss_network(
            np.float64(phi[life]),
            settings,
            period,
            named["observation"],
            named["action"],
            named["reward"][:, 0] if "reward" in named else None,
            named["termination"][:, 0],
            named["policy_mean"],
            named["policy_log_std"][0],
            named["memory"][0] if "memory" in named else None,
            [named[name] for name in settings.channels],
            named.get("policy_log_prob"),
        )[STEP]

    return dict(zip(values, reference.finite_differences(loss, list(values.values())), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_differences_of_the_reference(make_tiny, make_experience, kind):
    experiment = make_tiny(loss=KINDS[kind])
    learner, phi = begun(experiment)
    steps, period = experiment.loss.buffer_steps, experiment.inner.update_period
    experience = make_experience(P, steps, period, O, A)
    generator = np.random.default_rng(9)
    extra = {
        name: tf.constant(generator.random((P, steps, 1)), tf.float32)
        for name in experiment.loss.channels
    }
    inputs = loss_inputs(learner, experience._replace(extra=extra or None))
    assert list(inputs) == [channel.name for channel in learner.loss.network.channels]
    found = input_gradients(learner.loss.network, learner.loss.params, inputs, STEP)
    for life in range(P):
        expected = reference_gradients(experiment, life, phi, inputs)
        assert list(found) == list(expected)
        for name, slopes in expected.items():
            mine = np.float64(found[name][life])
            if name in ("policy_log_std", "memory"):  # the reference moves all steps together
                mine = mine.sum(axis=0, keepdims=True)
            if name == "policy_log_prob":
                assert not mine[:-period].any()
                mine = mine[-period:]
            np.testing.assert_allclose(mine, slopes, rtol=1e-3, atol=2e-6, err_msg=name)
            assert np.abs(slopes).max() > 1e-4, f"{name} has no effect, so nothing is tested"


def test_inputs_are_those_of_the_updates(make_tiny, make_experience):
    """The loss of the inputs by name is the loss that moves agents."""
    experiment = make_tiny(loss={"reward": True, "products": 2})
    learner, _ = begun(experiment)
    steps, period = experiment.loss.buffer_steps, experiment.inner.update_period
    experience = make_experience(P, steps, period, O, A)
    inputs = dict(loss_inputs(learner, experience))
    for name in ("policy_log_std", "memory"):
        inputs[name] = inputs[name][:, 0]
    order = np.tile(np.arange(period, dtype=np.int32), (P, 1))
    per_step = learner.loss({**inputs, "minibatch": order})
    prepared = learner.loss.prepare(learner.agent, experience)
    used = learner.loss.minibatch_loss(learner.agent, prepared, order)
    np.testing.assert_allclose(np.mean(per_step, axis=1), used, rtol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_a_step_matters_most_to_itself_and_padding_is_told_apart(make_tiny, shared):
    """Two updates of 8 steps leave half of the buffer of 32 empty."""
    experiment = make_tiny(
        loss={"shared_over_actions": shared, "pooling": "mean"}, inner={"updates": 2}
    )
    learned = LearnedLoss(initial_phi(experiment, 0), experiment, {"seed": 0})
    request = analysis_request(learned, lives=3)
    found = measure_loss_sensitivity(learned, request, step=STEP)
    channels = len(found.channels)
    assert found.norms.shape == (channels, 3, 32) and found.step == 32 - 8 + STEP
    assert found.lived.tolist() == [False] * 16 + [True] * 16
    assert "memory" in found.channels and np.isfinite(found.norms).all()
    summary = summarize_loss_sensitivity(found)
    assert summary["observation"]["lives_with_peak"] == 1.0
    assert 0.0 < summary["observation"]["steps_with_effect"] <= 1.0
    rows = loss_sensitivity_rows(found)
    assert len(rows) == channels * 3 * 16
    first = {"channel": "observation", "life": 0, "step": 16, "scored_step": found.step}
    assert rows[0] == {**first, "norm": float(found.norms[0, 0, 16])}


def test_the_numbers_are_those_of_the_norms():
    """Steps 0 (padding), 1, 2 and 3 of two lives; t = 2."""
    norms = np.array([[[9.0, 1.0, 4.0, 0.0], [9.0, 2.0, 6.0, 8.0]]])
    lived = np.array([False, True, True, True])
    found = summarize_loss_sensitivity(LossSensitivity(("action",), norms, 2, lived))["action"]
    assert found["at_step"]["mean"] == 5.0 and found["elsewhere"]["mean"] == 2.75
    assert found["at_step_over_largest_elsewhere"]["median"] == (4.0 + 0.75) / 2
    assert found["lives_with_peak"] == 0.5 and found["steps_with_effect"] == 0.75
    with pytest.raises(ValueError, match="one lived step"):
        summarize_loss_sensitivity(LossSensitivity(("action",), norms, 2, np.arange(4) == 2))


def test_what_cannot_be_looked_at_is_refused(tiny):
    learned = LearnedLoss(initial_phi(tiny, 0), tiny, {})
    request = analysis_request(learned, lives=2)
    with pytest.raises(ConfigError, match="step=8 is not scored; .* = 7"):
        measure_loss_sensitivity(learned, request, step=8)
