"""Tunes a baseline on tasks that neither meta-training nor testing meets.

    epg-tf tune --config=point_goal --method=sac --budget=12 --json=sac.json
    epg-tf tune --config=metagenrl_laptop --method=ddpg --learning_rates=1e-3,3e-3

For baselines of EPG: random search with successive halving. --budget settings (the config's own
first) learn in --lives tasks each, then the better third in three times as many, and so on. --json
keeps every trial as it ends, and --resume goes on from there. For baselines of MetaGenRL: every
learning rate. Prints the settings to write into the config, and which lie at an end of what was
tried.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import command_line, config_flag  # first: command_line silences the frameworks

import numpy as np
from absl import flags

from .evaluation_flags import check_json, learning_flags, request_of

_RATES = {
    "off_policy_reinforce": "off_policy_learning_rate",
    "ddpg_with_td3": "ddpg_with_td3_learning_rate",
    "ppo": "ppo_learning_rate",
    "reinforce": "reinforce_learning_rate",
    "td3": "td3_learning_rate",
    "ddpg": "ddpg_learning_rate",
}
"""Baseline of MetaGenRL -> its learning rate in config.baseline."""

flags.adopt_module_key_flags(config_flag)
_OF_EPG = ("ppo", "ppo_as_epg", "reinforce", "sac", "td3")
"""Keys of `SPACES`, which imports TensorFlow; a test compares them."""
_METHOD = flags.DEFINE_enum("method", "ppo", sorted({*_OF_EPG, *_RATES}), "What to tune.")
_LIVES = flags.DEFINE_integer(
    "lives", 8, "Agents per setting at first.", lower_bound=2, upper_bound=10**6
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)
_BUDGET = flags.DEFINE_integer(
    "budget", 12, "Of EPG: settings to try.", lower_bound=2, upper_bound=10**4
)
_JSON = flags.DEFINE_string("json", None, "Of EPG: file for all trials and the winner.")
_RESUME = flags.DEFINE_bool("resume", False, "Go on with the search in --json, if it is there.")
_LEARNING_RATES = flags.DEFINE_list(
    "learning_rates", ["3e-4", "1e-3", "3e-3", "1e-2"], "Of MetaGenRL: rates to try."
)
_LEARNING = learning_flags("Of MetaGenRL", "the config's")

command_line.parse_flags(__name__)

from epg_tf.core import formatting
from epg_tf.core.errors import RecordError
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import BaselineConfig, MetaGenRLExperiment
from epg_tf.epg.baseline_settings import BASELINES
from epg_tf.core.threads import configure_tensorflow, threads_of
from epg_tf.evaluation.summary import summarize
from epg_tf.reports.tables import label
from epg_tf.runs.folder_lock import FolderLock

if TYPE_CHECKING:  # it imports TensorFlow, and flags are read before it is
    from epg_tf.evaluation.tuning import Search, Trial


def main(argv: list[str]) -> int:
    """Searches, and names the best settings; returns the exit code."""
    del argv
    experiment = config_flag.experiment_of((Experiment, MetaGenRLExperiment), physics="exact")
    offered = _OF_EPG if isinstance(experiment, Experiment) else tuple(_RATES)
    if _METHOD.value not in offered:
        raise command_line.UsageError(
            f"--method={_METHOD.value} is no baseline of this system; name {', '.join(offered)}"
        )
    if isinstance(experiment, Experiment):
        with _locked_json():
            return _search(experiment)
    return _try_rates(experiment)


def _search(experiment: Experiment) -> int:
    """Tunes a baseline of EPG; returns the exit code."""
    config_flag.refuse("task.physics", reason="baselines are tuned in exact physics; leave it out")
    from epg_tf.evaluation.tuning import SPACES, Search, at_edge, most_budget, rungs, winner
    from epg_tf.reports import search_file

    name = _METHOD.value
    group, space = SPACES[name]
    if _BUDGET.value > most_budget(space):
        raise command_line.UsageError(
            f"--budget={_BUDGET.value}: --method={name} has too few settings to draw from; "
            f"take at most {most_budget(space)}"
        )
    _refuse_others(name, *{*BASELINES} - {group})
    search = Search(name, experiment, _SEED.value, _BUDGET.value, _LIVES.value)
    earlier = _earlier(search)
    plan = rungs(search.budget, search.agents)
    print(
        f"{label(name)} on {experiment.task.family}, "
        f"{formatting.count(experiment.life_steps)} env steps of learning each: "
        + ", then ".join(f"{count} settings x {agents} agents" for count, agents in plan)
        + "; mean final return and 95 % interval; settings whose agents fail come last",
        flush=True,
    )
    command = shlex.join([*shlex.split(command_line.program("tune")), *sys.argv[1:]])
    trials: list[Trial] = []
    for trial in search.run(earlier=earlier):
        trials.append(trial)
        print(f"  {_line(trial)}", flush=True)
        if _JSON.value is not None and trial not in earlier:
            search_file.write_search(_JSON.value, search, trials, command)
    if _JSON.value is not None and trials != earlier:
        search_file.write_search(_JSON.value, search, trials, command)
    best = winner(trials)
    if best.failed == best.agents:
        raise command_line.UsageError(
            f"--method={name}: every agent of the best settings failed; raise --budget"
        )
    edges = at_edge(space, best.settings)
    print(f"best: setting {best.number}, mean {best.mean:.2f}; write into your config:")
    for field, value in best.settings.items():
        edge = f"   ({edges[field]} of those tried)" if field in edges else ""
        print(f"  {group}.{field} = {value:g}{edge}")
    return 0


@contextlib.contextmanager
def _locked_json() -> Iterator[None]:
    """Keeps other processes from writing --json, which is replaced with each trial: what is locked
    is a hidden folder beside it.

    Raises:
      UsageError: Another process writes to it, or it cannot be written.
    """
    if _JSON.value is None:
        yield
        return
    check_json(_JSON)
    path = Path(_JSON.value)
    folder = path.with_name(f".{path.name}.lock")
    folder.mkdir(exist_ok=True)
    lock = FolderLock(folder)
    try:
        lock.acquire()
    except RecordError as error:
        raise command_line.UsageError(
            f"--json={path}: another process is writing to this file; wait for it, or name another"
        ) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
        lock.release()


def _line(trial: Trial) -> str:
    settings = " ".join(f"{name}={value:g}" for name, value in trial.settings.items())
    return (
        f"{trial.number:3d}  {trial.mean:9.2f}  [{trial.ci95[0]:.2f}, {trial.ci95[1]:.2f}]  "
        f"agents {trial.agents}  failed {trial.failed}  {settings}"
    )


def _earlier(search: Search) -> list[Trial]:
    """Returns the trials of the search that --json holds.

    Raises:
      UsageError: The file is there without --resume, or --resume without --json.
    """
    if _JSON.value is None:
        if _RESUME.value:
            raise command_line.UsageError("--resume=True goes on with a file; name it with --json")
        return []
    if not Path(_JSON.value).exists():
        return []
    if not _RESUME.value:
        raise command_line.UsageError(
            f"--json={_JSON.value} is there; pass --resume to go on with its search, or name "
            "another file"
        )
    from epg_tf.reports import search_file

    return search_file.read_trials(_JSON.value, search)


def _try_rates(experiment: MetaGenRLExperiment) -> int:
    """Tries every rate of a baseline of MetaGenRL on the same agents; returns the exit code."""
    name, field = _METHOD.value, _RATES[_METHOD.value]
    config_flag.refuse(f"baseline.{field}", reason="--learning_rates takes its place")
    others = (each.name for each in dataclasses.fields(BaselineConfig))
    _refuse_others(name, *(f"baseline.{each}" for each in others if each in _RATES.values()))
    rates = command_line.positive_numbers("learning_rates", _LEARNING_RATES.value)
    from epg_tf.evaluation.evaluate import evaluate_baseline

    request = request_of(experiment, _LEARNING, _SEED.value, _LIVES.value)
    request = dataclasses.replace(request, phase="objective_tuning")
    configure_tensorflow(threads_of(experiment.threads))
    print(
        f"{label(name)}, {request.agents} agents in {request.task.family}, "
        f"{formatting.count(request.env_steps)} env steps each; mean final return and 95 % interval"
    )
    means = {}
    for rate in rates:
        changed: dict[str, Any] = {field: rate}
        baseline = dataclasses.replace(experiment.baseline, **changed)
        tried = dataclasses.replace(experiment, baseline=baseline)
        row = summarize(evaluate_baseline(name, tried, request))[name]
        means[rate] = np.nan_to_num(row.final_return_mean, nan=-np.inf)
        print(
            f"  {field}={rate:<8g} {row.final_return_mean:9.2f}  [{row.ci95[0]:.2f}, "
            f"{row.ci95[1]:.2f}]  failed {row.failed_lives}",
            flush=True,
        )
    best = max(rates, key=lambda rate: means[rate])
    if not np.isfinite(means[best]):
        raise command_line.UsageError(
            f"--learning_rates={','.join(_LEARNING_RATES.value)}: agents failed with every one of "
            "them; try smaller rates"
        )
    edge = "   (an end of those tried)" if best in (min(rates), max(rates)) else ""
    print(
        f"best: mean {means[best]:.2f}; write into your config:\n"
        f"  baseline.{field} = {best:g}{edge}"
    )
    return 0


def _refuse_others(name: str, *others: str) -> None:
    config_flag.refuse(*others, reason=f"it is not of --method={name}; leave it out")


if __name__ == "__main__":
    command_line.run(main)
