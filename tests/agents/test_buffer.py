"""Tests epg_tf.agents.buffer."""

from __future__ import annotations

import numpy as np

from epg_tf.agents.buffer import Buffer
from epg_tf.core.types import EnvironmentSpec
from epg_tf.tasks.base import StepResult

P, N, M, O, A = 2, 10, 4, 3, 2  # noqa: E741 (the legend's letter)


def marked(number):
    """Returns (observation, action, StepResult) of a step that can be told by its numbers."""
    mark = number + np.array([1000.0, 2000.0])
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


def test_the_buffer_counts_the_steps_of_the_life():
    """Each life anew; not where the length of a life is not known."""
    buffer = Buffer(P, N, M, EnvironmentSpec(O, A))
    buffer.clear(life_steps=16)
    for period in range(3):
        buffer.make_room()
        for step in range(M):
            buffer.write(step, *marked(1 + period * M + step))
    np.testing.assert_array_equal(buffer.time_in_life, np.arange(2, 12) / 16)
    buffer.clear(life_steps=8)
    buffer.make_room()
    np.testing.assert_array_equal(buffer.time_in_life, [*[0.0] * (N - M), *np.arange(M) / 8])
    buffer.clear()
    buffer.make_room()
    assert not buffer.time_in_life.any()


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
