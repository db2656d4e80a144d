"""Tests that pictures take about one per cent of a run's time, however long they take."""

from __future__ import annotations

from epg_tf.runs.rare_drawing import RareDrawing


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def drawings(seconds_each, epochs, epoch_seconds):
    """Returns how often a picture is drawn in a run of some epochs."""
    clock, times = Clock(), []

    def draw():
        clock.now += seconds_each
        times.append(clock.now)

    picture = RareDrawing(draw, clock)
    for _ in range(epochs):
        clock.now += epoch_seconds
        picture.update()
    return len(times)


def test_the_first_epoch_draws():
    assert drawings(5.0, 1, 0.1) == 1


def test_a_quick_picture_of_slow_epochs_is_always_new():
    assert drawings(0.3, 50, 40.0) == 50


def test_a_slow_picture_takes_one_per_cent():
    assert drawings(0.5, 4000, 1.0) == 80  # one every 50 s


def test_the_end_draws_in_any_case():
    clock, times = Clock(), []
    picture = RareDrawing(lambda: times.append(clock.now), clock)
    picture.draw()
    picture.draw()
    assert len(times) == 2
