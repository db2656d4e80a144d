"""Runs a study of estimators: evolves with each of them, tests on the way, compares with PPO."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from epg_tf.core.errors import RecordError
from epg_tf.core.formatting import count, duration
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import final_teaching
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import EvolutionState, initial_state
from epg_tf.evaluation.evaluate import evaluate
from epg_tf.evaluation.study_costs import epoch_env_steps, evaluation_epochs
from epg_tf.evaluation.summary import summarize, summarize_lives
from epg_tf.reports.study_plots import EvaluatedRun
from epg_tf.runs.evolution import EvolutionSystem
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.metrics import MetricsFile
from epg_tf.runs.progress import Write
from epg_tf.runs.session import Session
from epg_tf.runs.study import StudyFolder, interval


@dataclasses.dataclass(frozen=True)
class StudyPlan:
    """What a study compares, and how it tests.

    Attributes:
      experiments: Settings by the name of their estimator; all have the same task.
      seeds: Each estimator evolves once with each.
      points: Number of tests of a run, at equal distances up to its end; one more comes before its
        first epoch.
      lives: Lives per test, one unseen task each, >= 2.
      test_seed: Selects the unseen tasks, >= 0.
    """

    experiments: Mapping[str, Experiment]
    seeds: Sequence[int]
    points: int
    lives: int
    test_seed: int


def cost_lines(plan: StudyPlan, folder: StudyFolder) -> list[str]:
    """Returns lines on what a study does, and what that costs."""
    seeds = ", ".join(map(str, plan.seeds))
    lines = [
        f"estimators {', '.join(plan.experiments)}, each with seeds {seeds}, in {folder.path}; "
        f"every run is tested at its start and {plan.points} times later, on {plan.lives} unseen "
        "tasks"
    ]
    for name, experiment in plan.experiments.items():
        evolution = experiment.evolution
        steps = evolution.epochs * epoch_env_steps(experiment)
        lines.append(
            f"  {name:18}{evolution.epochs} epochs x {evolution.lives} lives, up to about "
            f"{count(steps)} env steps a run"
        )
    return lines


def run_study(
    folder: StudyFolder, experiment: Experiment, plan: StudyPlan, write: Write
) -> dict[str, Any]:
    """Runs a study to its end, from wherever it is, and writes the comparison.

    Args:
      folder: Of the study.
      experiment: Settings of the config, with which PPO is tested.
      plan: What to compare.
      write: Called with lines about progress.

    Returns:
      The summary, as `study.summarize` returns it.

    Raises:
      RecordError: A run in the folder cannot continue.
      OSError: A file cannot be written; earlier results are unchanged.
    """
    ppo = _ppo(folder, experiment, plan)
    write(f"PPO: return {with_interval(ppo)}")
    runs = []
    for name, settings in plan.experiments.items():
        with Shards(settings) as shards:  # its processes end before those of the next estimator
            for seed in plan.seeds:
                run = StudyRun(folder, plan, (name, seed), shards, write)
                with contextlib.closing(run):
                    runs.append(run.evolve_and_evaluate())
    return folder.finish(runs, ppo, f"{experiment.task.family}: what evolving a loss costs")


def _ppo(folder: StudyFolder, experiment: Experiment, plan: StudyPlan) -> dict[str, float]:
    """Returns PPO's result on the tasks of the tests; it is tested once a study."""
    if (found := folder.ppo()) is not None:
        return found
    unused = initial_phi(experiment, 0)
    results = evaluate(experiment, unused, plan.test_seed, plan.lives, methods=["ppo"])
    result = summarize(results)["ppo"]
    folder.save_ppo(result)
    return interval(result)


class StudyRun:
    """One run of a study: an estimator with one seed. Its folder is open until `close`.

    Args:
      folder: Of the study.
      plan: Of the study.
      run: Name of the estimator, and seed.
      shards: Run the lives.
      write: Called with lines about progress.

    Raises:
      RecordError: The run in the folder cannot continue.
    """

    def __init__(
        self,
        folder: StudyFolder,
        plan: StudyPlan,
        run: tuple[str, int],
        shards: Shards,
        write: Write,
    ):
        (self._estimator, self._seed), self._plan, self._write = run, plan, write
        estimator, seed = run
        self._experiment = plan.experiments[estimator]
        self._path = folder.run_path(estimator, seed)
        self._points = set(evaluation_epochs(self._experiment.evolution.epochs, plan.points))
        self._tests = MetricsFile(self._path / "tests.csv")
        self._started = time.perf_counter()
        self._shards = shards
        system = EvolutionSystem(self._experiment, seed, shards)
        self._session = Session(system, RunTarget(self._path, resume=True))
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(self._session.close)
                self._session.begin()
                self._state = system.state
                self._tests.truncate_after(self._state.epoch)
                tested = {row["epoch"] for row in self._tests.read()}
                stack.pop_all()
        except RecordError as error:
            raise RecordError(
                f"{folder.path}: the run {self._path.name} cannot continue "
                f"({str(error).split(';')[0]}); restore that folder, or remove it"
            ) from error
        for warning in self._session.warnings:
            write(f"{self._path.name}: {warning}")
        due = {epoch for epoch in self._points if epoch <= self._state.epoch}
        self._missing = sorted(due - tested)

    def evolve_and_evaluate(self) -> EvaluatedRun:
        """Evolves to the end and tests on the way; returns all tests."""
        state = self._state
        if self._missing:
            self._tests.truncate_after(self._missing[0] - 1)
            only_newest = self._missing == [state.epoch]
            for earlier in [state] if only_newest else self._repeated(state.epoch):
                if earlier.epoch >= self._missing[0]:
                    self._evaluate(earlier)
        for result in self._session.steps():
            self._evaluate(result.state)
        return EvaluatedRun(self._estimator, self._seed, self._tests.read())

    def _repeated(self, last: int) -> Iterator[EvolutionState]:
        """Yields all states up to `last` again: states before the newest checkpoints are gone."""
        self._write(
            f"{self._path / 'tests.csv'} lacks tests before epoch {last}; evolution is repeated "
            "to get them"
        )
        evolution = dataclasses.replace(self._experiment.evolution, epochs=last)
        shorter = dataclasses.replace(self._experiment, evolution=evolution)
        yield initial_state(self._experiment, self._seed)
        for result in evolve(shorter, self._seed, shards=self._shards):
            yield result.state

    def _evaluate(self, state: EvolutionState) -> None:
        """Tests phi itself on the same tasks as `evaluate`, and in exact physics as there, after
        the epochs to be tested.
        """
        if state.epoch not in self._points:
            return
        plan, experiment = self._plan, self._experiment
        keys = [LifeKey(plan.test_seed, "test", 0, index) for index in range(plan.lives)]
        teaching = final_teaching(experiment)
        lives = self._shards.run(keys, lambda life: state.phi, teaching, exact=True)
        result = summarize_lives(lives, experiment.life_steps)
        row = {
            "epoch": state.epoch,
            "env_steps": state.env_steps,
            **interval(result),
            "failed_lives": result.failed_lives,
        }
        self._tests.append(row)
        self._write(
            f"{self._estimator} seed {self._seed}  epoch "
            f"{state.epoch}/{experiment.evolution.epochs}  {count(state.env_steps)} env steps  "
            f"return {with_interval(row)}"
            + (f"  failed {result.failed_lives}" if result.failed_lives else "")
            + f"  {duration(time.perf_counter() - self._started)} so far"
        )

    def close(self) -> None:
        """Lets other processes use the folder."""
        self._session.close()


def with_interval(row: Mapping[str, float]) -> str:
    """Returns mean and interval as text."""
    return f"{row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
