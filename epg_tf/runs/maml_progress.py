"""Shows the progress of a run of MAML: its cost, lines about iterations, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from epg_tf.baselines.maml_state import IterationResult, MAMLState
from epg_tf.core.formatting import count, duration
from epg_tf.core.maml_experiment import MAMLExperiment
from epg_tf.runs import standstill
from epg_tf.runs.pace import Pace, Reminder
from epg_tf.runs.progress import Write, times
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.units import remarks


class MAMLProgress:
    """Writes lines.

    Args:
      experiment: Settings of the run.
      write: Called with each line, without its end.
    """

    def __init__(self, experiment: MAMLExperiment, write: Write):
        self._experiment, self._write = experiment, write
        self._total = experiment.outer.iterations
        self._iteration = 0
        self._pace = Pace(self._total, 0)
        self._reminder: Reminder | None = None
        self._standstill = standstill.of_maml()

    def begin(self, state: MAMLState, warnings: list[str]) -> None:
        """Writes warnings, what is left to do and what it costs."""
        for line in (*warnings, *cost_lines(self._experiment, state.iteration)):
            self._write(line)
        self._iteration = state.iteration
        self._pace = Pace(self._total, state.iteration)
        self._reminder = Reminder(self._pace, self._remind)

    def _remind(self) -> None:
        self._write(
            f"iteration {self._iteration + 1}/{self._total} goes on, "
            f"{duration(self._pace.spent())} so far"
        )

    def show(self, result: IterationResult) -> None:
        """Writes the numbers of an iteration, from time to time."""
        metrics, self._iteration = result.metrics, result.state.iteration
        self._pace.end_epoch()
        if self._pace.due() or self._iteration == self._total:
            self._write(
                f"iteration {self._iteration}/{self._total}  mean return "
                f"{metrics['return_before_mean']:.2f} before adaptation, "
                f"{metrics['return_after_mean']:.2f} after{_validation(result.state.best_return)}  "
                f"{times(self._pace)}"
            )
        if notice := self._standstill.notice(metrics):
            self._write(notice)

    def stopped(self, state: MAMLState) -> None:
        """Writes where the run stopped."""
        self.close()
        self._write(f"stopped after iteration {state.iteration} of {self._total}")

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Writes how a finished run ended."""
        self.close()
        if summary["verdict"]:
            self._write(summary["verdict"])
        most = standstill.is_most(summary["unchanged_iterations"], summary["iterations"])
        what = f"meta-trained an initialisation of {summary['parameters']} parameters in"
        self._write(
            f"{'ended after' if most else what} "
            f"{duration(summary['seconds'])}, {count(summary['env_steps'])} env steps"
            f"{_validation(summary['best_validation_return_mean'])}"
        )

    def close(self) -> None:
        """Writes nothing more."""
        if self._reminder is not None:
            self._reminder.close()
            self._reminder = None


def _validation(best: float) -> str:
    """Returns the best mean return in validation, for a line; empty before the first."""
    return "" if best == -math.inf else f", {best:.2f} in the best validation"


def cost_lines(experiment: MAMLExperiment, done: int) -> list[str]:
    """Returns lines on what a run does after `done` iterations, and what that costs."""
    outer, adaptation = experiment.outer, experiment.adaptation
    left = outer.iterations - done
    if not left:
        return [f"all {done} iterations are done; writing what a finished run leaves"]
    order = "first-order gradients" if adaptation.first_order else "second-order gradients"
    validations = 0
    if outer.validation_period:
        period = outer.validation_period
        validations = outer.iterations // period - done // period
    tested = validations * outer.tasks * adaptation.steps * adaptation.env_steps
    return [
        f"meta-training an initialisation in {experiment.task.family}, for {adaptation.steps} "
        f"gradient step{'s' if adaptation.steps > 1 else ''}, on one thread"
        + (f", continued after iteration {done}" if done else ""),
        f"cost: {left} iterations x {outer.tasks} lives x {adaptation.steps + 1} x "
        f"{adaptation.env_steps} env steps = {count(left * experiment.iteration_steps)} env steps, "
        f"{left * outer.epochs} {order}"
        + (
            f"; besides, {validations} validations of {count(tested)} env steps in all, and "
            f"{outer.final_episodes} final episodes a life"
            if validations
            else ""
        ),
        *remarks(make_family(experiment.task)),
    ]
