"""Shows the progress of a run of RL²: its cost, lines about iterations, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epg_tf.baselines.rl2 import IterationResult
from epg_tf.core.files import PathLike
from epg_tf.core.formatting import count, duration
from epg_tf.core.rl2_experiment import RL2Experiment
from epg_tf.runs.pace import Pace, Reminder
from epg_tf.runs.progress import Write, times
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.units import remarks


class RL2Progress:
    """Writes lines.

    Args:
      experiment: Settings of the run.
      path: Its folder.
      write: Called with each line, without its end; None is silent.
    """

    def __init__(self, experiment: RL2Experiment, path: PathLike, write: Write | None):
        self._experiment, self._path = experiment, path
        self._write: Write = write or (lambda line: None)
        self._iteration = 0
        self._pace = Pace(experiment.iterations, 0)
        self._reminder: Reminder | None = None

    def begin(self, done: int, warnings: list[str]) -> None:
        """Writes what is unusual, what is left to do and what it costs."""
        for line in (*warnings, *cost_lines(self._experiment, done)):
            self._write(line)
        self._iteration = done
        self._pace = Pace(self._experiment.iterations, done)
        self._reminder = Reminder(self._pace, self._remind)

    def _remind(self) -> None:
        self._write(
            f"iteration {self._iteration + 1}/{self._experiment.iterations} goes on, "
            f"{duration(self._pace.spent())} so far"
        )

    def show(self, result: IterationResult) -> None:
        """Writes the numbers of an iteration, from time to time."""
        self._iteration, total = result.iteration, self._experiment.iterations
        self._pace.end_epoch()
        if self._pace.due() or result.iteration == total:
            returns = ", ".join(
                f"{result.metrics[f'training_return/episode_{number}']:.2f}"
                for number in range(1, self._experiment.trial.episodes + 1)
            )
            self._write(
                f"iteration {result.iteration}/{total}  mean return by episode {returns}  "
                f"best validation {result.best_return:.2f}  {times(self._pace)}"
            )

    def stopped(self, done: int) -> None:
        """Writes where the run stopped."""
        self.close()
        where = f"; its checkpoint is in {self._path}/checkpoints" if done else ""
        self._write(f"stopped after iteration {done} of {self._experiment.iterations}{where}")

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Writes how a finished run ended."""
        self.close()
        self._write(
            f"meta-trained a policy of {summary['parameters']} parameters in "
            f"{duration(summary['seconds'])}, {count(summary['env_steps'])} env steps; best "
            f"validation return of a trial's last episode {summary['best_validation_return']:.2f}"
        )

    def close(self) -> None:
        """Writes nothing more."""
        if self._reminder is not None:
            self._reminder.close()
            self._reminder = None


def cost_lines(experiment: RL2Experiment, done: int) -> list[str]:
    """Returns lines on what a run does after some iterations, and what that costs."""
    left = experiment.iterations - done
    if not left:
        return [f"all {done} iterations are done; writing what a finished run leaves"]
    trial, validations = experiment.trial, experiment.iterations // experiment.validation_period
    validations -= done // experiment.validation_period
    counted = validations * experiment.validation_trials * experiment.trial_steps
    name = "E-RL²" if trial.exploratory_episodes else "RL²"
    return [
        f"meta-training a recurrent policy by {name} in {experiment.task.family}"
        + (f", continued after iteration {done}" if done else ""),
        f"cost: {left} iterations x {experiment.trials} trials x {experiment.trial_steps} env "
        f"steps = {count(left * experiment.iteration_steps)} env steps; "
        f"{experiment.ppo.epochs * experiment.ppo.minibatches} updates by PPO in an iteration; "
        f"validation {count(counted)} env steps more",
        *remarks(make_family(experiment.task)),
    ]
