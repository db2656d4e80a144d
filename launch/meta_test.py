"""Trains fresh agents with a frozen loss on unseen tasks (Algorithm 2), beside PPO on the same
tasks.

    python -m launch.meta_test --loss=runs/first/best --output_dir=runs/first-test

Objectives of MetaGenRL can be tested in any environment with continuous actions:

    python -m launch.meta_test --loss=runs/objective/final --environment=gymnasium:Hopper-v5
    --output_dir=runs/test
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

from launch import command_line  # first: it quietens the frameworks

import numpy as np  # isort: skip
from absl import flags  # isort: skip
from ml_collections import config_flags  # isort: skip

from epg_tf.core import formatting
from epg_tf.artifacts import learned_loss
from epg_tf.artifacts import saved_policy
from epg_tf.evaluation.epg_methods import Score, meta_test, score, trained_agent
from epg_tf.core.experiment import Experiment
from epg_tf.artifacts.learned_loss import LearnedLoss, load_loss
from epg_tf.artifacts.learned_objective import LearnedObjective, is_objective, load_objective
from epg_tf.core import files
from epg_tf.reports import plots
from epg_tf.artifacts import saved_models
from epg_tf.tasks.registry import make_family
from epg_tf.core.types import Array, LifeResults
from launch import objective_report

_LOSS = flags.DEFINE_string("loss", None, "Folder of a learned loss, e.g. RUN_DIR/best.")
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for curves.csv, summary.json and curves.png."
)
_CONFIG = config_flags.DEFINE_config_file(
    "config",
    None,
    "Experiment whose task, policy and baseline replace those of evolution, for example with "
    "--config.task.range=out_of_distribution; also loads a family of one's own. For objectives of "
    "MetaGenRL: one whose "
    "baseline settings replace those of meta-training.",
)
_LIVES = flags.DEFINE_integer(
    "lives",
    None,
    "Lives per method, one unseen task each; 64 by default, 8 agents of MetaGenRL.",
    lower_bound=2,
    upper_bound=10**6,
)
_UPDATES = flags.DEFINE_integer(
    "updates",
    None,
    "Updates per life; as in evolution by default.",
    lower_bound=1,
    upper_bound=10**7,
)
_COMPARE = flags.DEFINE_enum(
    "compare",
    "ppo",
    ["ppo", "none", "all"],
    "Which baselines learn on the same tasks; all: "
    "for objectives of MetaGenRL, also on-policy REINFORCE, TD3 and DDPG.",
)
_SEED = flags.DEFINE_integer("seed", 0, "Names the unseen tasks.", lower_bound=0)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace results in --output_dir; foreign files in it stay."
)
_SAVE_POLICY = flags.DEFINE_string(
    "save_policy", None, "Folder for the first agent as a TF-Agents policy."
)
_ENVIRONMENT = flags.DEFINE_string(
    "environment",
    None,
    "For objectives of MetaGenRL: FAMILY or FAMILY@EPISODE_LIMIT, "
    "e.g. gymnasium:Hopper-v5@250; as in meta-training by default.",
)
_ENV_STEPS = flags.DEFINE_integer(
    "env_steps",
    None,
    "For objectives of MetaGenRL: env steps of learning per agent; as in meta-training by default.",
    lower_bound=1,
    upper_bound=10**8,
)
_EPISODES = flags.DEFINE_integer(
    "episodes",
    None,
    "For objectives of MetaGenRL: episodes per agent and evaluation; 5 by default.",
    lower_bound=1,
    upper_bound=10**4,
)

_OWN = ("curves.csv", "curves.png", "summary.json")
_LABELS = {
    "epg": "evolved loss (EPG)",
    "ppo": "PPO",
    "untrained": "untrained agent",
    "random_loss": "unevolved loss",
}


def main(argv: list[str]) -> int:
    """Tests a loss and writes down how it did; returns the exit code."""
    del argv
    for flag, value, example in (
        ("loss", _LOSS.value, "runs/first/best"),
        ("output_dir", _OUTPUT_DIR.value, "runs/first-test"),
    ):
        if not value:
            raise command_line.UsageError(
                f"--{flag} is missing; name a folder, e.g. --{flag}={example}"
            )
    if is_objective(_LOSS.value):
        _refuse(
            ("updates", _UPDATES.value),
            ("save_policy", _SAVE_POLICY.value),
            kind="an objective of MetaGenRL",
        )
        return _test_objective(load_objective(_LOSS.value), _LIVES.value or 8)
    _refuse(
        ("environment", _ENVIRONMENT.value),
        ("env_steps", _ENV_STEPS.value),
        ("episodes", _EPISODES.value),
        kind="a loss of EPG",
    )
    return _test_loss(load_loss(_LOSS.value), _LIVES.value or 64)


def _refuse(*given: tuple[str, object], kind: str) -> None:
    """Refuses flags that mean nothing for what is tested."""
    for flag, value in given:
        if value is not None:
            raise command_line.UsageError(
                f"--{flag}: --loss={_LOSS.value} is {kind}, which it does not apply to; "
                f"leave it out"
            )


def _test_objective(learned: LearnedObjective, agents: int) -> int:
    if _CONFIG.value is not None:
        baseline = command_line.metagenrl_experiment_of(_CONFIG).baseline
        learned = dataclasses.replace(
            learned, experiment=dataclasses.replace(learned.experiment, baseline=baseline)
        )
    plan = objective_report.plan_test(
        learned.experiment,
        _ENVIRONMENT.value,
        _SEED.value,
        agents,
        _ENV_STEPS.value,
        _EPISODES.value or 5,
    )
    _prepare_folders()
    print(
        f"{agents} fresh agents per method in {plan.family.name}, {formatting.count(plan.steps)} "
        "env steps of "
        f"learning each",
        flush=True,
    )
    curves = objective_report.test_methods(
        learned,
        plan,
        objective_report.COMPARISONS[_COMPARE.value],
        done=lambda method: print(f"  {objective_report.LABELS[method]}: done", flush=True),
    )
    found = objective_report.scores(curves)
    picture = objective_report.write(
        Path(_OUTPUT_DIR.value), curves, found, learned, plan, str(_LOSS.value)
    )
    objective_report.print_table(found)
    print(f"results are in {_OUTPUT_DIR.value}; the learning curves:\n{picture}")
    return 0


def _test_loss(learned: LearnedLoss, lives: int) -> int:
    _prepare_folders()
    experiment = command_line.elsewhere(learned.experiment, _CONFIG)
    methods = [m for m in _LABELS if m != "ppo" or _COMPARE.value != "none"]
    updates = _UPDATES.value or experiment.inner.updates
    steps = updates * experiment.inner.update_period
    print(
        f"{lives} fresh agents per method on unseen {experiment.task.family} tasks, "
        f"{formatting.count(steps)} env steps of learning each",
        flush=True,
    )
    results = meta_test(
        experiment,
        learned.phi,
        _SEED.value,
        lives,
        updates,
        methods,
        done=lambda method: print(f"  {_LABELS[method]}: done", flush=True),
    )
    scores = {method: score(found, steps) for method, found in results.items()}
    picture = _write(Path(_OUTPUT_DIR.value), experiment, learned, results, scores, updates)
    _print_table(scores, learned)
    print(f"results are in {_OUTPUT_DIR.value}; the learning curves:\n{picture}")
    if _SAVE_POLICY.value is not None:
        _save_policy(experiment, learned.phi, updates, lives)
    return 0


def _prepare_folders() -> None:
    """Prepares --output_dir and, before it unless it lies within, --save_policy."""
    command_line.refuse_runs(_OUTPUT_DIR)

    def prepare_output() -> None:
        files.prepare_folder(_OUTPUT_DIR.value, _OWN, overwrite=_OVERWRITE.value)

    def prepare_policy() -> None:
        saved_models.prepare_target(
            _SAVE_POLICY.value, "--save_policy", _OVERWRITE.value, saved_policy.MARKERS
        )

    if _SAVE_POLICY.value is None:
        prepare_output()
        return
    policy, output = (Path(folder).resolve() for folder in (_SAVE_POLICY.value, _OUTPUT_DIR.value))
    if policy == output:
        raise command_line.UsageError(
            f"--save_policy={_SAVE_POLICY.value} is --output_dir; name a folder of its own"
        )
    for prepare in (
        (prepare_output, prepare_policy)
        if output in policy.parents
        else (prepare_policy, prepare_output)
    ):
        prepare()


def _save_policy(experiment: Experiment, phi: Array, updates: int, lives: int) -> None:
    agent = trained_agent(experiment, phi, _SEED.value, lives, updates)
    policy = saved_policy.TrainedPolicy(
        make_family(experiment.task),
        agent.weights,
        experiment.policy.activation,
        agent.shift,
        agent.scale,
    )
    facts = {
        "loss": str(_LOSS.value),
        "task": dataclasses.asdict(experiment.task),
        "seed": _SEED.value,
        "life": 0,
        "quantities": agent.task,
        "env_steps": updates * experiment.inner.update_period,
        "final_return": agent.final_return,
        "policy_sha256": agent.policy_hash,
        "versions": learned_loss.versions(),
    }
    saved_policy.save_policy(policy, _SAVE_POLICY.value, facts)
    print(
        f"the policy of the first agent (return {agent.final_return:.2f}) is in "
        f"{_SAVE_POLICY.value}"
    )


def _write(
    folder: Path,
    experiment: Experiment,
    learned: LearnedLoss,
    results: dict[str, LifeResults],
    scores: dict[str, Score],
    updates: int,
) -> Path:
    curves = {
        method: _curve(method, lives, experiment, updates) for method, lives in results.items()
    }
    plots.curves_csv(curves, folder / "curves.csv")
    plots.test_curves(
        curves, folder / "curves.png", f"{experiment.task.family}: fresh agents on unseen tasks"
    )
    about = {
        "loss": str(_LOSS.value),
        "task": dataclasses.asdict(experiment.task),
        "seed": _SEED.value,
        "updates": updates,
        "reward_declared": experiment.loss.reward,
        "loss_facts": learned.facts,
        "baseline": dataclasses.asdict(experiment.surrogate),
    }
    files.write_json(
        folder / "summary.json",
        {**{method: vars(result) for method, result in scores.items()}, "about": about},
    )
    return folder / "curves.png"


def _curve(method: str, lives: LifeResults, experiment: Experiment, updates: int) -> plots.Curve:
    steps = (np.arange(updates) + 1) * experiment.inner.update_period
    return plots.Curve(_LABELS[method], steps, lives.episode_return, lives.kl)


def _print_table(scores: dict[str, Score], learned: LearnedLoss) -> None:
    declared = "declared" if learned.experiment.loss.reward else "not among the loss's inputs"
    print(
        "\nreturn of the final policy (sum of rewards in an episode), and its mean over the "
        "learning curve (area); "
        f"reward {declared}"
    )
    print(
        f"{'':22}{'mean':>9}  {'95 % interval':>20}  {'IQM':>9}  {'area':>9}  {'lives':>6}  "
        f"{'failed':>6}  "
        f"{'success':>7}"
    )
    for method, row in sorted(scores.items(), key=lambda item: -item[1].final_return_mean):
        interval = f"[{row.ci95[0]:.2f}, {row.ci95[1]:.2f}]"
        print(
            f"{_LABELS[method]:22}{row.final_return_mean:9.2f}  {interval:>20}  "
            f"{row.final_return_iqm:9.2f}  "
            f"{row.auc_mean:9.2f}  {row.lives:6d}  {row.failed_lives:6d}  "
            f"{_share(row.success_rate):>7}"
        )
    best = max(
        (row for method, row in scores.items() if method != "epg"), key=lambda row: row.ci95[1]
    )
    gap = scores["epg"].final_return_mean - best.final_return_mean
    apart = scores["epg"].ci95[0] > best.ci95[1]
    print(
        f"\nthe evolved loss ends {abs(gap):.2f} {'above' if gap > 0 else 'below'} the best of "
        "the others; their "
        "95 % intervals "
        f"{'do not overlap' if apart or scores['epg'].ci95[1] < best.ci95[0] else 'overlap'}"
    )


def _share(rate: float) -> str:
    return "-" if math.isnan(rate) else f"{rate:.0%}"


if __name__ == "__main__":
    command_line.run(main)
