"""Decides when a line of progress is due, and estimates how long a run still takes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

LINE_SECONDS = 30.0  # between lines of progress
SILENT_SECONDS = 55.0  # after which a line comes in the middle of an epoch
_NEWEST = 20  # epochs whose durations the estimate is made from: validation recurs within them


class Pace:
    """Measures epochs (or rounds).

    The first one of a process contains the compilation and is left out of the estimate, which
    follows the newest epochs.

    Args:
      done: Epochs before this process.
    """

    def __init__(self, total: int, done: int, clock: Callable[[], float] = time.perf_counter):
        self._left = total - done
        self._clock = clock
        self._started = self._epoch_began = self._said = clock()
        self._epochs = 0
        self._seconds: deque[float] = deque(maxlen=_NEWEST)

    def end_epoch(self) -> None:
        """Notes that an epoch has ended now."""
        now = self._clock()
        if self._epochs:
            self._seconds.append(now - self._epoch_began)
        self._epochs += 1
        self._left -= 1
        self._epoch_began = now

    def due(self, seconds: float = LINE_SECONDS) -> bool:
        """Returns whether the last line is so many seconds ago; if so, counts from now on."""
        now = self._clock()
        if now - self._said < seconds:
            return False
        self._said = now
        return True

    def spent(self) -> float:
        """Returns the seconds since the start of this process's epochs."""
        return self._clock() - self._started

    def left(self) -> float | None:
        """Returns the seconds that the other epochs take, or None before the second has ended."""
        if not self._seconds:
            return None
        return self._left * sum(self._seconds) / len(self._seconds)


class Reminder:
    """Says, from a thread of its own, that work goes on where an epoch takes long.

    Args:
      interval: Time between looks at the clock (s).
    """

    def __init__(self, pace: Pace, remind: Callable[[], None], interval: float = 1.0):
        self._pace, self._remind, self._interval = pace, remind, interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._interval):
            if self._pace.due(SILENT_SECONDS):
                with contextlib.suppress(OSError):  # the main thread will meet it, too
                    self._remind()

    def close(self) -> None:
        """Ends the thread; returns once it says nothing more."""
        self._ended.set()
        self._thread.join()
