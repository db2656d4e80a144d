"""Shows the progress of a run or a test: a bar or lines, how long it takes, where it stopped."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from epg_tf.core.files import PathLike
from epg_tf.core.formatting import duration

LINE_SECONDS = 30.0  # between lines of progress
SILENT_SECONDS = 55.0  # after which a line comes in the middle of a step
_LOOK_SECONDS = 1.0  # between looks at the clock in the middle of a step
_NEWEST = 20  # steps whose durations the estimate is made from: validation recurs within them

Write = Callable[[str], object]


class Reminder:
    """Says, from a thread of its own, that work goes on where nothing was said for long.

    Args:
      say: Called with how long the work has taken, e.g. "3 min so far".
      clock: Returns the time (s).
    """

    def __init__(self, say: Write, clock: Callable[[], float] = time.perf_counter):
        self._say, self._clock = say, clock
        self._began = self._spoke = clock()
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._remind, name="progress", daemon=True)

    def start(self) -> None:
        """Begins to remind."""
        self._watch.start()

    def close(self) -> None:
        """Ends all reminders, if they were started."""
        self._ended.set()
        if self._watch.is_alive():
            self._watch.join()

    def so_far(self) -> str:
        """Returns how long the work has taken."""
        return f"{duration(self._clock() - self._began)} so far"

    def silent(self, seconds: float) -> bool:
        """Returns whether nothing was said for so many seconds."""
        return self._clock() - self._spoke >= seconds

    def spoke(self) -> None:
        """Counts the silence from now on."""
        self._spoke = self._clock()

    def _remind(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            if self.silent(SILENT_SECONDS):
                self.spoke()
                with contextlib.suppress(OSError):  # the main thread will meet it, too
                    self._say(self.so_far())


@contextlib.contextmanager
def reminding(clock: Callable[[], float] = time.perf_counter) -> Iterator[Reminder]:
    """Prints, within a `with` block, that work goes on; the block tells when it has spoken."""
    reminder = Reminder(lambda so_far: print(f"  goes on, {so_far}", flush=True), clock)
    with contextlib.closing(reminder):
        reminder.start()
        yield reminder


class Progress:
    """Writes lines, and on a terminal a progress bar to standard error.

    The first step of a process contains the compilation and is left out of the estimate of the time
    that is left, which follows the newest steps.

    Args:
      unit: Of a step, e.g. "epoch".
      path: Folder of the run.
      write: Called with each line, without its end; None: nothing is shown.
      lives: Of a step, which move the bar; 1: only whole steps do.
      clock: Returns the time (s).
    """

    def __init__(
        self,
        unit: str,
        path: PathLike,
        write: Write | None,
        lives: int = 1,
        clock: Callable[[], float] = time.perf_counter,
    ):
        self._unit, self._path, self._write, self._lives = unit, path, write, lives
        self._clock = clock
        self._done = self._total = self._compiles = 0
        self._ranks = 1
        self._bar: Any = None
        self._step_began = clock()
        self._seconds: deque[float] = deque(maxlen=_NEWEST)
        self._reminder = Reminder(self._remind, clock)

    def lines(self, lines: Iterable[str]) -> None:
        """Writes lines; a visible bar is removed meanwhile."""
        if self._write is None:
            return
        from tqdm import tqdm  # here, so that `import epg_tf` needs no tqdm

        for line in lines:
            with tqdm.external_write_mode():
                self._write(line)

    def begin(self, done: int, total: int, ranks: int) -> None:
        """Starts to measure time."""
        self.close()
        self._done, self._total, self._ranks = done, total, ranks
        self._compiles = done + 1
        self._step_began = self._clock()
        self._reminder = Reminder(self._remind, self._clock)
        self._seconds.clear()
        if self._write is None:
            return
        from tqdm import tqdm

        self._bar = tqdm(
            total=total * self._lives,
            initial=done * self._lives,
            disable=None,  # unless standard error is a terminal
            leave=False,
            bar_format="{desc} |{bar:20}| {percentage:3.0f} % [{elapsed} < {remaining}]",
        )
        self._bar.set_description_str(self._place(done))
        if self._bar.disable:
            self._reminder.start()

    def _place(self, step: int) -> str:
        return f"{self._unit} {step}/{self._total}"

    def _remind(self, so_far: str) -> None:
        """Says that work goes on where a step takes long."""
        going_on = " goes on"
        if self._lives > 1:
            ended = min(self._bar.n - self._done * self._lives, self._lives)
            going_on = f": {ended} of {self._lives} lives have ended"
        self.lines([f"{self._place(self._done + 1)}{going_on}, {so_far}"])

    def advance(self, lives: int) -> None:
        """Counts lives that have ended on this rank, and as many on every other rank."""
        if (bar := self._bar) is not None:
            bar.n = min(bar.n + lives * self._ranks, bar.total)
            bar.update(0)

    def show(self, done: int, line: str, notes: Sequence[str]) -> None:
        """Writes notes on a step; and its numbers into the bar, or from time to time as a line."""
        now = self._clock()
        if done > self._compiles:
            self._seconds.append(now - self._step_began)
        self._done, self._step_began = done, now
        self.lines(notes)
        if self._bar is None:
            return
        line = f"{self._place(done)}  {line}"
        self._bar.n = done * self._lives
        self._bar.set_description_str(line)
        if self._bar.disable and (self._reminder.silent(LINE_SECONDS) or done == self._total):
            self._reminder.spoke()
            left = ""
            if self._seconds:
                seconds = (self._total - done) * sum(self._seconds) / len(self._seconds)
                left = f", about {duration(seconds)} left"
            self.lines([f"{line}  {self._reminder.so_far()}{left}"])

    def stopped(self, done: int) -> None:
        """Writes where the run stopped."""
        self.close()
        where = f"; its checkpoint is in {self._path}/checkpoints" if done else ""
        self.lines([f"stopped after {self._unit} {done} of {self._total}{where}"])

    def close(self) -> None:
        """Removes the bar; `begin` makes a new one."""
        self._reminder.close()
        if self._bar is not None:
            self._bar.close()
            self._bar = None
