"""Tests epg_tf.studies.gradient_correlation: ranks by hand, gradients by differences."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.core.types import EnvironmentSpec, LifeKey
from epg_tf.epg.learner import Learner
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.initial_parameters import initial_parameters
from epg_tf.studies import gradient_correlation as under_test
from epg_tf.studies.analysed_lives import analysis_request, observe_lives
from epg_tf.studies.gradient_correlation import (
    GradientCorrelation,
    Gradients,
    cosines,
    gradient_correlation_rows,
    measure_gradient_correlation,
    policy_gradients,
    rank_correlation,
    summarize_gradient_correlation,
)
from tests import reference

P, O, A = 2, 3, 2  # noqa: E741 (the legend's letter)


def test_ranks_with_ties_are_those_of_scipy():
    generator = np.random.default_rng(0)
    one = generator.integers(-3, 4, (6, 40)).astype(np.float32)
    other = (0.5 * one + generator.integers(-2, 3, (6, 40))).astype(np.float32)
    expected = [stats.spearmanr(*rows).statistic for rows in zip(one, other, strict=True)]
    np.testing.assert_allclose(rank_correlation(one, other), expected, rtol=1e-12)
    assert np.ptp(expected) > 0.05


def test_what_has_no_order_is_not_a_number():
    one = np.array([[1.0, 1.0], [np.inf, 1.0], [1.0, 2.0]])
    other = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]])
    np.testing.assert_allclose(rank_correlation(one, other), [np.nan, np.nan, -1.0])
    np.testing.assert_allclose(cosines(one, other), [3 / 10**0.5, np.nan, 0.8])
    assert np.isnan(cosines(np.zeros((1, 2)), other[:1])).all()


def begun(experiment, phi=None):
    """Returns a learner with P lives, all weights far from 0, and their phi."""
    learner = Learner(P, EnvironmentSpec(O, A), experiment, measure_kl=False)
    generator = np.random.default_rng(3)
    size = sum(int(np.prod(shape)) for shape in learner.loss.shapes.values())
    if phi is None:
        phi = 0.4 * generator.standard_normal(size).astype(np.float32)
    keys = [LifeKey(0, "test", 0, index) for index in range(P)]
    learner.begin(keys, np.tile(phi, (P, 1)), 0.0, 0.01)
    for variable in learner.agent.trainable_variables_of(True, True):
        variable.assign(0.5 * generator.standard_normal(variable.shape))
    return learner, phi


def test_gradients_are_differences_of_the_reference(make_tiny, make_experience):
    """Learned: the mean loss of the newest M steps. PPO: -A log pi, A from the true rewards."""
    experiment = make_tiny(policy={"hidden": (3,)})
    learner, phi = begun(experiment)
    period = experiment.inner.update_period
    experience = make_experience(P, experiment.loss.buffer_steps, period, O, A)
    found = [gradient.numpy() for gradient in policy_gradients(learner, experience)]
    for life in range(P):
        expected = reference_gradients(learner, phi, experience, life)
        for which, mine, slow in zip(Gradients._fields, found, expected, strict=True):
            np.testing.assert_allclose(mine[life], slow, rtol=2e-3, atol=2e-5, err_msg=which)
            assert np.abs(slow).max() > 1e-2


def reference_gradients(learner, phi, experience, life):
    """Gradients of one life by central differences: learned, PPO's, and PPO's of both halves."""
    experiment, agent = learner.experiment, learner.agent
    surrogate, period = experiment.surrogate, experiment.inner.update_period
    seen = {
        name: np.float64(getattr(experience, name)[life])
        for name in experience._fields
        if name != "extra"
    }
    weights = [np.float64(v[life]) for v in agent.policy.variables_in_order]
    values = [np.float64(v[life]) for v in agent.value.params.values()]
    newest = seen["observation"][-period:]
    value = reference.mlp(values, newest)[:, 0]
    next_value = reference.mlp(values, seen["next_observation"])[:, 0]
    goes_on = (seen["terminated"] + seen["truncated"])[:-1] == 0
    next_value[:-1][goes_on] = value[1:][goes_on]  # which the random steps do not respect
    met = seen["raw_reward"], value, next_value, seen["terminated"], seen["truncated"]
    advantage = reference.gae(*met, surrogate.discount, surrogate.gae_lambda)

    def learned(theta):
        return reference.loss_network(
            np.float64(phi),
            experiment.loss,
            period,
            seen["observation"],
            seen["action"],
            None,
            seen["termination"][:, 0],
            reference.mlp(theta[:-1], seen["observation"]),
            theta[-1],
            reference.memory_output(np.float64(agent.memory.kernel[life])),
        ).mean()

    def ppo(rows):
        return lambda theta: reference.reinforce_loss(
            seen["raw_action"][rows],
            reference.standardised(advantage[rows]),
            (reference.mlp(theta[:-1], newest[rows]), theta[-1]),
        )

    halves = [slice(None), slice(period // 2), slice(period // 2, None)]
    losses = [learned, *(ppo(rows) for rows in halves)]
    return [
        np.concatenate([g.ravel() for g in reference.finite_differences(loss, weights)])
        for loss in losses
    ]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_policy_gradient_goes_all_the_way_with_ppo(make_tiny, make_experience, sign):
    """Without values and discount, with rewards of mean 0 and deviation 1, REINFORCE is PPO at its
    first step; its opposite goes the other way.
    """
    experiment = make_tiny(
        loss={"reward": True, "products": 2, "start": "policy_gradient", "memory_units": 0},
        surrogate={"discount": 0.0},
    )
    channels = declared_channels(EnvironmentSpec(O, A), experiment.loss)
    phi = initial_parameters(np.random.default_rng(0), channels, experiment.loss)
    phi[-3:-1] *= sign  # output weights of the product units
    learner, _ = begun(experiment, phi)
    for variable in learner.agent.value.trainable_variables:
        variable.assign(np.zeros(variable.shape))
    steps, period = experiment.loss.buffer_steps, experiment.inner.update_period
    experience = make_experience(P, steps, period, O, A)
    raw = np.stack([reference.standardised(row) for row in experience.raw_reward.numpy()])
    reward = np.pad(raw, [[0, 0], [steps - period, 0]])[:, :, None]
    experience = experience._replace(raw_reward=tf.constant(raw), reward=tf.constant(reward))
    one, ppo, *_ = (gradient.numpy() for gradient in policy_gradients(learner, experience))
    np.testing.assert_allclose(rank_correlation(one, ppo), sign, rtol=1e-3)
    np.testing.assert_allclose(cosines(one, ppo), sign, rtol=1e-6)


@pytest.mark.slow
def test_values_learn_and_the_life_stays_the_same(tiny, monkeypatch):
    """The value networks move from update to update; agents are those of lives nobody observes."""
    learned = LearnedLoss(initial_phi(tiny, 0), tiny, {"seed": 0})
    request = analysis_request(learned, lives=2)
    observed, alone, values = [], [], []

    def weights(learner):
        return np.concatenate([weight.ravel() for weight in learner.weights()])

    def with_weights(learned, request, observer):
        def both(learner, raw, order):
            observer(learner, raw, order)
            observed.append(weights(learner))
            values.append(learner.agent.value.trainable_variables[0].numpy())

        observe_lives(learned, request, both)

    monkeypatch.setattr(under_test, "observe_lives", with_weights)
    found = measure_gradient_correlation(learned, request)
    assert found.spearman.shape == (2, 3) and np.isfinite(found.ppo_halves).all()
    assert found.parameters == 8 * (6 + 1) + 2 * (8 + 1) + 2 and (found.spearman**2 <= 1.0).all()
    observe_lives(learned, request, lambda learner, raw, order: alone.append(weights(learner)))
    np.testing.assert_array_equal(observed, alone)
    assert len(values) == 3 and not np.array_equal(values[0], values[1])
    assert not np.array_equal(values[1], values[2])


def test_the_numbers_are_means_over_lives():
    spearman = np.array([[0.1, 0.3], [0.3, 0.5], [np.nan, np.nan]])
    found = GradientCorrelation(spearman, 2 * spearman, 0.5 * spearman, 7)
    summary = summarize_gradient_correlation(found)
    assert summary["spearman"]["mean"] == pytest.approx(0.3)
    half = 12.706204736 * 0.2 / 2.0  # t of 1 degree of freedom; standard error of 0.2 and 0.4
    assert summary["spearman"]["ci95"] == pytest.approx((0.3 - half, 0.3 + half))
    assert summary["cosine"]["mean"] == pytest.approx(0.6)
    assert summary["ppo_halves"]["mean"] == pytest.approx(0.15)
    assert (summary["lives"], summary["failed_lives"], summary["parameters"]) == (3, 1, 7)
    rows = gradient_correlation_rows(found)
    numbers = {"spearman": 0.3, "cosine": 0.6, "ppo_halves": 0.15}
    assert rows[1] == {"life": 0, "update": 2, **numbers} and len(rows) == 6
