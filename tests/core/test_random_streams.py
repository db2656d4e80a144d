"""Tests epg_tf.core.random_streams."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from epg_tf.core import random_streams
from epg_tf.core.random_streams import (
    PHASES,
    PURPOSES,
    life_generator,
    loss_generator,
    noise_vector,
)
from epg_tf.core.types import LifeKey

KEY = LifeKey(seed=7, phase="evolution", epoch=3, index=11)
GOLDEN_ACTION = [1.3389520315138819, 1.198381541099142, -1.7561558216023043, 0.1644780896417265]
GOLDEN_NOISE = [2.3041189, 0.4127116, -0.77695775, 0.13781384]
GOLDEN_LOSS = [-0.7969519139059715, 0.02463804932539474, -1.4869025317960936, -0.7325462216058005]
GOLDEN_ORDER = [6, 4, 5, 7, 1, 2, 0, 3]


def draw(key, purpose="action"):
    """Returns the first numbers of a stream."""
    return tuple(life_generator(key, purpose).standard_normal(4))


def test_purposes_and_phases_are_all_different_streams():
    streams = [
        draw(dataclasses.replace(KEY, phase=phase), purpose)
        for phase in PHASES
        for purpose in PURPOSES
    ]
    numbers = {number for stream in streams for number in stream}
    assert len(numbers) == 4 * len(PHASES) * len(PURPOSES)


def test_small_keys_do_not_collide():
    """Exchanging or shifting components never meets another stream, noise and initial loss
    included.
    """
    streams = {
        draw(LifeKey(seed, "evolution", epoch, index), "task")
        for seed, epoch, index in itertools.product(range(3), repeat=3)
    }
    streams |= {
        tuple(noise_vector(s, e, v, 4)) for s, e, v in itertools.product(range(3), repeat=3)
    }
    streams |= {tuple(loss_generator(seed).standard_normal(4)) for seed in range(3)}
    assert len(streams) == 27 + 27 + 3


def test_unknown_names_are_refused():
    with pytest.raises(ValueError):
        life_generator(dataclasses.replace(KEY, phase="training"), "action")
    with pytest.raises(ValueError):
        life_generator(KEY, "noise")


def test_noise_does_not_depend_on_the_order_of_asking():
    """Any worker can compute any vector, in any order, as often as it likes."""
    forwards = [noise_vector(1, 2, v, 9).tobytes() for v in range(6)]
    backwards = [noise_vector(1, 2, v, 9).tobytes() for v in reversed(range(6))]
    assert forwards == backwards[::-1] and len(set(forwards)) == 6


def test_noise_is_standard_normal():
    noise = np.stack(
        [noise_vector(0, epoch, vector, 1000) for epoch in range(4) for vector in range(25)]
    )
    assert noise.dtype == np.float32
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)  # four standard errors
    assert abs(noise.std() - 1) < 4 / np.sqrt(2 * noise.size)
    # Of 4950 pairs, each with deviation 0.032.
    assert np.abs(np.corrcoef(noise) - np.eye(100)).max() < 0.17


def test_the_numbers_never_change():
    """Golden values: published losses and resumed runs rest on them."""
    assert random_streams.PHASES[:5] == ("evolution", "validation", "tuning", "test", "benchmark")
    names = "task policy action reset minibatch final_action final_reset critic"
    assert random_streams.PURPOSES[:8] == tuple(names.split())
    np.testing.assert_allclose(draw(KEY), GOLDEN_ACTION, rtol=1e-12)
    np.testing.assert_allclose(noise_vector(7, 3, 11, 4), GOLDEN_NOISE, rtol=1e-6)
    np.testing.assert_allclose(loss_generator(7).standard_normal(4), GOLDEN_LOSS, rtol=1e-12)
    assert life_generator(KEY, "minibatch").permutation(8).tolist() == GOLDEN_ORDER
