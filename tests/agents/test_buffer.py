"""Tests epg_tf.agents.buffer."""

from __future__ import annotations

import numpy as np

from epg_tf.agents.buffer import Buffer
from epg_tf.core.types import EnvironmentSpec
from epg_tf.tasks.base import StepResult

P, N, M, O, A = 2, 10, 4, 3, 2  # noqa: E741 (the legend's letter)
LIFE = np.array([1000.0, 2000.0])


def marked(number, life_offset=LIFE):
    """Returns (observation, action, StepResult) of a step that can be told by its numbers."""
    mark = number + life_offset
    observation = mark[:, None] + np.array([0.1, 0.2, 0.3])
    action = mark[:, None] + np.array([0.4, 0.5])
    result = StepResult(
        observation + 50.0,
        mark + 0.6,
        np.array([number % 3 == 0, number % 2 == 0]),
        np.array([number % 2 == 1, False]),
        np.zeros(P, bool),
        np.zeros(P, bool),
    )
    return observation, action, result


def filled(periods):
    """Returns a buffer after that many periods; steps are counted from 1."""
    buffer = Buffer(P, N, M, EnvironmentSpec(O, A))
    for period in range(periods):
        buffer.make_room()
        for step in range(M):
            buffer.write(step, *marked(1 + period * M + step))
    return buffer


def test_a_fresh_buffer_holds_n_zero_tuples():
    buffer = filled(0)
    for name, shape in (
        ("observation", (P, N, O)),
        ("action", (P, N, A)),
        ("reward", (P, N)),
        ("terminated", (P, N)),
        ("truncated", (P, N)),
        ("next_observation", (P, M, O)),
        ("lived", (N,)),
    ):
        array = getattr(buffer, name)
        assert array.shape == shape and array.dtype == np.float32 and not array.any(), name


def test_steps_are_oldest_first_and_padding_comes_before_them():
    """N = 10 is no multiple of M = 4: the third period pushes out the two oldest steps."""
    for periods, expected in (
        (1, [0] * 6 + [1, 2, 3, 4]),
        (2, [0] * 2 + [1, 2, 3, 4, 5, 6, 7, 8]),
        (3, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
    ):
        buffer, expected = filled(periods), np.array(expected)
        lived = expected > 0
        np.testing.assert_array_equal(buffer.lived, lived)
        for life in range(P):
            marks = np.where(lived, expected + LIFE[life], 0.0)
            np.testing.assert_allclose(buffer.reward[life], marks + 0.6 * lived, rtol=1e-6)
            np.testing.assert_allclose(
                buffer.observation[life, :, 1], marks + 0.2 * lived, rtol=1e-6
            )
            np.testing.assert_allclose(buffer.action[life, :, 1], marks + 0.5 * lived, rtol=1e-6)
        np.testing.assert_array_equal(buffer.terminated[0], lived & (expected % 3 == 0))
        np.testing.assert_array_equal(buffer.terminated[1], lived & (expected % 2 == 0))
        np.testing.assert_array_equal(buffer.truncated[0], lived & (expected % 2 == 1))
        assert not buffer.truncated[1].any()


def test_the_buffer_counts_the_steps_of_episodes_and_of_the_life():
    """Life 1 ends an episode at every even step. An episode that goes on when the buffer moves is
    not counted anew, and a cut begins another one.
    """
    buffer = Buffer(P, N, M, EnvironmentSpec(O, A))
    buffer.clear(life_steps=16)
    for period in range(3):
        buffer.make_room()
        for step in range(M):
            buffer.write(step, *marked(1 + period * M + step))
    np.testing.assert_array_equal(buffer.episode_step()[1], [0, 1] * 5)
    np.testing.assert_array_equal(buffer.time_in_life, np.arange(2, 12) / 16)
    buffer = Buffer(P, N, M, EnvironmentSpec(O, A))
    for _ in range(2):
        buffer.make_room()
        for step in range(M):
            buffer.write(step, *marked(2))  # which ends no episode of life 0
        buffer.cut()
    np.testing.assert_array_equal(buffer.episode_step()[0], [0, 0, 0, 1, 2, 3, 0, 1, 2, 3])
    assert not buffer.time_in_life.any()


def test_next_observation_covers_the_newest_period():
    buffer = filled(3)
    np.testing.assert_allclose(
        buffer.next_observation, buffer.observation[:, -M:] + 50.0, rtol=1e-6
    )


def test_newest_lays_observation_action_reward_side_by_side():
    newest = filled(2).newest()
    assert newest.shape == (P, M, O + A + 1)
    expected = (
        np.arange(5, 9)[None, :, None]
        + LIFE[:, None, None]
        + np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    )
    np.testing.assert_allclose(newest, expected, rtol=1e-6)


def test_a_buffer_of_one_period_forgets_all_of_the_last():
    buffer = Buffer(P, M, M, EnvironmentSpec(O, A))
    for number in (1, 5):
        buffer.make_room()
        for step in range(M):
            buffer.write(step, *marked(number + step))
    np.testing.assert_allclose(buffer.reward[0], np.arange(5, 9) + 1000.6, rtol=1e-6)
    assert buffer.lived.all()


def test_the_buffer_keeps_copies():
    """The simulation reuses its arrays; what was recorded must not move with them."""
    buffer = Buffer(P, N, M, EnvironmentSpec(O, A))
    buffer.make_room()
    observation, action, result = marked(1)
    buffer.write(0, observation, action, result)
    before = buffer.newest().copy()
    for array in (observation, action, result.reward, result.observation):
        array += 7.0
    np.testing.assert_array_equal(buffer.newest(), before)


def test_an_episode_of_one_life_does_not_go_on_in_the_next():
    buffer = Buffer(P, N, M, EnvironmentSpec(O, A))
    for _ in range(2):
        buffer.clear(life_steps=8)
        buffer.make_room()
        for step in range(M):
            buffer.write(step, *marked(2))  # which ends no episode of life 0
        np.testing.assert_array_equal(buffer.episode_step()[0, -M:], np.arange(M))
        np.testing.assert_array_equal(buffer.time_in_life[-M:], np.arange(M) / 8)


def test_clear_restores_padding():
    buffer = filled(3)
    buffer.clear()
    for array in (
        buffer.observation,
        buffer.action,
        buffer.reward,
        buffer.terminated,
        buffer.truncated,
        buffer.lived,
        buffer.episode_step(),
        buffer.time_in_life,
    ):
        assert not array.any()
