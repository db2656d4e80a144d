"""Tests epg_tf.baselines.linear_baseline."""

from __future__ import annotations

import numpy as np

from epg_tf.baselines.linear_baseline import (
    Visited,
    complete,
    features,
    returns_to_go,
    standardised_advantages,
    steps_into_episode,
    values,
)
from epg_tf.losses.surrogates import Steps

LIMIT = 5


def life(steps=23, size=3):
    """Returns samples of one life whose episodes last `LIMIT` steps; the newest is cut off."""
    generator = np.random.default_rng(0)
    observation = generator.standard_normal((steps + 1, size)).astype(np.float32)
    number = np.arange(steps) % LIMIT
    return Visited(
        observation[None, :-1],
        observation[None, 1:],
        number[None] / LIMIT,
        number[None] == LIMIT - 1,
    )


def fitted(visited, returns):
    return values(visited, 1.0 / LIMIT, returns)


def test_steps_count_anew_in_each_episode():
    ended = np.zeros((2, 7), bool)
    ended[1, [1, 2, 5]] = True
    found = steps_into_episode(ended)
    np.testing.assert_array_equal(found, [[0, 1, 2, 3, 4, 5, 6], [0, 1, 0, 0, 1, 2, 0]])


def test_features_are_those_of_the_paper():
    found = features(np.array([[2.0, -30.0]]), np.array([0.5]))
    np.testing.assert_array_equal(found, [[2, -10, 4, 100, 0.5, 0.25, 0.125, 1]])


def test_a_linear_return_is_found_before_and_after_each_step():
    visited = life()
    truth = np.linspace(-1.0, 1.0, 10)
    returns = features(visited.observation[0], visited.time[0])[None] @ truth
    value, following = fitted(visited, returns)
    np.testing.assert_allclose(value, returns, atol=1e-2)
    there = features(visited.reached[0], visited.time[0] + 1.0 / LIMIT)[None] @ truth
    np.testing.assert_allclose(following[~visited.ended], there[~visited.ended], atol=2e-2)
    assert not following[visited.ended].any()


def test_the_ridge_is_a_share_of_the_number_of_samples():
    """Only the constant feature is not 0: its weight is sum(R) / (T + 1e-5 T)."""
    nothing = np.zeros((1, 20, 3))
    visited = Visited(nothing, nothing, np.zeros((1, 20)), np.arange(20)[None] == 19)
    value, _ = values(visited, 0.0, np.full((1, 20), 7.0))
    np.testing.assert_allclose(value, 7.0 / 1.00001, rtol=3e-7)


def test_an_episode_that_was_cut_off_takes_no_part_unless_it_is_the_only_one():
    visited, returns = life(), np.arange(23.0)[None]
    changed = np.where(complete(visited.ended[0]), returns, 1e3)
    np.testing.assert_array_equal(fitted(visited, returns)[0], fitted(visited, changed)[0])
    ended = np.array([False, True, False, False])
    np.testing.assert_array_equal(complete(ended), [True, True, False, False])
    assert complete(np.zeros(4, bool)).all()


def test_returns_end_with_their_episode():
    reward = np.array([[1.0, 2.0, 4.0, 8.0]], np.float32)
    terminated = np.array([[0, 1, 0, 0]], np.float32)
    found = returns_to_go(reward, terminated, np.zeros_like(reward), 0.5)
    np.testing.assert_allclose(found, [[2.0, 2.0, 8.0, 8.0]])
    truncated = returns_to_go(reward, np.zeros_like(reward), terminated, 0.5)
    np.testing.assert_array_equal(found, truncated)  # a time limit is an end


def test_advantages_are_standardised_in_each_life():
    reward = np.random.default_rng(0).standard_normal((2, 7)).astype(np.float32)
    nothing = np.zeros_like(reward)
    found = standardised_advantages(Steps(reward, *[nothing] * 4), 0.9, 1.0).numpy()
    np.testing.assert_allclose(found.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(found.std(axis=1), 1, atol=1e-5)
