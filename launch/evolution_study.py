"""Compares estimators of evolution: the test return of the evolving loss against the env steps
spent, and PPO's.

    python -m launch.evolution_study --config=configs/point_goal.py --estimators=paper,config
        --seeds=0,1,2 \\ --env_steps=20e6 --output_dir=runs/study-point-goal

Stopped in whatever way, the same command goes on where it was, to the same bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import time
from collections.abc import Iterator, Mapping

from launch import command_line  # first: it quietens the frameworks

from absl import flags  # isort: skip
from ml_collections import config_flags  # isort: skip

from epg_tf.core import formatting
from epg_tf.core.errors import RecordError
from configs import estimators
from epg_tf.epg.state import EvolutionState, initial_state
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.inner_loop import Teaching
from epg_tf.evaluation.evaluate import evaluate
from epg_tf.epg.shards import Shards
from epg_tf.evaluation.study_costs import epoch_env_steps, epochs_to_test
from epg_tf.evaluation.summary import summarize, summarize_lives
from epg_tf.core.experiment import Experiment
from epg_tf.runs.metrics import MetricsFile
from epg_tf.reports.plots import EvaluatedRun
from epg_tf.core.types import LifeKey
from epg_tf.runs.evolution_run import RunFolder
from epg_tf.runs.study import StudyFolder, interval

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment file, e.g. configs/point_goal.py."
)
_ESTIMATORS = flags.DEFINE_list(
    "estimators", ["paper", "config"], "Estimators to compare, of configs/estimators.py."
)
_SEEDS = flags.DEFINE_list(
    "seeds", ["0", "1", "2"], "Seeds; each estimator evolves once with each."
)
_ENV_STEPS = flags.DEFINE_float(
    "env_steps", None, "Env steps of meta-training in each run, e.g. 20e6."
)
_POINTS = flags.DEFINE_integer(
    "test_points",
    12,
    "How often, at equal distances up to the end, each run's phi is "
    "tested; besides, before its first epoch.",
    lower_bound=1,
    upper_bound=10**4,
)
_LIVES = flags.DEFINE_integer(
    "test_lives", 64, "Lives per test, one unseen task each.", lower_bound=2, upper_bound=10**6
)
_TEST_SEED = flags.DEFINE_integer("test_seed", 0, "Names the unseen tasks.", lower_bound=0)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for study.csv, study.png, summary.json and all runs."
)


def main(argv: list[str]) -> int:
    """Evolves with every estimator and seed, tests on the way, writes down the comparison; returns
    the exit code.
    """
    del argv
    experiment = command_line.experiment_of(_CONFIG)
    names, seeds = _names(_ESTIMATORS.value), _seeds(_SEEDS.value)
    budget = _ENV_STEPS.value
    if budget is None or not 0 < budget < math.inf:
        raise command_line.UsageError(
            f"--env_steps={budget} must be a finite number above 0, e.g. --env_steps=20e6"
        )
    if not _OUTPUT_DIR.value:
        raise command_line.UsageError(
            "--output_dir is missing; name a folder, e.g. --output_dir=runs/study"
        )
    plan = {name: estimators.applied(experiment, name, budget) for name in names}
    folder = StudyFolder(
        _OUTPUT_DIR.value,
        experiment,
        {
            "estimators": names,
            "seeds": seeds,
            "env_steps": budget,
            "test_points": _POINTS.value,
            "test_lives": _LIVES.value,
            "test_seed": _TEST_SEED.value,
        },
    )
    _announce(plan, seeds)
    try:
        ppo = _ppo(folder, experiment)
        with contextlib.ExitStack() as stack:
            shards = {name: stack.enter_context(Shards(plan[name])) for name in names}
            runs = [
                _Run(folder, plan[name], name, seed, shards[name]).tested()
                for seed in seeds
                for name in names
            ]
        runs.sort(key=lambda run: names.index(run.estimator))
        title = f"{experiment.task.family}: what evolving a loss costs"
        summary = folder.finish(runs, ppo, title)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(
            f"error: cannot write to --output_dir={_OUTPUT_DIR.value} ({error}); what was written "
            "before is intact: "
            f"mend the cause and run the same command again",
            file=sys.stderr,
        )
        return 1
    _print_table(summary)
    print(f"results are in {folder.path}; the picture:\n{folder.path / 'study.png'}")
    return 0


def _names(words: list[str]) -> list[str]:
    if not words or not set(words) <= set(estimators.OVERRIDES) or len(set(words)) < len(words):
        raise command_line.UsageError(
            f"--estimators={','.join(words)} must be different names, separated by commas; "
            f"there are {', '.join(estimators.OVERRIDES)}"
        )
    return words


def _seeds(words: list[str]) -> list[int]:
    seeds = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) <= 9]
    if not seeds or len(set(seeds)) < len(words):
        raise command_line.UsageError(
            f"--seeds={','.join(words)} must be different whole numbers from 0 to 999999999, "
            f"separated by commas"
        )
    return seeds


def _announce(plan: Mapping[str, Experiment], seeds: list[int]) -> None:
    count = formatting.count
    print(
        f"estimators {', '.join(plan)}, each with seeds {', '.join(map(str, seeds))}, in "
        f"{_OUTPUT_DIR.value}; every "
        f"run is tested at its start and {_POINTS.value} times later, on {_LIVES.value} unseen "
        "tasks"
    )
    for name, experiment in plan.items():
        evolution = experiment.evolution
        print(
            f"  {name:18}{evolution.epochs} epochs x {evolution.lives} lives, up to about "
            f"{count(evolution.epochs * epoch_env_steps(experiment))} env steps a run"
        )
    print("stopped in whatever way, the same command goes on", flush=True)


def _ppo(folder: StudyFolder, experiment: Experiment) -> dict[str, float]:
    """Returns how PPO does on the tasks of the tests, once found out for good."""
    if folder.ppo() is None:
        unused = initial_phi(experiment, 0)
        found = evaluate(experiment, unused, _TEST_SEED.value, _LIVES.value, methods=["ppo"])
        folder.save_ppo(summarize(found)["ppo"])
    ppo = folder.ppo()
    print(f"PPO, tuned: return {_with_interval(ppo)}", flush=True)
    return ppo


class _Run:
    """One run: an estimator with one seed."""

    def __init__(
        self, study: StudyFolder, experiment: Experiment, estimator: str, seed: int, shards: Shards
    ):
        self._experiment, self._estimator, self._seed, self._shards = (
            experiment,
            estimator,
            seed,
            shards,
        )
        self._path = study.run_path(estimator, seed)
        self._tests = MetricsFile(self._path / "tests.csv")
        self._points = set(epochs_to_test(experiment.evolution.epochs, _POINTS.value))
        self._started = time.perf_counter()

    def tested(self) -> EvaluatedRun:
        """Evolves to the end from wherever the folder is, testing on the way; returns all tests."""
        folder, state, missing = self._open()
        if missing:
            self._tests.truncate_after(missing[0] - 1)
            for earlier in [state] if missing == [state.epoch] else self._relived(state.epoch):
                if earlier.epoch >= missing[0]:
                    self._test(earlier)
        for result in evolve(self._experiment, self._seed, state, self._shards):
            state = result.state
            folder.record(result)
            self._test(state)
        folder.finish(state)
        return EvaluatedRun(self._estimator, self._seed, self._tests.read())

    def _open(self) -> tuple[RunFolder, EvolutionState, list[int]]:
        """Returns folder, state to go on from, and the epochs up to there that were to be tested
        and have no row.
        """
        try:
            folder = RunFolder(
                str(self._path), self._experiment, self._seed, resume=True, overwrite=False
            )
            state, messages = folder.restore()
            self._tests.truncate_after(state.epoch)
            rows = {row["epoch"] for row in self._tests.read()}
        except RecordError as error:
            raise RecordError(
                f"--output_dir={self._path.parent}: the run {self._path.name} cannot go on "
                f"({str(error).split(';')[0]}); restore that folder, or remove it"
            ) from error
        for message in [f"damaged: {message}" for message in messages] + folder.notes:
            print(f"{self._path.name}: {message}")
        return (
            folder,
            state,
            sorted(epoch for epoch in self._points if epoch <= state.epoch and epoch not in rows),
        )

    def _relived(self, last: int) -> Iterator[EvolutionState]:
        """Yields all states up to `last` anew: older ones than the checkpoint are kept nowhere."""
        print(
            f"{self._path / 'tests.csv'} lacks tests before epoch {last}; evolution is repeated "
            "to make them good",
            flush=True,
        )
        evolution = dataclasses.replace(self._experiment.evolution, epochs=last)
        yield initial_state(self._experiment, self._seed)
        for result in evolve(
            dataclasses.replace(self._experiment, evolution=evolution),
            self._seed,
            shards=self._shards,
        ):
            yield result.state

    def _test(self, state: EvolutionState) -> None:
        """Writes down how phi itself does, if it is time; as `evaluate`, on the same tasks."""
        if state.epoch not in self._points:
            return
        keys = [LifeKey(_TEST_SEED.value, "test", 0, index) for index in range(_LIVES.value)]
        lives = self._shards.run(
            keys, lambda life: state.phi, Teaching(0.0, self._experiment.inner.learning_rate)
        )
        result = summarize_lives(lives, self._experiment.life_steps)
        row = {
            "epoch": state.epoch,
            "env_steps": state.env_steps,
            **interval(result),
            "failed_lives": result.failed_lives,
        }
        self._tests.append(row)
        print(
            f"{self._estimator} seed {self._seed}  epoch "
            f"{state.epoch}/{self._experiment.evolution.epochs}  "
            f"{formatting.count(state.env_steps)} env steps  return {_with_interval(row)}"
            + (f"  failed {result.failed_lives}" if result.failed_lives else "")
            + f"  {formatting.duration(time.perf_counter() - self._started)} so far",
            flush=True,
        )


def _with_interval(row: Mapping[str, float]) -> str:
    return f"{row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def _print_table(summary: dict) -> None:
    count = formatting.count
    print("\nreturn of the final policy (sum of rewards in an episode) at the end of evolution")
    print(
        f"{'':18}{'seed':>9}  {'mean':>9}  {'95 % interval':>20}  {'env steps':>9}  "
        f"{'above PPO from':>14}"
    )
    for row in summary["runs"].values():
        first = row["env_steps_above_ppo"]
        print(
            f"{row['estimator']:18}{row['seed']:9d}  {_cells(row)}  {count(row['env_steps']):>9}  "
            f"{'never' if first is None else count(first):>14}"
        )
    print(f"{'PPO, tuned':18}{'':9}  {_cells(summary['ppo'])}\n")
    cheapest = summary["cheapest"]
    for name, ratio in summary["env_steps_relative_to_cheapest"].items():
        value = "" if ratio["value"] is None else f" {ratio['value']:.2g} times"
        print(
            f"median env steps until above PPO: {name} {ratio['meaning']}{value} those of "
            f"{cheapest}"
        )


def _cells(row: Mapping[str, float]) -> str:
    ends = f"[{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['mean']:9.2f}  {ends:>20}"


if __name__ == "__main__":
    command_line.run(main)
