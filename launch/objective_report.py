"""Tests an objective of MetaGenRL beside what it is compared with, and writes down how it did; for
launch.meta_test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from epg_tf.baselines import policy_gradient
from epg_tf.evaluation import statistics
from epg_tf.evaluation.objective_methods import METHODS, train_fresh_agents
from epg_tf.core.threads import configure_tensorflow, cpus
from epg_tf.baselines import off_policy
from epg_tf.artifacts.learned_objective import LearnedObjective
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core import files
from epg_tf.reports import objective_plots
from epg_tf.tasks.base import TaskFamily
from epg_tf.core.types import Array, LifeKey
from launch import command_line

OWN = ("curves.csv", "curves.png", "summary.json")
LABELS = {
    "objective": "learned objective",
    "untrained_objective": "untrained objective",
    "off_policy_reinforce": "off-policy REINFORCE",
    "ppo": "PPO",
    "reinforce": "on-policy REINFORCE",
    "td3": "TD3 (TF-Agents)",
    "ddpg": "DDPG (TF-Agents)",
}
COMPARISONS = {
    "none": ("objective", "untrained_objective"),
    "ppo": (*METHODS, "ppo"),
    "all": tuple(LABELS),
}

Curve = tuple[Array, Array]  # env steps [T], returns [L, T]


@dataclasses.dataclass(frozen=True)
class TestPlan:
    """What to do.

    Attributes:
      family: Where fresh agents live.
      seed: Names their streams.
      agents: Per method.
      steps: Env steps of learning of each.
      episodes: In an evaluation.
    """

    __test__ = False  # for pytest

    family: TaskFamily
    seed: int
    agents: int
    steps: int
    episodes: int


def plan_test(
    experiment: MetaGenRLExperiment,
    environment: str | None,
    seed: int,
    agents: int,
    steps: int | None,
    episodes: int,
) -> TestPlan:
    """Completes what the flags leave open: the first environment of meta-training, as many env
    steps as an agent had.

    Raises:
      UsageError: The environment is unknown or has no continuous actions, or the env steps are no
      whole rounds.
    """
    field = (
        "--environment"
        if environment
        else "config.environments of the objective, which --environment replaces"
    )
    family = command_line.continuous_environment(field, environment or experiment.environments[0])
    steps = steps or (experiment.life_rounds or experiment.rounds) * experiment.round_steps
    for period, field in (
        (experiment.round_steps, "round_steps"),
        (experiment.baseline.update_period, "baseline.update_period"),
    ):
        if steps % period:
            raise command_line.UsageError(
                f"--env_steps={steps} is no multiple of the objective's config.{field}="
                f"{period}; choose one"
            )
    return TestPlan(family, seed, agents, steps, episodes)


def test_methods(
    learned: LearnedObjective, plan: TestPlan, methods: Sequence[str], done: Callable[[str], None]
) -> dict[str, Curve]:
    """Trains fresh agents by every method; returns their learning curves."""
    configure_tensorflow(learned.experiment.threads or cpus(1))
    curves = {}
    for method in methods:
        curves[method] = learning_curve(learned.experiment, learned.parameters, plan, method)
        done(method)
    return curves


test_methods.__test__ = False  # for pytest


def learning_curve(
    experiment: MetaGenRLExperiment,
    parameters: Array,
    plan: TestPlan,
    method: str,
    tuning: bool = False,
) -> Curve:
    """Trains fresh agents by one method.

    Args:
      experiment: Settings.
      parameters: Of the objective; unused by other methods.
      plan: What to do.
      method: Of `LABELS`.
      tuning: Whether settings are being chosen; then streams are others than those of any test.
    """
    family, steps, episodes = plan.family, plan.steps, plan.episodes
    phase = "objective_tuning" if tuning else "objective_test"
    if method in policy_gradient.KINDS:
        return policy_gradient.learning_curves(
            experiment, family, plan.seed, plan.agents, steps, episodes, method, phase
        )
    if method in off_policy.KINDS:
        baseline, period = experiment.baseline, experiment.round_steps
        rate = baseline.td3_learning_rate if method == "td3" else baseline.ddpg_learning_rate
        returns = [
            off_policy.learning_curve(
                method,
                family,
                experiment.agent,
                rate,
                LifeKey(plan.seed, phase, 0, index),
                steps,
                period,
                episodes,
            )
            for index in range(plan.agents)
        ]
        return np.arange(steps // period + 1) * period, np.stack(returns)
    tested = train_fresh_agents(
        experiment, parameters, family, plan.seed, plan.agents, steps, episodes, method, phase
    )
    return tested.env_steps, tested.returns


def scores(curves: dict[str, Curve]) -> dict[str, dict[str, float]]:
    """Sums up the agents of each method: final return and area under the curve, with 95 %
    intervals.

    Where the learned objective is among the methods, also how far it ends above each of the others,
    agent by agent: all methods train agents of the same tasks, if not from the same starts where
    they are on-policy. An agent that failed counts as the worst of its method, so that none gains
    by failing; NaN where all failed. On-policy methods have no area: their curves are of episodes
    that explore.
    """
    finals = {method: _worst_for_failed(returns[:, -1]) for method, (_, returns) in curves.items()}
    found = {}
    for method, (steps, returns) in curves.items():
        final = finals[method]
        area = (
            np.nan if method in policy_gradient.KINDS else float(_worst_for_failed(returns).mean())
        )
        low, high = statistics.confidence_interval(final)
        found[method] = {
            "final_return_mean": float(final.mean()),
            "ci95_low": low,
            "ci95_high": high,
            "final_return_iqm": statistics.interquartile_mean(final),
            "auc_mean": area,
            "agents": len(final),
            "failed_agents": int(np.isnan(returns[:, -1]).sum()),
            "env_steps": int(steps[-1]),
        }
        if "objective" in finals and method != "objective":
            ahead = finals["objective"] - final
            low, high = statistics.confidence_interval(ahead)
            found[method] |= {
                "ahead_mean": float(ahead.mean()),
                "ahead_ci95_low": low,
                "ahead_ci95_high": high,
            }
    return found


def _worst_for_failed(values: Array) -> Array:
    return (
        np.where(np.isfinite(values), values, np.nanmin(values))
        if np.isfinite(values).any()
        else values
    )


def write(
    folder: Path,
    curves: dict[str, Curve],
    found: dict[str, dict[str, float]],
    learned: LearnedObjective,
    plan: TestPlan,
    loss: str,
) -> Path:
    """Writes curves, picture and summary; returns the picture."""
    labelled = {LABELS[method]: curve for method, curve in curves.items()}
    objective_plots.curves_csv(curves, "method", folder / "curves.csv")
    exploring = [LABELS[method] for method in curves if method in policy_gradient.KINDS]
    where = f"{plan.family.name}@{plan.family.episode_limit}"
    objective_plots.learning_curves(
        labelled, exploring, folder / "curves.png", f"Fresh agents in {where}"
    )
    about = {
        "loss": loss,
        "environment": plan.family.name,
        "episode_limit": plan.family.episode_limit,
        "seed": plan.seed,
        "env_steps": plan.steps,
        "episodes": plan.episodes,
        "loss_facts": learned.facts,
        "trained_in": learned.experiment.environments,
        "config": learned.experiment.to_mapping(),
    }
    files.write_json(folder / "summary.json", {**found, "about": about})
    return folder / "curves.png"


def print_table(found: dict[str, dict[str, float]]) -> None:
    """Prints who won by how much."""
    print(
        "\nfinal return (sum of rewards in an episode) and its mean over the learning curve "
        "(area), without "
        "exploration;\non-policy methods have no area, for their curves explore; ahead: how far "
        "the learned "
        "objective ends above it, agent by agent"
    )
    print(
        f"{'':22}{'mean':>9}  {'95 % interval':>20}  {'IQM':>9}  {'area':>9}  {'agents':>6}  "
        f"{'failed':>6}  "
        f"{'ahead':>8}  {'95 % interval':>18}"
    )
    for method, row in sorted(
        found.items(), key=lambda item: -np.nan_to_num(item[1]["final_return_mean"], nan=-np.inf)
    ):
        area = f"{row['auc_mean']:.2f}" if np.isfinite(row["auc_mean"]) else "-"
        ahead = (
            f"{row['ahead_mean']:8.2f}  {_interval(row, 'ahead_ci95'):>18}"
            if "ahead_mean" in row
            else ""
        )
        print(
            f"{LABELS[method]:22}{row['final_return_mean']:9.2f}  {_interval(row, 'ci95'):>20}  "
            f"{row['final_return_iqm']:9.2f}  {area:>9}  {row['agents']:6d}  "
            f"{row['failed_agents']:6d}  "
            f"{ahead}".rstrip()
        )
    beaten = [
        LABELS[method] for method, row in found.items() if row.get("ahead_ci95_low", -1.0) > 0.0
    ]
    print(
        f"\nthe learned objective ends above, agent by agent and beyond its 95 % interval: "
        f"{', '.join(beaten) or 'none of the others'}"
    )


def _interval(row: dict[str, float], name: str) -> str:
    return f"[{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"
