"""Tests epg_tf.algorithms.learner."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents.buffer import Buffer
from epg_tf.algorithms.learner import Learner, finite_rows, zero_rows
from epg_tf.losses.temporal_conv import parameter_count
from epg_tf.tasks.physics import StepResult
from epg_tf.types import LifeKey
from tests import reference

P, O, A = 2, 4, 2  # noqa: E741 (the legend's letter)
KEYS = [LifeKey(0, "test", 0, index) for index in range(P)]


@pytest.fixture(scope="module")
def experiment(make_tiny):
    """Few weights, for finite differences; a policy whose mean is not nearly 0; time limits are no end here."""
    return make_tiny(policy={"hidden": (3,), "output_scale": 0.5}, compute={"shard_lives": P},
                     loss={"truncation_as_end": False}, inner={"learning_rate": 0.01})


def make_phi(learner):
    """Returns one random phi per life, [P, D]."""
    size = parameter_count(learner.loss.shapes)
    return 0.4 * np.random.default_rng(5).standard_normal((P, size)).astype(np.float32)


def make_buffer(experiment, periods=3):
    """Returns a buffer of random steps and its newest M rows' shift and scale (random too)."""
    period, generator = experiment.inner.update_period, np.random.default_rng(6)
    buffer = Buffer(P, experiment.loss.buffer_steps, period, O, A)
    for _ in range(periods):
        buffer.make_room()
        for step in range(period):
            terminated = generator.random(P) < 0.2
            result = StepResult(generator.standard_normal((P, O)), generator.standard_normal(P), terminated,
                                (generator.random(P) < 0.2) & ~terminated, np.zeros(P, bool))
            buffer.write(step, generator.standard_normal((P, O)), generator.standard_normal((P, A)), result)
    shift, scale = generator.uniform(0.5, 1.5, (2, P, O + A + 1)).astype(np.float32)
    return buffer, shift, scale


def make_order(experiment):
    """Returns shuffled minibatches [S, P, B]."""
    inner, generator = experiment.inner, np.random.default_rng(7)
    order = np.stack([generator.permutation(inner.update_period) for _ in range(P)])
    return order.reshape(P, -1, inner.minibatch).swapaxes(0, 1).astype(np.int32)


def reference_update(experiment, life, phi, weights, memory, buffer, shift, scale, order):
    """One update of one life from the paper: normalise, two minibatches, gradients by differences, Adam."""
    config = experiment.loss
    size = (O, O + A)
    shift, scale = np.float64(shift[life]), np.float64(scale[life])
    lived = np.float64(buffer.lived)[:, None]
    observation = (np.float64(buffer.observation[life]) - shift[: size[0]]) * scale[: size[0]] * lived
    action = (np.float64(buffer.action[life]) - shift[size[0] : size[1]]) * scale[size[0] : size[1]] * lived
    parameters = [np.float64(w) for w in weights] + [np.float64(memory)]
    moments = [reference.Adam(experiment.inner.learning_rate) for _ in parameters]
    for minibatch in order[:, life]:

        def loss(parameters, minibatch=minibatch):
            mean = reference.mlp(parameters[:-2], observation)
            losses = reference.loss_network(np.float64(phi[life]), config, experiment.inner.update_period, observation,
                                            action, None, np.float64(buffer.terminated[life]), mean, parameters[-2],
                                            reference.memory_output(parameters[-1]))
            return losses[minibatch].mean()

        gradients = reference.finite_differences(loss, parameters)
        parameters = [p + adam.change(g) for p, adam, g in zip(parameters, moments, gradients, strict=True)]
    return parameters


def test_one_update_equals_the_reference(experiment):
    """Normalisation with padding, minibatches in turn, gradients through all N steps, Adam: the weights agree."""
    learner = Learner(P, O, A, False, experiment, measure_kl=False)
    phi, (buffer, shift, scale), order = make_phi(learner), make_buffer(experiment), make_order(experiment)
    assert not buffer.lived.all() and len(order) == 2
    learner.begin(KEYS, phi, 0.0, experiment.inner.learning_rate)
    before, memory = learner.weights(), learner.agent.memory.kernel.numpy()
    finite, _ = learner.update(buffer, shift, scale, order)
    after = [*learner.weights(), learner.agent.memory.kernel.numpy()]
    assert finite.all()
    for life in range(P):
        expected = reference_update(experiment, life, phi, [w[life] for w in before], memory[life], buffer, shift,
                                    scale, order)
        for start, found, other in zip([*before, memory], after, expected, strict=True):
            assert np.abs(other - start[life]).max() > 5e-3  # it moved by about the rate of 0.01, twice
            np.testing.assert_allclose(found[life], other, atol=2e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["ppo", "reinforce"])
def test_every_kind_of_teaching_moves_what_it_should(make_tiny, experiment, alpha, kind):
    """A learned loss moves the memory, PPO the value network; both move the policy."""
    learner = Learner(P, O, A, False, make_tiny(compute={"shard_lives": P}, surrogate={"kind": kind}), measure_kl=True)
    buffer, shift, scale = make_buffer(experiment)
    learner.begin(KEYS, make_phi(learner), alpha, 0.01)
    agent = learner.agent
    parts = (agent.policy.log_deviation, agent.memory.kernel, agent.value.trainable_variables[0])
    before = [part.numpy() for part in parts]
    finite, kl = learner.update(buffer, shift, scale, make_order(experiment))
    moved = [bool((part.numpy() != start).any()) for part, start in zip(parts, before, strict=True)]
    assert moved == [True, alpha < 1, alpha > 0 and kind == "ppo"]
    assert finite.all() and (kl > 0).all()


def test_kl_equals_the_reference(experiment):
    """Mean over the newest M steps of KL(before, after)."""
    learner = Learner(P, O, A, False, experiment, measure_kl=True)
    (buffer, shift, scale), period = make_buffer(experiment), experiment.inner.update_period
    learner.begin(KEYS, make_phi(learner), 0.0, 0.05)
    before = learner.weights()
    _, kl = learner.update(buffer, shift, scale, make_order(experiment))
    after = learner.weights()
    for life in range(P):
        newest = (buffer.observation[life, -period:] - shift[life, :O]) * scale[life, :O]
        old, new = ([np.float64(w[life]) for w in weights] for weights in (before, after))
        means = [reference.mlp(weights[:-1], np.float64(newest)) for weights in (old, new)]
        expected = np.mean([reference.kl_divergence(m, old[-1], n, new[-1]) for m, n in zip(*means, strict=True)])
        assert kl[life] == pytest.approx(expected, rel=1e-3) and expected > 1e-3


def test_kl_is_nan_unless_measured(experiment):
    learner = Learner(P, O, A, False, experiment, measure_kl=False)
    learner.begin(KEYS, make_phi(learner), 0.0, 0.01)
    _, kl = learner.update(*make_buffer(experiment), make_order(experiment))
    assert kl.shape == (P,) and np.isnan(kl).all()


def test_begin_forgets_the_lives_before(experiment):
    """Weights, memory, Adam moments and step count start afresh: the same update gives the same bits."""
    learner = Learner(P, O, A, False, experiment, measure_kl=False)
    phi, buffer, order, hashes = make_phi(learner), make_buffer(experiment), make_order(experiment), []
    for _ in range(2):
        learner.begin(KEYS, phi, 0.0, 0.01)
        for _ in range(2):
            learner.update(*buffer, order)
        hashes.append(learner.hashes().tolist())
    assert hashes[0] == hashes[1] and len(set(hashes[0])) == P


def test_hashes_cover_policy_and_memory(experiment):
    learner = Learner(P, O, A, False, experiment, measure_kl=False)
    learner.begin(KEYS, make_phi(learner), 0.0, 0.01)
    weights = [*learner.weights(), learner.agent.memory.kernel.numpy()]
    first = learner.hashes()
    assert first[1] == hashlib.sha256(b"".join(w[1].tobytes() for w in weights)).hexdigest()
    learner.agent.memory.kernel.assign_add(np.stack([np.full((2, 3), 1e-3), np.zeros((2, 3))]))
    assert learner.hashes()[0] != first[0] and learner.hashes()[1] == first[1]


def test_finite_rows_and_zero_rows():
    gradients = [tf.constant([[1.0, 2.0], [np.inf, 0.0], [1.0, 1.0]]), tf.constant([0.5, 1.0, np.nan])]
    fine = finite_rows([gradients[0], gradients[1][:, None]])
    assert fine.numpy().tolist() == [True, False, False]
    np.testing.assert_array_equal(zero_rows(gradients[0], fine), [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]])


def test_a_gradient_that_is_not_finite_moves_nothing_of_its_life(experiment):
    """That life keeps the policy it had, and its neighbour learns on as ever."""
    learner = Learner(P, O, A, False, experiment, measure_kl=False)
    phi, buffer, order, hashes = make_phi(learner), make_buffer(experiment), make_order(experiment), []
    for broken in (False, True):
        phi[1] = np.nan if broken else phi[1]
        learner.begin(KEYS, phi, 0.0, 0.01)
        born = learner.hashes()
        finite, _ = learner.update(*buffer, order)
        assert finite.tolist() == [True, not broken]
        hashes.append(learner.hashes())
    assert hashes[1][0] == hashes[0][0] != born[0] and hashes[1][1] == born[1] != hashes[0][1]
    assert all(np.isfinite(weight).all() for weight in learner.weights())
