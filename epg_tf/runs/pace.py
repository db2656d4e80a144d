"""Decides when a line of progress is due, and estimates how long a run still takes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

LINE_SECONDS = 30.0  # between lines of progress
_NEWEST = 20  # epochs whose durations the estimate is made from: validation recurs within them


class Pace:
    """Measures epochs (or rounds).

    The first one of a process contains the compilation and is left out of the estimate, which
    follows the newest epochs.

    Args:
      total: Epochs in the whole run.
      done: Epochs before this process.
      clock: Returns the time (s).
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

    def due(self) -> bool:
        """Returns whether the last line is `LINE_SECONDS` ago; if so, counts from now on."""
        now = self._clock()
        if now - self._said < LINE_SECONDS:
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
