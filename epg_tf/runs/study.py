"""Keeps the folder of a study of estimators: what it compares, PPO's test, and the comparison.

Each run of the study has a folder of its own in it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epg_tf.core import files
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation.study_costs import cost_ratio, first_above, median_cost
from epg_tf.evaluation.summary import Summary
from epg_tf.reports import plots
from epg_tf.reports.study_plots import EvaluatedRun, study_csv, study_figure
from epg_tf.runs import saved_settings
from epg_tf.runs.folder import is_new
from epg_tf.runs.folder_lock import FolderLock

Choice = str | float | list[str] | list[int]
STUDY = "study.json"
_MAY_CHANGE = frozenset({"config.compute.threads", "config.compute.parallel"})


class StudyFolder:
    """The folder of a study, new or started before, and locked until `close`.

    Args:
      path: The folder.
      experiment: Settings of the config, before estimators change them.
      choices: What else decides the numbers, by name.

    Attributes:
      path: The folder.

    Raises:
      RecordError: The folder cannot be used, or has something else in it; nothing has been
        changed.
    """

    def __init__(self, path: files.PathLike, experiment: Experiment, choices: Mapping[str, Choice]):
        self.path = Path(path)
        self._lock = FolderLock(self.path)
        try:
            self._open(path, experiment, choices)
        except BaseException:
            self.close()
            raise

    def _open(
        self, path: files.PathLike, experiment: Experiment, choices: Mapping[str, Choice]
    ) -> None:
        if path and self.path.is_dir():
            self._lock.acquire()
        started = self._has_started(experiment, choices)
        files.prepare_folder(path, (), overwrite=False, resume=True)
        self._lock.acquire()
        if not started:
            # "flags" is the name in studies of earlier versions, too.
            description = {"flags": choices, "config": experiment.to_mapping()}
            files.write_json(self.path / STUDY, description)

    def _has_started(self, experiment: Experiment, choices: Mapping[str, Choice]) -> bool:
        """Returns whether this study has been started; refuses another one."""
        if is_new(self.path, STUDY):
            return False
        if not (self.path / STUDY).is_file():
            raise RecordError(
                f"{self.path}: the folder is in use and has no study.json; choose another folder"
            )
        before = files.read_json(self.path / STUDY, "the description of the study")
        then = before.get("flags")
        try:
            config = saved_settings.read(before.get("config"), Experiment.from_mapping)
        except ConfigError as error:
            raise self._damaged(str(error)) from error
        if not isinstance(then, dict):
            raise self._damaged("no flags")
        for name, value in choices.items():
            if then.get(name) != value:
                raise RecordError(
                    f"{name}={_shown(value)}: the study in {self.path} has "
                    f"{_shown(then.get(name))}; pass that, or choose another folder"
                )
        now = experiment.to_mapping()
        for field, old, new in saved_settings.changes(config.to_mapping(), now, _MAY_CHANGE):
            raise RecordError(
                f"{field}={new!r}: the study in {self.path} has {old!r}; pass that, or choose "
                "another folder"
            )
        return True

    def _damaged(self, reason: str) -> RecordError:
        return RecordError(
            f"{self.path}: study.json is damaged ({reason}); restore it, or choose another folder"
        )

    def run_path(self, estimator: str, seed: int) -> Path:
        """Returns the folder of one run."""
        return self.path / f"{estimator}-{seed}"

    def ppo(self) -> dict[str, float] | None:
        """Returns PPO's mean return and the ends of its interval: `mean`, `low`, `high`.

        None before PPO was tested.

        Raises:
          RecordError: The file of the test is damaged.
        """
        return read_ppo(self.path / "ppo.json")

    def save_ppo(self, summary: Summary) -> None:
        """Writes the result of PPO's test."""
        result = {**interval(summary), "failed_lives": summary.failed_lives}
        files.write_json(self.path / "ppo.json", result)

    def finish(
        self, runs: Sequence[EvaluatedRun], ppo: Mapping[str, float], title: str
    ) -> dict[str, Any]:
        """Writes `study.csv`, `study.png` and `summary.json`; returns the summary."""
        study_csv(runs, self.path / "study.csv")
        plots.write_png(study_figure(runs, ppo["mean"], title), self.path / "study.png")
        summary = summarize(runs, ppo)
        files.write_json(self.path / "summary.json", summary)
        return summary

    def close(self) -> None:
        """Lets other processes use the folder."""
        self._lock.release()


def read_ppo(path: Path) -> dict[str, float] | None:
    """Returns what `StudyFolder.ppo` does, from the file of the test.

    Raises:
      RecordError: The file is damaged.
    """
    if not path.exists():
        return None
    found = files.read_json(path, "PPO's test")
    numbers = {
        name: math.nan if found.get(name) is None else found[name]
        for name in ("mean", "low", "high")
    }
    if not all(isinstance(number, int | float) for number in numbers.values()):
        raise RecordError(
            f"{path}: PPO's test has no numbers; remove the file, the test will be repeated"
        )
    return numbers


def interval(summary: Summary) -> dict[str, float]:
    """Returns mean return and the ends of its 95 % interval, as the files of a study name them."""
    return {"mean": summary.final_return_mean, "low": summary.ci95[0], "high": summary.ci95[1]}


def summarize(runs: Sequence[EvaluatedRun], ppo: Mapping[str, float]) -> dict[str, Any]:
    """Returns the content of `summary.json`.

    Args:
      runs: All runs.
      ppo: Its `mean`, `low` and `high`.

    Returns:
      `ppo`; `runs` by folder name, each with its last test and the env steps of the first test
      above PPO, None if none was; `median_env_steps_above_ppo` by estimator; `cheapest`, the
      estimator where that is least, None where no run was ever above;
      `env_steps_relative_to_cheapest` of the others.
    """
    firsts = [first_above(run.rows, ppo["high"]) for run in runs]
    costs = {}
    for estimator in dict.fromkeys(run.estimator for run in runs):
        own = [number for number, run in enumerate(runs) if run.estimator == estimator]
        spent = [int(runs[number].rows[-1]["env_steps"]) for number in own]
        costs[estimator] = median_cost([firsts[number] for number in own], spent)
    certain = [name for name, cost in costs.items() if not cost.least]
    cheapest = min(certain, key=lambda name: costs[name].env_steps, default=None)
    relative = {}
    if cheapest is not None:
        relative = {
            name: dataclasses.asdict(cost_ratio(cost, costs[cheapest]))
            for name, cost in costs.items()
            if name != cheapest
        }
    return {
        "ppo": dict(ppo),
        "runs": {
            f"{run.estimator}-{run.seed}": _last_evaluation(run, first)
            for run, first in zip(runs, firsts, strict=True)
        },
        "median_env_steps_above_ppo": {
            name: dataclasses.asdict(cost) for name, cost in costs.items()
        },
        "cheapest": cheapest,
        "env_steps_relative_to_cheapest": relative,
    }


def _last_evaluation(run: EvaluatedRun, first: int | None) -> dict[str, Any]:
    last = run.rows[-1]
    return {
        "estimator": run.estimator,
        "seed": run.seed,
        "env_steps_above_ppo": first,
        "env_steps": int(last["env_steps"]),
        "mean": last["mean"],
        "low": last["low"],
        "high": last["high"],
    }


def _shown(value: Choice | None) -> str:
    """Returns the value of a choice as text; lists with commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else f"{value}"
