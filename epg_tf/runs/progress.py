"""Shows the progress of a run of evolution: its cost, a bar or lines, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from epg_tf.core.experiment import Experiment
from epg_tf.core.files import PathLike
from epg_tf.core.formatting import count, duration
from epg_tf.epg.state import EpochResult, EvolutionState
from epg_tf.runs import standstill
from epg_tf.runs.long_waits import evolution_waits
from epg_tf.runs.pace import Pace, Reminder

Write = Callable[[str], object]

_MOVED = {
    "loss": "a loss",
    "initialisation": "an initial policy",
    "both": "a loss and an initial policy",
}


class Progress:
    """Writes lines, and on a terminal a progress bar to standard error.

    Args:
      unit: Of a step, e.g. "epoch".
      path: Folder of the run.
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
        """Starts to measure time.

        Args:
          done: Steps done.
          total: Steps of the whole run.
          ranks: Number of processes at work.
        """
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


class SilentProgress:
    """Shows nothing."""

    def warn(self, warnings: list[str]) -> None:
        """Shows what is unusual about the folder of the run."""

    def begin(self, epoch: int, ranks: int) -> None:
        """Shows what the epochs after `epoch` will cost, and starts to measure time."""

    def advance(self, lives: int) -> None:
        """Counts lives that have ended on this rank, and as many on every other rank."""

    def show(self, result: EpochResult) -> None:
        """Shows the numbers of an epoch."""

    def stopped(self, state: EvolutionState) -> None:
        """Shows that the run was stopped after a state."""

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Shows the summary of a finished run."""

    def close(self) -> None:
        """Removes the progress bar; `begin` makes a new one."""


class EvolutionProgress(SilentProgress):
    """Writes lines, and on a terminal a progress bar to standard error.

    Args:
      experiment: Settings of the run.
      path: Its folder.
      write: Called with each line, without its end.
    """

    def __init__(self, experiment: Experiment, path: PathLike, write: Write):
        self._experiment, self._path, self._write = experiment, path, write
        self._lives = experiment.evolution.lives
        self._epochs = experiment.evolution.epochs
        self._bar: Any = None
        self._ranks = 1
        self._epoch = 0
        self._pace: Pace | None = None
        self._reminder: Reminder | None = None
        self._standstill = standstill.of_evolution(experiment)

    def warn(self, warnings: list[str]) -> None:
        """Writes each warning."""
        for warning in warnings:
            self._line(warning)

    def begin(self, epoch: int, ranks: int) -> None:
        """Writes what is left to do and what it costs."""
        for line in cost_lines(self._experiment, self._path, epoch, ranks):
            self._line(line)
        self.close()
        from tqdm import tqdm  # here, so that `import epg_tf` needs no tqdm

        self._bar = tqdm(
            total=self._epochs * self._lives,
            initial=epoch * self._lives,
            disable=None,  # unless standard error is a terminal
            leave=False,
            bar_format="{desc} |{bar:20}| {percentage:3.0f} % [{elapsed} < {remaining}]",
        )
        self._bar.set_description_str(f"epoch {epoch}/{self._epochs}")
        self._ranks = ranks
        self._epoch = epoch
        self._pace = Pace(self._epochs, epoch)
        if self._bar.disable:
            self._reminder = Reminder(self._pace, self._remind)

    def _remind(self) -> None:
        assert self._pace is not None
        ended = min(self._bar.n - self._epoch * self._lives, self._lives)
        self._line(
            f"epoch {self._epoch + 1}/{self._epochs}: {ended} of {self._lives} lives have ended, "
            f"{duration(self._pace.spent())} so far"
        )

    def advance(self, lives: int) -> None:
        """Moves the bar."""
        self._bar.n = min(self._bar.n + lives * self._ranks, self._bar.total)
        self._bar.update(0)

    def show(self, result: EpochResult) -> None:
        """Writes the numbers of an epoch into the bar, or from time to time as a line."""
        assert self._pace is not None, "call begin() first"
        metrics, epoch = result.metrics, result.state.epoch
        self._epoch = epoch
        self._pace.end_epoch()
        line = (
            f"epoch {epoch}/{self._epochs}  alpha {metrics['alpha']:.2f}  mean fitness "
            f"{metrics['fitness_mean']:.2f}  {count(metrics['env_steps_per_second'])} env steps/s"
        )
        self._bar.n = epoch * self._lives
        self._bar.set_description_str(line)
        if self._bar.disable and (self._pace.due() or epoch == self._epochs):
            self._line(f"{line}  {times(self._pace)}")
        if notice := self._standstill.notice(metrics):
            self._line(notice)

    def stopped(self, state: EvolutionState) -> None:
        """Writes where the run stopped."""
        self.close()
        self._line(
            f"stopped after epoch {state.epoch} of {self._epochs}; its checkpoint is in "
            f"{self._path}/checkpoints"
        )

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Writes how a finished run ended."""
        self.close()
        best = summary["best_validation_return_mean"]
        validation = f"best validation return {best:.2f}"
        if best == -math.inf:
            validation = "never validated (best/ is just the newest)"
        if summary["verdict"]:
            self._line(summary["verdict"])
        most = standstill.is_most(summary["unchanged_epochs"], summary["epochs"])
        did = "ended after" if most else f"evolved {summary['parameters']} parameters in"
        self._line(
            f"{did} {duration(summary['seconds'])}, "
            f"{count(summary['env_steps'])} env steps; {validation}, {summary['failed_lives']} "
            "failed lives"
        )
        if summary["last_fitness_mean"] is not None and math.isnan(summary["last_fitness_mean"]):
            self._line(
                "warning: every life of the last epoch failed; smaller learning rates, sigma or "
                "deviations may help"
            )

    def close(self) -> None:
        """Removes the bar."""
        if self._reminder is not None:
            self._reminder.close()
            self._reminder = None
        if self._bar is not None:
            self._bar.close()

    def _line(self, line: str) -> None:
        """Writes a line; a visible bar is removed meanwhile."""
        from tqdm import tqdm

        with tqdm.external_write_mode():
            self._write(line)


def times(pace: Pace) -> str:
    """Returns how long a run has taken and still takes, for the end of a line."""
    left = pace.left()
    return f"{duration(pace.spent())} so far" + (
        "" if left is None else f", about {duration(left)} left"
    )


def cost_lines(experiment: Experiment, path: PathLike, epoch: int, ranks: int) -> list[str]:
    """Returns lines on what a run does after `epoch`, and what that costs."""
    evolution = experiment.evolution
    left = evolution.epochs - epoch
    if not left:
        return [
            f"all {epoch} epochs of the run in {path} are done; a larger config.evolution.epochs "
            "continues it"
        ]
    shortest, longest = evolution.life_lengths(experiment.inner.updates)
    life_steps = longest * experiment.inner.update_period
    steps = evolution.lives * life_steps
    shorter = "at most " if shortest < longest else ""
    lines = [
        f"evolving {_MOVED[evolution.moves]} for {_families(experiment)} in {path}"
        + (f", on {ranks} ranks" if ranks > 1 else "")
        + (f", continued after epoch {epoch}" if epoch else ""),
        f"cost: {left} epoch{'s' * (left > 1)} x {evolution.lives} lives x {shorter}"
        f"{life_steps} env steps = {shorter}{count(steps)} env steps an "
        f"epoch, {count(steps * left)} in all" + _other_costs(experiment),
    ]
    shard_lives = experiment.compute.shard_lives
    shards = math.ceil(evolution.lives / shard_lives)
    if ranks > shards:
        lines.append(
            f"{ranks - shards} of {ranks} ranks have nothing to do: an epoch has only {shards} "
            f"shards of config.compute.shard_lives={shard_lives} lives"
        )
    return lines + evolution_waits(experiment)


def _families(experiment: Experiment) -> str:
    return ", ".join(task.family for task in experiment.tasks)


def _other_costs(experiment: Experiment) -> str:
    """Returns what costs env steps besides those in which lives learn, as the end of a line."""
    evolution = experiment.evolution
    final = (
        f"{experiment.inner.final_episodes} final episodes a life (at most "
        f"{max(task.episode_limit for task in experiment.tasks)} env steps each)"
    )
    validation = (
        f"{evolution.validation_lives} validation lives every {evolution.validation_period} epochs"
    )
    if evolution.plays_final_episodes:
        return f"; besides, {final}" + (f" and {validation}" if evolution.validation_period else "")
    return f"; besides, {validation}, with {final}" if evolution.validation_period else ""
