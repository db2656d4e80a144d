"""Tests epg_tf.evaluation.fixed_policies: fixed policies as baselines of a loss."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.artifacts.artifact import LearnedLoss, load_loss, save
from epg_tf.baselines.method import LossName
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.evaluation import fixed_policies
from epg_tf.evaluation.evaluate import Evaluation, evaluate
from epg_tf.evaluation.requests import loss_request
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.summary import summarize
from epg_tf.reports.agent_plots import learning_figure


@pytest.fixture
def make_fixed(make_tiny):
    """A function: the settings of a fixed policy with these hidden layers."""

    def make(hidden=()):
        return make_tiny(
            evolution={"moves": "initialisation"},
            inner={"updates": 0},
            policy={"hidden": hidden},
        )

    return make


@pytest.fixture
def normalising(make_tiny):
    """The settings of a fixed policy that acts for two updates, and learns nothing."""
    return make_tiny(
        evolution={"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0},
        inner={"updates": 2, "learning_rate": 0.0},
        policy={"hidden": (8,)},
        surrogate={"kind": "reinforce"},
    )


@pytest.fixture
def home(tiny, make_fixed, tmp_path):
    """The folder of a loss that carries both kinds of policies."""
    save(tmp_path, initial_phi(tiny, 0), tiny, {})
    for name, hidden in zip(fixed_policies.NAMES, ((), (8,)), strict=True):
        experiment = make_fixed(hidden)
        save(tmp_path / name, initial_phi(experiment, 1), experiment, {})
    return tmp_path


def test_policies_beside_a_loss_are_rows_of_its_test(home, tiny):
    learned = load_loss(home)
    fixed = tuple(fixed_policies.beside(learned))
    request = loss_request(tiny, 3, 4)
    evaluation = Evaluation(learned, LossName("a"), request, ("epg",), fixed=fixed)
    results = Results.join(list(evaluation.run()))
    assert list(results.groups()) == ["epg", *fixed_policies.NAMES]
    for name, policy in zip(fixed_policies.NAMES, fixed, strict=True):
        alone = evaluate(policy.experiment, policy.phi, seed=3, lives=4, methods=["epg"])
        np.testing.assert_array_equal(results.select(name).final(), alone.final())
        steps, curve = results.select(name).pivot()
        assert steps.tolist() == [0, request.env_steps]
        np.testing.assert_array_equal(curve, np.stack([results.select(name).final()] * 2, axis=1))
    summaries = summarize(results)
    row = summaries["zero_shot_linear"]
    assert row.final_return_mean == pytest.approx(row.auc_mean)
    assert row.ahead_mean is not None and np.isfinite(summaries["epg"].auc_mean)
    assert learning_figure(results, "title").axes[0].lines


def test_a_policy_that_does_not_learn_has_observations_normalised(normalising, tiny, tmp_path):
    """By what it saw in its own updates, however long the lives of the others are."""
    phi = initial_phi(normalising, 1)
    save(tmp_path, phi, normalising, {})
    policy = fixed_policies.load_fixed_policy(tmp_path)
    (method,) = fixed_policies.methods([policy])
    assert method.name == "zero_shot_policy"
    long = method.train(loss_request(tiny, 3, 4, updates=9))
    alone = evaluate(normalising, phi, seed=3, lives=4, methods=["epg"])
    np.testing.assert_array_equal(long.final_return, alone.final())
    inner = dataclasses.replace(normalising.inner, updates=0)
    raw = evaluate(
        dataclasses.replace(normalising, inner=inner), phi, seed=3, lives=4, methods=["epg"]
    )
    assert not np.array_equal(alone.final(), raw.final())


def test_a_policy_that_learns_is_not_fixed(normalising, tmp_path):
    inner = dataclasses.replace(normalising.inner, learning_rate=1e-3)
    learning = dataclasses.replace(normalising, inner=inner)
    save(tmp_path, initial_phi(learning, 1), learning, {})
    with pytest.raises(RecordError, match="or config.inner.learning_rate=0"):
        fixed_policies.load_fixed_policy(tmp_path)


def test_a_fixed_policy_alone_is_drawn(make_fixed):
    """Curves of lives without updates have no points."""
    experiment = make_fixed()
    methods = ["epg", "untrained"]
    results = evaluate(experiment, initial_phi(experiment, 0), 3, 3, methods=methods)
    assert learning_figure(results, "title").axes[0].lines


def test_a_loss_that_carries_none_has_none(tiny, tmp_path):
    save(tmp_path, initial_phi(tiny, 0), tiny, {})
    assert fixed_policies.beside(load_loss(tmp_path)) == []
    assert fixed_policies.beside(LearnedLoss(initial_phi(tiny, 0), tiny, {})) == []


def test_a_test_has_the_policies_of_a_pretrained_loss_of_the_same_tasks(home):
    """Of several the best in validation; those in the folder of the loss go before them."""
    night = load_loss("random_reacher_night")
    alone = LearnedLoss(night.phi, night.experiment, {})
    tasks = night.experiment.in_physics("exact").task
    names = [f"random_reacher_night/{name}" for name in fixed_policies.NAMES]
    assert [policy.name for policy in fixed_policies.of_tasks(alone, tasks)] == names
    assert load_loss(names[0]).name == names[0]
    shorter = dataclasses.replace(tasks, episode_limit=7)
    assert fixed_policies.of_tasks(alone, shorter) == []
    assert len(fixed_policies.of_tasks(night, shorter)) == 2
    assert fixed_policies.of_tasks(load_loss(names[0]), tasks) == []
    mine = load_loss(home)
    found = fixed_policies.of_tasks(mine, mine.experiment.task)
    assert [policy.folder for policy in found] == [home / name for name in fixed_policies.NAMES]


def test_a_loss_is_no_fixed_policy(tiny, tmp_path):
    save(tmp_path, initial_phi(tiny, 0), tiny, {})
    with pytest.raises(RecordError, match="it is no fixed policy; name the folder of a run with"):
        fixed_policies.load_fixed_policy(tmp_path)


def test_two_of_a_kind_are_refused(make_fixed):
    policy = LearnedLoss(initial_phi(make_fixed(), 0), make_fixed(), {})
    with pytest.raises(ConfigError, match="several fixed policies of the kind zero_shot_linear"):
        fixed_policies.methods([policy, policy])


def test_a_policy_of_another_body_is_refused(make_fixed, tiny):
    policy = LearnedLoss(initial_phi(make_fixed(), 0), make_fixed(), {})
    elsewhere = dataclasses.replace(tiny.task, family="random_reacher")
    request = dataclasses.replace(loss_request(tiny, 3, 4), task=elsewhere)
    with pytest.raises(ConfigError, match="the policy is for point_goal, whose observations"):
        fixed_policies.FixedPolicy("zero_shot_linear", policy).train(request)
    assert fixed_policies.fits(policy, tiny.task) and not fixed_policies.fits(policy, elsewhere)


def test_a_test_of_a_shared_loss_in_another_body_refuses_it_at_once(make_fixed, make_tiny):
    """Not after the loss has been tested there."""
    policy = LearnedLoss(initial_phi(make_fixed(), 0), make_fixed(), {})
    home = make_tiny(loss={"shared_over_actions": True})
    there = dataclasses.replace(home, task=dataclasses.replace(home.task, family="hidden_goal"))
    learned = LearnedLoss(initial_phi(home, 0), there, {})
    request = loss_request(there, 3, 4)
    Evaluation(learned, LossName("phi"), request, ("epg",))
    with pytest.raises(ConfigError, match="the policy is for point_goal, whose observations"):
        Evaluation(learned, LossName("phi"), request, ("epg",), fixed=(policy,))
