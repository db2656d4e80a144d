"""Tests epg_tf.algorithms.distillation."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.algorithms.distillation import Distiller, Nudged, distil
from epg_tf.algorithms.evolution import evolve, initial_phi
from epg_tf.random_keys import life_generator
from epg_tf.types import LifeKey

P, N, M, O, A = 4, 32, 8, 4, 2  # noqa: E741 (the legend's letter)


@pytest.fixture
def make_distiller(make_tiny):
    """A function: changes of settings -> a distiller with agents whose policies are not at zero."""

    def make(discrete=False, **changes) -> Distiller:
        experiment = make_tiny(policy={"hidden": (8,), "output_scale": 0.5}, **changes)
        distiller = Distiller(P, O, A, discrete, experiment, False)
        size = sum(int(np.prod(shape)) for shape in distiller.loss.shapes.values())
        phi = 0.3 * np.random.default_rng(0).standard_normal(size).astype(np.float32)
        distiller.begin([LifeKey(0, "test", 0, i) for i in range(P)], np.repeat(phi[None], P, axis=0), 1.0, 0.0)
        return distiller

    return make


@pytest.mark.parametrize("discrete", [False, True])
def test_a_nudge_moves_the_newest_answers_and_what_states_share(make_distiller, discrete):
    policy = make_distiller(discrete).agent.policy
    observation = tf.constant(np.random.default_rng(1).standard_normal((P, N, O)).astype(np.float32))
    shared = tf.ones_like(policy.state_independent)
    nudged = Nudged(policy, tf.fill([P, M, A], 2.0), shared)
    difference = (nudged(observation) - policy(observation)).numpy()
    assert not difference[:, :-M].any()
    np.testing.assert_allclose(difference[:, -M:], 2.0, rtol=1e-5)
    np.testing.assert_array_equal(nudged.state_independent, policy.state_independent + shared)
    nothing = Nudged(policy, tf.zeros([P, M, A]), tf.zeros_like(shared))
    np.testing.assert_array_equal(nothing.seen_by_losses(observation), policy.seen_by_losses(observation))
    np.testing.assert_array_equal(nothing.distribution(observation).log_prob(policy.seen_by_losses(observation)),
                                  policy.distribution(observation).log_prob(policy.seen_by_losses(observation)))


def test_what_the_surrogate_wants_is_advantage_times_score(make_distiller, make_experience):
    """REINFORCE: -A (a - mean) / deviation^2 for means, and -A ((a - mean)^2 / deviation^2 - 1) for log deviations."""
    distiller = make_distiller(surrogate={"kind": "reinforce", "value_hidden": (8,)})
    experience = make_experience(P, N, M, O, A)
    means, shared = distiller._gradients(distiller.surrogate, experience)
    prepared = distiller.surrogate.prepare(distiller.agent, experience)
    advantage, error = prepared.advantage[:, :, None], prepared.action - prepared.answer
    variance = tf.exp(2.0 * prepared.state_independent)[:, None]
    np.testing.assert_allclose(means, -advantage * error / variance, rtol=1e-4, atol=1e-5)
    expected = tf.reduce_mean(-advantage * (tf.square(error) / variance - 1.0), axis=1)
    np.testing.assert_allclose(shared, expected, rtol=1e-4, atol=1e-5)


def test_what_the_learned_loss_wants_is_its_gradient(make_distiller, make_experience):
    """Of single steps it is the gradient of a minibatch of all M, taken M times."""
    distiller = make_distiller()
    experience, agent = make_experience(P, N, M, O, A), distiller.agent
    means, _ = distiller._gradients(distiller.loss, experience)
    steps, change, size = tf.tile(tf.range(M)[None], [P, 1]), np.zeros((P, M, A), np.float32), 1e-2
    change[:, 3, 1] = size
    losses = [distiller.loss.per_step(
        type("Agent", (), {"policy": Nudged(agent.policy, sign * change, tf.zeros([P, A])),
                           "memory_output": staticmethod(agent.memory_output)}),
        distiller.loss.prepare(agent, experience), steps).numpy() for sign in (1.0, -1.0)]
    np.testing.assert_allclose(means[:, 3, 1], M * (losses[0] - losses[1]) / (2 * size), rtol=0.05, atol=2e-3)


def test_what_is_wanted_does_not_depend_on_the_reduction(make_distiller, make_experience):
    """A sum over M steps is M times their mean, but a step by itself is the same step."""
    experience = make_experience(P, N, M, O, A)
    mean, total = (make_distiller(loss={"reduction": reduction}) for reduction in ("mean", "sum"))
    wanted = (distiller._gradients(distiller.loss, experience) for distiller in (mean, total))
    for one, other in zip(*wanted, strict=True):
        assert np.abs(one).max() > 1e-3
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("discrete", [False, True])
def test_fitting_again_and_again_brings_the_gradients_together(make_distiller, make_experience, discrete):
    """Four lives of eight steps can be learned by heart, reward declared; all rows of phi stay the same."""
    distiller = make_distiller(discrete, loss={"reward": True, "head": 16}, distillation={"learning_rate": 1e-2})
    experience = make_experience(P, N, M, O, A, discrete=discrete)
    distiller._normalised = lambda raw: experience
    fit = tf.function(lambda: distiller._fit(None))
    agreements = [float(fit()) for _ in range(300)]
    assert agreements[0] < 0.4 and agreements[-1] > 0.6, agreements[::50]
    for part in distiller.loss.parts.values():
        np.testing.assert_array_equal(part, np.repeat(part[:1], P, axis=0))


def test_a_life_that_failed_does_not_spoil_phi(make_distiller, make_experience):
    """One life's observations and rewards are not numbers: phi moves, as the other three want, and stays finite."""
    distiller, experience = make_distiller(), make_experience(P, N, M, O, A)
    poison = tf.constant([np.nan, 1.0, 1.0, 1.0])[:, None]
    spoilt = experience._replace(observation=experience.observation * poison[:, None],
                                 raw_reward=experience.raw_reward * poison)
    distiller._normalised = lambda raw: spoilt
    before = distiller.phi()
    agreement = float(distiller._fit(None))
    assert np.isfinite(agreement) and np.isfinite(distiller.phi()).all() and (distiller.phi() != before).any()
    for part in distiller.loss.parts.values():
        np.testing.assert_array_equal(part, np.repeat(part[:1], P, axis=0))


def test_distillation_starts_evolution(make_tiny):
    """It costs env steps, gives the same bits again, and leaves validation and evolution what they are."""
    experiment = make_tiny(distillation={"rounds": 2}, evolution={"epochs": 1})
    start = initial_phi(experiment, 0)
    rounds = list(distil(experiment, 0, start))
    assert [r.env_steps for r in rounds] == [P * (3 * M + 3 * 6), 2 * P * (3 * M + 3 * 6)]
    assert all(0 < abs(r.agreement) <= 1 for r in rounds) and rounds[0].agreement != rounds[1].agreement
    assert (rounds[0].phi != start).any() and (rounds[1].phi != rounds[0].phi).any()
    np.testing.assert_array_equal(list(distil(experiment, 0, start))[1].phi, rounds[1].phi)
    (result,), (plain,) = (list(evolve(each, 0)) for each in (experiment, make_tiny(evolution={"epochs": 1})))
    assert result.state.env_steps == plain.state.env_steps + rounds[1].env_steps
    assert np.abs(result.state.phi - rounds[1].phi).max() <= experiment.evolution.learning_rate * 1.001
    assert life_generator(LifeKey(0, "distillation", 0, 0), "task").random() != life_generator(
        LifeKey(0, "evolution", 0, 0), "task").random()
