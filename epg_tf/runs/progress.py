"""Shows the progress of a run: a bar or lines, and where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from epg_tf.core.files import PathLike
from epg_tf.core.formatting import duration
from epg_tf.runs.pace import Pace, Reminder

Write = Callable[[str], object]


class Progress:
    """Writes lines, and on a terminal a progress bar to standard error.

    Args:
      write: Called with each line, without its end; None: nothing is shown.
      lives: Of a step, which move the bar; 1: only whole steps do.
    """

    def __init__(self, unit: str, path: PathLike, write: Write | None, lives: int = 1):
        self._unit, self._path, self._write, self._lives = unit, path, write, lives
        self._done = self._total = 0
        self._ranks = 1
        self._bar: Any = None
        self._pace = Pace(0, 0)
        self._reminder: Reminder | None = None

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
        self._pace = Pace(total, done)
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
            self._reminder = Reminder(self._pace, self._remind)

    def _place(self, step: int) -> str:
        return f"{self._unit} {step}/{self._total}"

    def _remind(self) -> None:
        going_on = " goes on"
        if self._lives > 1:
            ended = min(self._bar.n - self._done * self._lives, self._lives)
            going_on = f": {ended} of {self._lives} lives have ended"
        self.lines(
            [f"{self._place(self._done + 1)}{going_on}, {duration(self._pace.spent())} so far"]
        )

    def advance(self, lives: int) -> None:
        """Counts lives that have ended on this rank, and as many on every other rank."""
        if (bar := self._bar) is not None:
            bar.n = min(bar.n + lives * self._ranks, bar.total)
            bar.update(0)

    def show(self, done: int, line: str, notes: Sequence[str]) -> None:
        """Writes notes on a step; and its numbers into the bar, or from time to time as a line."""
        self._done = done
        self._pace.end_epoch()
        self.lines(notes)
        if self._bar is None:
            return
        line = f"{self._place(done)}  {line}"
        self._bar.n = done * self._lives
        self._bar.set_description_str(line)
        if self._bar.disable and (self._pace.due() or done == self._total):
            self.lines([f"{line}  {times(self._pace)}"])

    def stopped(self, done: int) -> None:
        """Writes where the run stopped."""
        self.close()
        where = f"; its checkpoint is in {self._path}/checkpoints" if done else ""
        self.lines([f"stopped after {self._unit} {done} of {self._total}{where}"])

    def close(self) -> None:
        """Removes the bar; `begin` makes a new one."""
        if self._reminder is not None:
            self._reminder.close()
            self._reminder = None
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def times(pace: Pace) -> str:
    """Returns how long a run has taken and still takes, for the end of a line."""
    left = pace.left()
    return f"{duration(pace.spent())} so far" + (
        "" if left is None else f", about {duration(left)} left"
    )
