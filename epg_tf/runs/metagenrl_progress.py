"""Shows the progress of a run of MetaGenRL: its cost, lines about rounds, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from epg_tf.core.files import PathLike
from epg_tf.core.formatting import count, duration
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.losses.lstm_objective import parameter_count
from epg_tf.metagenrl.shard_plans import plan_shards
from epg_tf.metagenrl.state import ObjectiveState, RoundResult
from epg_tf.metagenrl.validation import (
    is_validated,
    validation_columns,
    validation_places,
)
from epg_tf.runs import standstill
from epg_tf.runs.long_waits import metagenrl_waits
from epg_tf.runs.pace import Pace, Reminder
from epg_tf.runs.progress import Write, times
from epg_tf.tasks.registry import named_environment


class SilentMetaGenRLProgress:
    """Shows nothing."""

    def warn(self, warnings: list[str]) -> None:
        """Shows what is unusual about the folder of the run."""

    def begin(self, state: ObjectiveState, ranks: int, ended: bool = False) -> None:
        """Shows what the rounds after a state will cost, and starts to measure time."""

    def show(self, result: RoundResult) -> None:
        """Shows the numbers of a round."""

    def stopped(self, state: ObjectiveState) -> None:
        """Shows that the run was stopped after a state."""

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Shows the summary of a finished run."""

    def close(self) -> None:
        """Shows nothing more."""


class MetaGenRLProgress(SilentMetaGenRLProgress):
    """Writes lines.

    Args:
      experiment: Settings of the run.
      path: Its folder.
      write: Called with each line, without its end.
    """

    def __init__(self, experiment: MetaGenRLExperiment, path: PathLike, write: Write):
        self._experiment, self._path, self._write = experiment, path, write
        self._pace: Pace | None = None
        self._reminder: Reminder | None = None
        self._round = 0
        self._standstill = standstill.of_metagenrl(experiment)

    def warn(self, warnings: list[str]) -> None:
        """Writes each warning."""
        for warning in warnings:
            self._write(warning)

    def begin(self, state: ObjectiveState, ranks: int, ended: bool = False) -> None:
        """Writes what is left to do and what it costs."""
        for line in cost_lines(self._experiment, state, ranks, ended):
            self._write(line)
        self._round = state.round
        self._pace = Pace(self._experiment.rounds, state.round)
        self._reminder = Reminder(self._pace, self._remind)

    def _remind(self) -> None:
        assert self._pace is not None
        self._write(
            f"round {self._round + 1}/{self._experiment.rounds} goes on, "
            f"{duration(self._pace.spent())} so far"
        )

    def show(self, result: RoundResult) -> None:
        """Writes the numbers of a round, from time to time."""
        assert self._pace is not None, "call begin() first"
        metrics, number = result.metrics, result.state.round
        self._round = number
        self._pace.end_epoch()
        if is_validated(self._experiment, number):
            tested = "  ".join(
                f"{place} {metrics[column]:.1f}"
                for place, column in zip(
                    validation_places(self._experiment),
                    validation_columns(self._experiment),
                    strict=True,
                )
            )
            self._write(f"round {number}: fresh agents with this objective end at {tested}")
        if self._pace.due() or number == self._experiment.rounds:
            returns = "  ".join(
                f"{name} {metrics[f'training_return/{name}']:.1f}"
                for name in self._experiment.environments
            )
            self._write(
                f"round {number}/{self._experiment.rounds}  mean return {returns}  "
                f"{times(self._pace)}"
            )
        if notice := self._standstill.notice(metrics):
            self._write(notice)

    def stopped(self, state: ObjectiveState) -> None:
        """Writes where the run stopped."""
        self.close()
        where = f"; its checkpoint is in {self._path}/checkpoints" if state.round else ""
        self._write(f"stopped after round {state.round} of {self._experiment.rounds}{where}")

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Writes how a finished run ended."""
        self.close()
        if summary["rounds"] < self._experiment.rounds:
            self._write(
                f"ended after round {summary['rounds']} of {self._experiment.rounds}: no better "
                f"objective in {self._experiment.validation.patience} tests "
                "(config.validation.patience)"
            )
        last = ", ".join(
            f"{name.split('/', 1)[1]} {value:.1f}" for name, value in summary["last"].items()
        )
        if summary["verdict"]:
            self._write(summary["verdict"])
        most = standstill.is_most(summary["unchanged_rounds"], summary["rounds"])
        did = "ended after" if most else f"meta-learned {summary['parameters']} parameters in"
        self._write(
            f"{did} {duration(summary['seconds'])}, "
            f"{count(summary['env_steps'])} env steps; mean return in the last round: "
            f"{last or 'none'}; {summary['failed_agents']} failed agents"
        )
        if any(math.isnan(value) for value in summary["last"].values()):
            self._write(
                "no episode ended in the last round in some environment; longer "
                "config.round_steps show more"
            )

    def close(self) -> None:
        """Writes nothing more."""
        if self._reminder is not None:
            self._reminder.close()
            self._reminder = None


def cost_lines(
    experiment: MetaGenRLExperiment, state: ObjectiveState, ranks: int, ended: bool = False
) -> list[str]:
    """Returns lines on what a run does after a state, and what that costs.

    Args:
      experiment: Settings.
      state: The state.
      ranks: Number of processes at work.
      ended: Whether tests have ended the run (`validation.patience`).
    """
    agent, agents = experiment.agent, experiment.agents
    left = experiment.steps_per_agent - state.round * experiment.round_steps
    if ended or not left:
        return [f"all {state.round} rounds are done; writing what a finished run leaves"]
    lines = [
        f"meta-learning an objective of {parameter_count(experiment.objective)} parameters with "
        f"{agents} agents in {', '.join(experiment.environments)}"
        + (f", on {ranks} ranks" if ranks > 1 else "")
        + (f", continued after round {state.round}" if state.round else ""),
        f"cost: {agents} agents x {count(left)} env steps = {count(agents * left)} env steps; "
        f"{count(left // agent.policy_delay)} updates of the objective, each with "
        f"{agent.policy_delay} critic updates and {experiment.meta.virtual_steps} virtual steps "
        f"on {agent.batch} x {agent.chunk} steps per agent; replays of at most "
        f"{count(_replay_bytes(experiment) / 2**20)} MiB in all, in memory and again in the run's "
        "folder",
    ]
    validation, places = experiment.validation, validation_places(experiment)
    if places:
        steps = validation.agents * len(places) * validation.env_steps
        lines.append(
            f"every {validation.period} rounds {validation.agents} fresh agents learn with the "
            f"objective in each of {', '.join(places)}: {count(steps)} env steps a test"
        )
    shards = len(plan_shards(experiment))
    if ranks > shards:
        lines.append(
            f"{ranks - shards} of {ranks} ranks have nothing to do: there are only {shards} shards "
            f"of at most config.shard_agents={experiment.shard_agents} agents"
        )
    return lines + metagenrl_waits(experiment)


def _replay_bytes(experiment: MetaGenRLExperiment) -> float:
    agents_each = experiment.agents // len(experiment.environments)
    families = [named_environment(name) for name in experiment.environments]
    numbers = sum(2 * family.observation_size + family.action_size + 3 for family in families)
    return 4.0 * numbers * agents_each * experiment.agent.replay_steps
