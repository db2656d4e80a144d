"""Compares estimators of evolution: test returns of the loss against env steps spent, and PPO's.

    epg-tf evolution-study --config=point_goal --estimators=paper,config \\
        --seeds=0,1,2 --env_steps=20e6 --output_dir=runs/study-point-goal

After any stop the same command continues, and ends with the same bits.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Mapping
from typing import Any

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.evaluation import estimators
from epg_tf.epg.settings import Experiment
from epg_tf.core.formatting import count
from epg_tf.runs.study import Choice, StudyFolder
from epg_tf.runs.study_run import StudyPlan, cost_lines, run_study

flags.adopt_module_key_flags(config_flag)
_ESTIMATORS = flags.DEFINE_list(
    "estimators", ["paper", "config"], "Estimators to compare, of epg_tf/evaluation/estimators.py."
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
    "How often, at equal distances up to the end, each run's phi is tested; besides, before its "
    "first epoch.",
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


_write = functools.partial(print, flush=True)


def main(argv: list[str]) -> int:
    """Evolves with every estimator and seed, tests on the way, and writes the comparison.

    Returns:
      The exit code.
    """
    del argv
    config_flag.refuse(
        "evolution.validation_period", reason="--test_points says how often runs are tested"
    )
    config_flag.refuse("evolution.failed_epochs", reason="runs of a study go on to their end")
    config_flag.refuse("reinforce", "sac", "td3", reason="PPO is the only rival; leave it out")
    experiment = config_flag.experiment()
    if not experiment.inner.updates:
        raise command_line.UsageError(
            "--config.inner.updates=0 leaves PPO no env steps to learn in; set it above 0"
        )
    names, seeds, budget = _names(_ESTIMATORS.value), _seeds(_SEEDS.value), _budget()
    if not _OUTPUT_DIR.value:
        raise command_line.UsageError(
            "--output_dir is missing; name a folder, e.g. --output_dir=runs/study"
        )
    plan = StudyPlan(
        experiments={name: estimators.applied(experiment, name, budget) for name in names},
        seeds=seeds,
        points=_POINTS.value,
        lives=_LIVES.value,
        test_seed=_TEST_SEED.value,
    )
    choices: dict[str, Choice] = {
        "estimators": names,
        "seeds": seeds,
        "env_steps": budget,
        "test_points": plan.points,
        "test_lives": plan.lives,
        "test_seed": plan.test_seed,
    }
    with contextlib.closing(StudyFolder(_OUTPUT_DIR.value, experiment, choices)) as folder:
        return _run(folder, experiment, plan)


def _run(folder: StudyFolder, experiment: Experiment, plan: StudyPlan) -> int:
    for line in cost_lines(plan, folder):
        _write(line)
    _write("stopped in any way, the same command continues")
    try:
        summary = run_study(folder, experiment, plan, _write)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(
            f"error: cannot write to --output_dir={_OUTPUT_DIR.value} ({error}); what was written "
            "before is intact: remove the cause and run the same command again",
            file=sys.stderr,
        )
        return 1
    _print_table(summary)
    print(f"results are in {folder.path}; the picture:\n{folder.path / 'study.png'}")
    print(command_line.page_line(folder.path))
    return 0


def _budget() -> float:
    budget = _ENV_STEPS.value
    if budget is None or not 0 < budget < math.inf:
        raise command_line.UsageError(
            f"--env_steps={budget} must be a finite number above 0, e.g. --env_steps=20e6"
        )
    return budget


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
            "separated by commas"
        )
    return seeds


def _print_table(summary: Mapping[str, Any]) -> None:
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
    print(f"{'PPO':18}{'':9}  {_cells(summary['ppo'])}\n")
    cheapest = summary["cheapest"]
    for name, ratio in summary["env_steps_relative_to_cheapest"].items():
        value = "" if ratio["value"] is None else f" {ratio['value']:.2g} times"
        how = "cannot be compared with" if value == "" else f"{ratio['meaning']}{value}"
        print(f"median env steps until above PPO: {name} {how} those of {cheapest}")
    if cheapest is None:
        print("no estimator was above PPO for certain")


def _cells(row: Mapping[str, float]) -> str:
    ends = f"[{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['mean']:9.2f}  {ends:>20}"


if __name__ == "__main__":
    command_line.run(main)
