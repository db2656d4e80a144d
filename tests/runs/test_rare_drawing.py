"""Tests that pictures take about one per cent of a run's time, however long they take."""

from __future__ import annotations

import pytest

from epg_tf.runs.rare_drawing import RareDrawing


class Clock:
    """Time that passes only where a test says so."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("seconds_each", "epochs", "epoch_seconds", "drawn"),
    [
        (5.0, 1, 0.1, 1),  # the first epoch draws
        (0.3, 50, 40.0, 50),  # a quick picture of slow epochs is always new
        (0.5, 4000, 1.0, 80),  # a slow one takes one per cent: one every 50 s
    ],
)
def test_how_often_a_picture_is_drawn(seconds_each, epochs, epoch_seconds, drawn):
    clock, times = Clock(), []

    def draw():
        clock.now += seconds_each
        times.append(clock.now)

    picture = RareDrawing(draw, clock)
    for _ in range(epochs):
        clock.now += epoch_seconds
        picture.update()
    assert len(times) == drawn
    picture.draw()  # in any case, at the end
    assert len(times) == drawn + 1
