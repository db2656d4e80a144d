"""Tests epg_tf.runs.pace with a clock that the test moves."""

from __future__ import annotations

import threading
import time

import pytest

from epg_tf.runs.pace import LINE_SECONDS, SILENT_SECONDS, Pace, Reminder


class Clock:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_the_estimate_leaves_the_first_epoch_out(clock):
    pace = Pace(10, 4, clock)
    clock.now += 60
    pace.end_epoch()
    assert pace.left() is None
    clock.now += 2
    pace.end_epoch()
    assert pace.left() == pytest.approx(4 * 2.0) and pace.spent() == 62


def test_the_estimate_follows_the_newest_epochs(clock):
    """A run that becomes slower by three is estimated right after another twenty epochs."""
    pace = Pace(100, 0, clock)
    for seconds in [30.0, *[1.0] * 20, *[3.0] * 20]:
        clock.now += seconds
        pace.end_epoch()
    assert pace.left() == pytest.approx(59 * 3.0)


def test_lines_are_due_by_time(clock):
    pace = Pace(10, 0, clock)
    assert not pace.due()
    clock.now += LINE_SECONDS
    assert pace.due() and not pace.due()
    clock.now += LINE_SECONDS - 1
    pace.end_epoch()
    assert not pace.due()


def test_nothing_is_left_after_the_last_epoch(clock):
    pace = Pace(2, 0, clock)
    for _ in range(2):
        clock.now += 5
        pace.end_epoch()
    assert pace.left() == 0


def test_a_long_epoch_is_not_silent(clock):
    """The reminder speaks after a minute without lines, not before, and never after its end."""
    pace, said, spoke = Pace(10, 0, clock), [], threading.Event()

    def remind():
        said.append(clock.now)
        spoke.set()

    reminder = Reminder(pace, remind, interval=0.001)
    clock.now += LINE_SECONDS
    assert not spoke.wait(0.05) and pace.due()  # the end of an epoch may say something before
    clock.now += SILENT_SECONDS
    assert spoke.wait(10)
    reminder.close()
    clock.now += SILENT_SECONDS
    assert not spoke.clear() and not spoke.wait(0.05) and said == [100 + 85]


def test_a_reader_that_has_left_does_not_end_the_reminder(clock):
    pace, calls = Pace(10, 0, clock), []

    def remind():
        calls.append(clock.now)
        raise BrokenPipeError

    reminder = Reminder(pace, remind, interval=0.001)
    for count in (1, 2):
        clock.now += SILENT_SECONDS
        deadline = time.monotonic() + 10
        while len(calls) < count and time.monotonic() < deadline:
            time.sleep(0.001)
    reminder.close()
    assert len(calls) == 2
