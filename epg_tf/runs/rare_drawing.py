"""Limits the time that a run spends on pictures of itself."""

from __future__ import annotations

import time
from collections.abc import Callable

_SHARE = 0.01  # of the time of a run that its pictures may take, because their time grows with rows


class RareDrawing:
    """Draws a picture so rarely that it takes about one per cent of a run's time.

    Args:
      draw: Draws it.
      clock: Returns the time (s).
    """

    def __init__(
        self, draw: Callable[[], object], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._draw, self._clock = draw, clock
        self._next = clock()

    def update(self) -> None:
        """Draws, unless the newest drawing took more than its share of the time since then."""
        if self._clock() >= self._next:
            self.draw()

    def draw(self) -> None:
        """Draws in any case, e.g. at the end of a run."""
        started = self._clock()
        self._draw()
        ended = self._clock()
        self._next = ended + (ended - started) / _SHARE
