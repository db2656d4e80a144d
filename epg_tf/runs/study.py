"""Keeps a study of estimators: what was asked, PPO's test, what came out; each run has a folder of
its own in it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.evaluation.study_costs import cost_ratio, first_above, median_cost
from epg_tf.evaluation.summary import Summary
from epg_tf.core.experiment import Experiment, from_mapping
from epg_tf.core import files
from epg_tf.core.old_settings import renamed
from epg_tf.reports import plots
from epg_tf.reports.plots import EvaluatedRun
from epg_tf.runs.folder import changes, lock

Flag = str | float | list[str] | list[int]
_MAY_CHANGE = {"config.compute.threads"}


class StudyFolder:
    """The folder of a study, new or begun by the same command.

    Args:
      path: The folder.
      experiment: Settings of the config, before estimators change them.
      flags: What else decides the numbers, by the name of the flag.

    Raises:
      RecordError: The folder is not usable, or holds something else; nothing has been changed.
    """

    def __init__(self, path: str, experiment: Experiment, flags: Mapping[str, Flag]):
        self.path = Path(path)
        self._lock = lock(self.path, "--output_dir") if path and self.path.is_dir() else None
        begun = self._begun(experiment, flags)
        files.prepare_folder(path, "--output_dir", True, False, ())
        self._lock = self._lock or lock(self.path, "--output_dir")
        if not begun:
            files.write_json(self.path / "study.json", {"flags": flags, "config": experiment.to_mapping()})

    def _begun(self, experiment: Experiment, flags: Mapping[str, Flag]) -> bool:
        """Returns whether this very study has been begun; refuses another one."""
        if not self.path.is_dir() or all(entry.name.startswith(".study.json.") for entry in self.path.iterdir()):
            return False
        if not (self.path / "study.json").is_file():
            raise RecordError(f"--output_dir={self.path}: the folder is in use and holds no "
                              "study.json; choose "
                                    f"another folder")
        before = files.read_json(self.path / "study.json", "what the study was asked for")
        then = before.get("flags")
        try:
            config = from_mapping(renamed(before.get("config")))
        except ConfigError as error:
            raise self._damaged(str(error)) from error
        if not isinstance(then, dict):
            raise self._damaged("no flags")
        for name, value in flags.items():
            if then.get(name) != value:
                raise RecordError(f"--{name}={_shown(value)}: the study in "
                                  f"--output_dir={self.path} has "
                                        f"{_shown(then.get(name))}; pass that, or choose another "
                                        "folder")
        for field, old, value in changes(config.to_mapping(), experiment.to_mapping(), _MAY_CHANGE):
            raise RecordError(f"{field}={value!r}: the study in --output_dir={self.path} has "
                              f"{old!r}; pass that, "
                                    f"or choose another folder")
        return True

    def _damaged(self, reason: str) -> RecordError:
        return RecordError(f"--output_dir={self.path}: study.json is damaged ({reason}); restore "
                           "it, or choose "
                                 f"another folder")

    def run_path(self, estimator: str, seed: int) -> Path:
        """Returns the folder of one run."""
        return self.path / f"{estimator}-{seed}"

    def ppo(self) -> dict[str, float] | None:
        """Returns PPO's mean return and the ends of its interval, `mean`, `low`, `high`; None
        before it was tested.
        """
        path = self.path / "ppo.json"
        if not path.exists():
            return None
        found = files.read_json(path, "PPO's test")
        numbers = {name: math.nan if found.get(name) is None else found[name] for name in ("mean", "low", "high")}
        if not all(isinstance(number, (int, float)) for number in numbers.values()):
            raise RecordError(f"{path}: PPO's test holds no numbers; remove the file, it will be "
                              "made anew")
        return numbers

    def save_ppo(self, score: Summary) -> None:
        """Writes how PPO did."""
        files.write_json(self.path / "ppo.json", {**interval(score), "failed_lives": score.failed_lives})

    def finish(self, runs: Sequence[EvaluatedRun], ppo: Mapping[str, float], title: str) -> dict:
        """Writes `study.csv`, `study.png` and `summary.json`; returns the summary."""
        plots.study_csv(runs, self.path / "study.csv")
        plots.study_curves(runs, (ppo["mean"], ppo["low"], ppo["high"]), self.path / "study.png", title)
        summary = summarise(runs, ppo)
        files.write_json(self.path / "summary.json", summary)
        return summary


def interval(score: Summary) -> dict[str, float]:
    """Returns mean return and the ends of its 95 % interval, as the files of a study name them."""
    return {"mean": score.final_return_mean, "low": score.ci95[0], "high": score.ci95[1]}


def summarise(runs: Sequence[EvaluatedRun], ppo: Mapping[str, float]) -> dict:
    """Returns what `summary.json` holds.

    Args:
      runs: All runs.
      ppo: Its `mean`, `low` and `high`.

    Returns:
      `ppo`; `runs` by folder name, each with its last test and the env steps of the first test
      above PPO, None if none was; `median_env_steps_above_ppo` by estimator; `cheapest`, the
      estimator where that is least, None where no run was ever above;
      `env_steps_relative_to_cheapest` of the others.
    """
    about, costs = {}, {}
    for run in runs:
        last = run.rows[-1]
        about[f"{run.estimator}-{run.seed}"] = {
            "estimator": run.estimator, "seed": run.seed, "env_steps_above_ppo": first_above(run.rows, ppo["high"]),
            "env_steps": int(last["env_steps"]), "mean": last["mean"], "low": last["low"], "high": last["high"]}
    for estimator in dict.fromkeys(run.estimator for run in runs):
        mine = [row for row in about.values() if row["estimator"] == estimator]
        costs[estimator] = median_cost([row["env_steps_above_ppo"] for row in mine], [row["env_steps"] for row in mine])
    ahead = [name for name, cost in costs.items() if not cost.least]
    cheapest = min(ahead, key=lambda name: costs[name].env_steps, default=None)
    relative = {name: dataclasses.asdict(cost_ratio(cost, costs[cheapest])) for name, cost in costs.items()
                if name != cheapest} if cheapest else {}
    return {"ppo": dict(ppo), "runs": about,
            "median_env_steps_above_ppo": {name: dataclasses.asdict(cost) for name, cost in costs.items()},
            "cheapest": cheapest, "env_steps_relative_to_cheapest": relative}


def _shown(value: Flag | None) -> str:
    """Writes the value of a flag as one would type it."""
    return ",".join(map(str, value)) if isinstance(value, list) else f"{value}"
