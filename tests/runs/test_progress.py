"""Tests epg_tf.runs.progress where there is no terminal, with a clock that the test moves."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import time

import pytest

from epg_tf.core.formatting import duration
from epg_tf.runs import progress
from epg_tf.runs.progress import LINE_SECONDS, SILENT_SECONDS, Progress, reminding


class Clock:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "_LOOK_SECONDS", 0.001)
    return Clock()


@contextlib.contextmanager
def begun(clock, total, done=0, write=None, lives=1):
    """A run's progress, and the lines that it writes."""
    lines = []
    shown = Progress("epoch", "runs/a", write or lines.append, lives, clock)
    shown.begin(done, total, 1)
    with contextlib.closing(shown):
        yield shown, lines


def test_the_estimate_leaves_the_first_step_out(clock):
    with begun(clock, 10, done=4) as (shown, lines):
        for done, seconds in ((5, 50.0), (6, 40.0)):
            clock.now += seconds
            shown.show(done, "alpha 0.5", [])
    assert lines == [
        f"epoch 5/10  alpha 0.5  {duration(50.0)} so far",
        f"epoch 6/10  alpha 0.5  {duration(90.0)} so far, about {duration(4 * 40.0)} left",
    ]


def test_the_estimate_follows_the_newest_steps(clock):
    """A run that becomes slower by three is estimated right after another twenty."""
    with begun(clock, 100) as (shown, lines):
        for done, seconds in enumerate([30.0, *[1.0] * 20, *[50.0] * 20], start=1):
            clock.now += seconds
            shown.show(done, "", [])
    assert lines[-1].endswith(f"about {duration(59 * 50.0)} left")


def test_lines_are_due_by_time_and_at_the_end(clock):
    with begun(clock, 4) as (shown, lines):
        found = []
        for done, seconds in ((1, LINE_SECONDS - 1), (2, 1.0), (3, LINE_SECONDS - 1), (4, 0.0)):
            clock.now += seconds
            shown.show(done, "", [f"note {done}"])
            found.append(len(lines))
    assert found == [1, 3, 4, 6] and lines[-1].endswith(f"about {duration(0.0)} left")


def test_a_long_step_is_not_silent(clock):
    """A line comes after a minute without lines, not before, and never after the end."""
    said, spoke = [], threading.Event()

    def write(line):
        said.append(line)
        spoke.set()

    with begun(clock, 10, write=write, lives=8) as (shown, _):
        shown.advance(3)
        clock.now += SILENT_SECONDS - 1
        assert not spoke.wait(0.05)
        clock.now += 1
        assert spoke.wait(10)
    clock.now += SILENT_SECONDS
    assert not spoke.clear() and not spoke.wait(0.05)
    assert said == [f"epoch 1/10: 3 of 8 lives have ended, {duration(SILENT_SECONDS)} so far"]


def test_a_reader_that_has_left_does_not_end_the_reminders(clock):
    calls = []

    def write(line):
        calls.append(line)
        raise BrokenPipeError

    with begun(clock, 10, write=write):
        for count in (1, 2):
            clock.now += SILENT_SECONDS
            deadline = time.monotonic() + 10
            while len(calls) < count and time.monotonic() < deadline:
                time.sleep(0.001)
    assert calls[0].startswith("epoch 1/10 goes on, ") and len(calls) == 2


def test_a_block_that_takes_long_is_not_silent(clock, monkeypatch):
    """A line comes after a minute in which nobody spoke, not before, and never after an error."""
    said, heard = [], threading.Event()

    def keep(line, flush):
        said.append(line)
        heard.set()

    monkeypatch.setattr(progress, "print", keep, raising=False)
    with pytest.raises(ZeroDivisionError), reminding(clock) as reminder:
        for _ in range(2):
            clock.now += SILENT_SECONDS - 1
            assert not heard.wait(0.05)
            reminder.spoke()
        clock.now += SILENT_SECONDS
        assert heard.wait(10)
        raise ZeroDivisionError
    clock.now += SILENT_SECONDS
    assert not heard.clear() and not heard.wait(0.05)
    assert said == [f"  goes on, {duration(3 * SILENT_SECONDS - 2)} so far"]
