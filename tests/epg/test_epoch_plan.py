"""Tests epg_tf.epg.epoch_plan: the noise on phi, and that it may become smaller."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.core.random_streams import noise_vector
from epg_tf.epg.epoch_plan import PerturbedPhi, noise_deviation
from epg_tf.epg.evolution_settings import EvolutionConfig
from epg_tf.epg.outer_loop import es_step
from epg_tf.epg.state import EvolutionState

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
