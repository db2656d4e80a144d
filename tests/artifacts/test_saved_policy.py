"""Tests epg_tf.artifacts.saved_policy: a saved policy does what the agent did, as TF-Agents reads
it.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.environments import tf_py_environment
from tf_agents.policies import py_tf_eager_policy
from tf_agents.trajectories import time_step as ts

import epg_tf
from epg_tf.agents.acting import ActingCategorical, ActingDeterministic, ActingGaussian
from epg_tf.agents.deterministic import initial_weights
from epg_tf.artifacts import saved_models
from epg_tf.artifacts.saved_policy import (
    TrainedDeterministicPolicy,
    TrainedPolicy,
    save_policy,
)
from epg_tf.core.errors import RecordError
from epg_tf.evaluation.evaluate import evaluate
from epg_tf.evaluation.trained_agent import train_agent
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.tf_agents_environment import TaskEnvironment
from tests.tasks.families import Choices


def weights(discrete, generator):
    parts = [
        generator.standard_normal(shape).astype(np.float32)
        for shape in ((6, 8), (8,), (8, 2), (2,))
    ]
    if discrete:  # logits near enough that both actions are frequent
        return [*parts[:2], *(0.15 * part for part in parts[2:])]
    return [*parts, np.float32([-1.0, 0.3])]


def saved(folder, discrete=False, first=0):
    """Saves a random policy; returns its weights, shift, scale, and it, opened."""
    generator, family = np.random.default_rng(0), (Choices if discrete else PointGoal)(4, 25)
    assert family.observation_size == 6
    family.first_action = first
    parts, shift, scale = (
        weights(discrete, generator),
        *generator.uniform(0.5, 2.0, (2, 6)).astype(np.float32),
    )
    save_policy(TrainedPolicy(family, parts, "tanh", shift, scale), folder, {"seed": 0})
    return parts, shift, scale, saved_models.open_saved_model(folder)


def observations(count):
    return np.random.default_rng(1).standard_normal((count, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def gaussian(tmp_path_factory):
    """The folder of a policy of continuous actions, and what `saved` returns."""
    folder = tmp_path_factory.mktemp("gaussian")
    return folder, *saved(folder)


@pytest.mark.parametrize("count", [1, 4000])
def test_gaussian_actions_have_the_agents_mean_and_deviation(gaussian, count):
    """Any batch size; 4,000 draws at one observation."""
    _, parts, shift, scale, policy = gaussian
    seen = np.repeat(observations(1), count, axis=0)
    acting = ActingGaussian([part[None] for part in parts], "tanh")
    mean = acting.policy_output(((seen - shift) * scale)[None, 0])[0]
    actions = policy.action(ts.restart(tf.constant(seen), count)).action.numpy()
    assert actions.shape == (count, 2) and actions.dtype == np.float32
    if count > 1:
        low, high = PointGoal(4, 25).action_bounds
        draws = np.clip(
            mean + np.exp(parts[-1]) * np.random.default_rng(2).standard_normal((100_000, 2)),
            low,
            high,
        )
        np.testing.assert_allclose(actions.mean(axis=0), draws.mean(axis=0), atol=0.05)
        np.testing.assert_allclose(actions.std(axis=0), draws.std(axis=0), atol=0.05)
        assert (actions >= low).all() and (actions <= high).all()


def test_discrete_actions_have_the_agents_probabilities(tmp_path):
    """Those of an environment may begin anywhere."""
    first = -2
    parts, shift, scale, policy = saved(tmp_path, discrete=True, first=first)
    seen = np.repeat(observations(1), 4000, axis=0)
    logits = ActingCategorical([part[None] for part in parts], "tanh").policy_output(
        ((seen - shift) * scale)[None, 0]
    )[0]
    probability = 1 / (1 + np.exp(logits[0] - logits[1]))
    assert 0.1 < probability < 0.4
    actions = policy.action(ts.restart(tf.constant(seen), 4000)).action.numpy()
    assert actions.dtype == np.int32 and set(actions) == {first, first + 1}
    assert actions.mean() - first == pytest.approx(probability, abs=0.04)  # six standard errors
    read = py_tf_eager_policy.SavedModelPyTFEagerPolicy(str(tmp_path), load_specs_from_pbtxt=True)
    assert (read.action_spec.minimum, read.action_spec.maximum) == (first, first + 1)
    about = json.loads((tmp_path / "policy.json").read_text())
    assert about["choices"] == [first, first + 1]


def test_tf_agents_reads_it_with_its_specs(gaussian):
    folder = str(gaussian[0])
    policy = py_tf_eager_policy.SavedModelPyTFEagerPolicy(folder, load_specs_from_pbtxt=True)
    environment = TaskEnvironment(PointGoal(4, 25), 3, 0)
    assert policy.time_step_spec.observation.shape == environment.observation_spec().shape
    assert policy.action_spec.shape == environment.action_spec().shape
    np.testing.assert_array_equal(policy.action_spec.maximum, environment.action_spec().maximum)
    time_step = environment.reset()
    for _ in range(3):  # it takes single time steps and adds the batch axis itself
        members = [
            tf.nest.map_structure(lambda part, row=row: part[row], time_step) for row in range(3)
        ]
        time_step = environment.step(
            np.stack([policy.action(member, ()).action for member in members])
        )
    assert np.isfinite(time_step.reward).all()


def test_deterministic_actions_are_the_agents_within_the_familys_bounds(tmp_path):
    """Those of MetaGenRL: no normalisation, no noise."""
    family = PointGoal(4, 25)
    family.action_bounds = np.array([-1.0, -2.0]), np.array([3.0, 0.5])
    parts = initial_weights(np.random.default_rng(0), (6, 8, 8, 2))
    policy, seen = TrainedDeterministicPolicy(family, parts), 3.0 * observations(50)
    acting = ActingDeterministic([np.repeat(part[None], 50, axis=0) for part in parts])
    expected = family.environment_action(acting.act(seen))
    assert expected.std(axis=0).min() > 0.05
    np.testing.assert_allclose(policy.act(seen), expected, atol=1e-5)
    save_policy(policy, tmp_path, {})
    opened = saved_models.open_saved_model(tmp_path)
    found = opened.action(ts.restart(tf.constant(seen), 50)).action
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("discrete", [False, True])
def test_one_observation_or_many(discrete):
    family, generator = (Choices if discrete else PointGoal)(4, 25), np.random.default_rng(0)
    parts = weights(discrete, generator)
    policy = TrainedPolicy(family, parts, "tanh", np.zeros(6, np.float32), np.ones(6, np.float32))
    one, many = policy.act(np.zeros(6)), policy.act(np.zeros((3, 6)))
    assert many.shape == (3, *one.shape) and one.shape == (() if discrete else (2,))
    assert many.dtype == one.dtype == (np.int32 if discrete else np.float32)
    for shape in ((), (5,), (3, 5), (1, 1, 6)):
        with pytest.raises(ValueError, match="observation has shape"):
            policy.act(np.zeros(shape))


def test_a_policy_that_sees_pairs_is_saved(tmp_path):
    """With deviations near zero its actions are the means of the copy that acts."""
    family, generator = PointGoal(4, 25), np.random.default_rng(0)
    kernel = 0.05 * generator.standard_normal((6 + 21, 2)).astype(np.float32)
    parts = [kernel, np.float32([0.1, -0.1]), np.float32([-20.0, -20.0])]
    shift, scale = generator.uniform(0.5, 2.0, (2, 6)).astype(np.float32)
    save_policy(TrainedPolicy(family, parts, "tanh", shift, scale), tmp_path, {})
    seen = observations(50)
    acting = ActingGaussian([np.repeat(part[None], 50, axis=0) for part in parts], "tanh")
    expected = np.clip(acting.policy_output((seen - shift) * scale), *family.action_bounds)
    opened = saved_models.open_saved_model(tmp_path)
    found = opened.action(ts.restart(tf.constant(seen), 50)).action
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert expected.std(axis=0).min() > 0.05


@pytest.mark.slow
def test_the_saved_agent_is_the_one_that_was_tested(tmp_path):
    """Same hash as in the test, hence same policy; in its own task it earns about what the test
    says.
    """
    loss = epg_tf.load_loss("point_goal")
    results = evaluate(loss.experiment, loss.phi, 3, 5, methods=["epg"])
    agent = train_agent(loss, 3)
    assert agent.policy_sha256 == results.final("policy_sha256")[0]
    assert agent.final_return == results.final()[0]
    assert set(agent.task) == {"mass", "damping", "gain"}
    environment = tf_py_environment.TFPyEnvironment(TaskEnvironment(PointGoal(4, 25), 64, 0))
    total, time_step = np.zeros(64), environment.reset()
    while not time_step.is_last()[0]:
        time_step = environment.step(agent.act(time_step.observation.numpy()))
        total += time_step.reward.numpy()
    assert (
        total.mean() > -16
    )  # an agent that never learns gets -26, this loss's agents -11.3 in their own tasks
    agent.save(tmp_path / "policy")
    about = json.loads((tmp_path / "policy" / "policy.json").read_text())
    assert about["loss"] == "point_goal" and about["policy_sha256"] == agent.policy_sha256
    with pytest.raises(RecordError, match="overwrite=True"):
        agent.save(tmp_path / "policy")
    agent.save(tmp_path / "policy", overwrite=True)
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(RecordError, match=r"policy.json is not there"):
        agent.save(tmp_path, overwrite=True)
