"""Tests epg_tf.epg.diagnostics."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from epg_tf.core.random_streams import noise_vector
from epg_tf.epg import diagnostics, evolution_strategies


def noise_of(trial, size, vector):
    return noise_vector(trial, 0, vector, size)


def test_cosine():
    assert diagnostics.cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(
        np.sqrt(0.5)
    )
    assert np.isnan(diagnostics.cosine(np.zeros(2), np.ones(2)))


@pytest.mark.parametrize("antithetic", [False, True])
@pytest.mark.parametrize(("slope", "noise"), [(1.0, 0.0), (1.0, 3.0), (0.0, 1.0)])
def test_signal_to_noise_is_unbiased(antithetic, slope, noise):
    """Of a linear fitness, slope . epsilon + luck, expectation and variance of the estimate are
    known.
    """
    size, vectors, sigma, found = 20, 64, 1.0, []
    for trial in range(400):
        generator = np.random.default_rng(trial)
        noise_of_vector = functools.cache(functools.partial(noise_of, trial, size))
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
