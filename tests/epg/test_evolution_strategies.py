"""Tests epg_tf.epg.evolution_strategies, diagnostics and epoch_plan."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import pytest

from epg_tf.core.optimizers import annealed
from epg_tf.core.random_streams import noise_vector
from epg_tf.epg import diagnostics, evolution_strategies
from epg_tf.epg.epoch_plan import PerturbedPhi, noise_deviation
from epg_tf.epg.evolution_settings import EvolutionConfig
from epg_tf.epg.outer_loop import es_step
from epg_tf.epg.state import EvolutionState
from tests import reference

NAN = float("nan")


def noise(vector):
    """Returns epsilon_v."""
    return noise_vector(0, 0, vector, 6)


@pytest.mark.parametrize(
    ("lives", "vectors"), [(256, 64), (8, 4), (8, 8), (6, 2), (12, 3), (640, 128)]
)
def test_assignment_is_the_papers(lives, vectors):
    """Vector ceil(w V / W) of section 3.2, which counts lives and vectors from 1."""
    for w in range(1, lives + 1):
        assert evolution_strategies.vector_of_life(w - 1, lives, vectors) + 1 == math.ceil(
            w * vectors / lives
        )


@pytest.mark.parametrize(
    "fitness",
    [
        [3.0, -1.0, 2.0],
        [1.0, 1.0, 1.0, 1.0],
        [0.0, 5.0, 5.0, -2.0, 5.0],
        [NAN, 1.0, 2.0],
        [NAN, NAN, 1.0, 1.0],
        [NAN, NAN],
        [2.0, 1.0],
        [-np.inf, NAN, np.inf],
    ],
)
def test_ranks_equal_the_reference(fitness):
    np.testing.assert_allclose(
        evolution_strategies.centred_ranks(np.array(fitness)),
        reference.centred_ranks(fitness),
        atol=1e-12,
    )


def test_literal_ranks():
    np.testing.assert_allclose(
        evolution_strategies.centred_ranks(np.array([3.0, -1.0, 2.0])), [0.5, -0.5, 0.0]
    )
    np.testing.assert_allclose(
        evolution_strategies.centred_ranks(np.array([7.0, 7.0, 0.0])), [0.25, 0.25, -0.5]
    )
    np.testing.assert_allclose(
        evolution_strategies.centred_ranks(np.array([NAN, -1e30, 0.0])), [-0.5, 0.0, 0.5]
    )
    assert not evolution_strategies.centred_ranks(np.full(4, NAN)).any()  # nothing known: no step


def test_failures_count_as_the_worst_of_the_others():
    np.testing.assert_array_equal(
        evolution_strategies.failures_as_worst(np.array([2.0, NAN, -1.0])), [2.0, -1.0, -1.0]
    )
    np.testing.assert_array_equal(
        evolution_strategies.failures_as_worst(np.array([NAN, NAN])), [0.0, 0.0]
    )


def test_mean_per_vector_counts_a_failed_life_as_the_worst_of_all():
    """A loss gains nothing by making lives fail; a vector without any life left ranks last."""
    returns = np.array([1.0, 3.0, NAN, 5.0, NAN, NAN, -2.0, -4.0])
    fitness = evolution_strategies.mean_per_vector(returns, 4)
    np.testing.assert_array_equal(fitness, [2.0, (-4.0 + 5.0) / 2, NAN, -3.0])
    assert evolution_strategies.centred_ranks(fitness)[2] == -0.5
    assert np.isnan(evolution_strategies.mean_per_vector(np.full(4, NAN), 2)).all()


@pytest.mark.parametrize("antithetic", [False, True])
def test_gradient_equals_the_reference(antithetic):
    weights = np.random.default_rng(0).standard_normal(8)
    epsilons = [noise(v) for v in range(8)]
    if antithetic:
        epsilons = [sign * epsilon for epsilon in epsilons[:4] for sign in (1.0, -1.0)]
    found = evolution_strategies.gradient_estimate(weights, noise, 0.02, antithetic)
    np.testing.assert_allclose(found, reference.es_gradient(weights, epsilons, 0.02), rtol=1e-12)
    assert found.dtype == np.float64


def test_antithetic_noise_sums_to_zero():
    pairs = [evolution_strategies.perturbation(noise, v, True) for v in range(8)]
    assert not np.sum(pairs, axis=0).any()
    for v in range(0, 8, 2):
        np.testing.assert_array_equal(pairs[v], -pairs[v + 1])
        np.testing.assert_array_equal(pairs[v], noise(v // 2))
    constant = evolution_strategies.gradient_estimate(np.full(8, 3.0), noise, 0.1, True)
    assert not constant.any()  # a constant fitness gives no direction


def test_schedule_is_a_straight_line_and_then_flat():
    assert [annealed(1.0, 0.0, 4, epoch) for epoch in range(6)] == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    assert annealed(1e-2, 1e-3, 2000, 1000) == pytest.approx(5.5e-3)
    assert annealed(1.0, 0.2, 0, 0) == 0.2  # no epochs of annealing: the end at once


def test_ranks_within_groups_are_those_of_each_group():
    returns, groups = np.array([1.0, 100.0, 3.0, 200.0, 2.0, NAN]), np.array([0, 7, 0, 7, 0, 7])
    np.testing.assert_array_equal(
        evolution_strategies.ranks_within(returns, groups), [-0.5, 0.0, 0.5, 0.5, 0.0, -0.5]
    )
    everyone = np.zeros(6, int)
    np.testing.assert_array_equal(
        evolution_strategies.ranks_within(returns, everyone),
        evolution_strategies.centred_ranks(returns),
    )


def test_lifetimes_reach_both_ends():
    assert evolution_strategies.lifetime(0.0, 4, 64) == 4
    assert evolution_strategies.lifetime(np.nextafter(1.0, 0.0), 4, 64) == 64
    assert evolution_strategies.lifetime(0.5, 5, 5) == 5


@pytest.mark.parametrize("shortest, longest", [(1, 2), (4, 64), (5, 5)])
def test_the_mean_lifetime_is_that_of_the_draws(shortest, longest):
    draws = [
        evolution_strategies.lifetime(uniform, shortest, longest)
        for uniform in (np.arange(10**5) + 0.5) / 10**5
    ]
    assert evolution_strategies.mean_lifetime(shortest, longest) == pytest.approx(
        np.mean(draws), rel=1e-4
    )
    assert evolution_strategies.mean_lifetime(1, 2) == pytest.approx(
        1.3690702
    )  # 1 with probability log 2 / log 3


@functools.cache  # drawing takes longest
def noise_of(trial, size, vector):
    return noise_vector(trial, 0, vector, size)


@pytest.mark.parametrize("antithetic", [False, True])
@pytest.mark.parametrize(("slope", "noise"), [(1.0, 3.0), (0.0, 1.0)])
def test_signal_to_noise_is_unbiased(antithetic, slope, noise):
    """Of a linear fitness, slope . epsilon + luck, expectation and variance of the estimate are
    known.
    """
    size, vectors, sigma, found = 20, 64, 1.0, []
    for trial in range(400):
        generator = np.random.default_rng(trial)
        noise_of_vector = functools.partial(noise_of, trial, size)
        epsilons = [
            evolution_strategies.perturbation(noise_of_vector, v, antithetic)
            for v in range(vectors)
        ]
        weights = np.array([slope * e[0] for e in epsilons]) + noise * generator.standard_normal(
            vectors
        )
        ascent = evolution_strategies.gradient_estimate(weights, noise_of_vector, sigma, antithetic)
        found.append(diagnostics.signal_to_noise(ascent, weights, sigma, antithetic))
    count, luck = (vectors // 2, noise**2 / 2) if antithetic else (vectors, noise**2)
    expected = slope**2 / (((slope**2 + luck) * size - slope**2) / count)
    assert np.mean(found) == pytest.approx(expected, rel=0.15, abs=0.05)


def test_signal_to_noise_of_nothing_is_nan():
    assert np.isnan(diagnostics.signal_to_noise(np.zeros(3), np.zeros(4), 0.1, True))


CONSTANT = EvolutionConfig(
    lives=4, noise_vectors=4, antithetic=True, sigma=0.1, learning_rate_epochs=8, l2=0.0
)
ANNEALED = dataclasses.replace(CONSTANT, final_sigma=0.02)


def state_at(epoch, size=5):
    """Returns a state of this epoch, phi all ones."""
    ones, zeros = np.ones(size, np.float32), np.zeros(size, np.float32)
    return EvolutionState(epoch, ones, zeros, 0, ones, -np.inf, zeros)


def test_the_deviation_of_the_noise_falls_in_a_line_and_stays():
    found = [noise_deviation(ANNEALED, epoch) for epoch in (0, 2, 4, 8, 100)]
    np.testing.assert_allclose(found, [0.1, 0.08, 0.06, 0.02, 0.02], rtol=1e-12)
    assert {noise_deviation(CONSTANT, epoch) for epoch in (0, 2, 8, 100)} == {0.1}


@pytest.mark.parametrize(("epoch", "sigma"), [(0, 0.1), (4, 0.06), (8, 0.02)])
def test_lives_get_the_noise_of_their_epoch(epoch, sigma):
    state = state_at(epoch)
    phi_of_life = PerturbedPhi(ANNEALED, 3, state, cached=2)
    for life, sign in enumerate((1, -1, 1, -1)):
        noise = np.float64(noise_vector(3, epoch, life // 2, 5))
        np.testing.assert_allclose(phi_of_life(life), 1.0 + sign * sigma * noise, atol=1e-6)


def test_steps_do_not_grow_where_the_noise_becomes_smaller():
    """The same weights move phi by the same step, whatever sigma has become."""
    weights = np.array([0.5, -0.5, 0.1, -0.1])
    for epoch in (0, 6, 50):
        steps = [es_step(state_at(epoch), weights, c, 3)[0] for c in (CONSTANT, ANNEALED)]
        assert (steps[0].phi == steps[1].phi).all() and (steps[0].phi != 1.0).any()
        assert (steps[0].second_moment == steps[1].second_moment).all()
