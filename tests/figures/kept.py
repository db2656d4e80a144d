"""Makes folders of runs and tests that nobody ran, as the real ones are."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np

from epg_tf.baselines.method import LossName
from epg_tf.core.config_files import AnyExperiment
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.evaluation.results import Results
from epg_tf.figures.declaration import Changes
from epg_tf.figures.settings import wanted
from epg_tf.reports.evaluation_report import write_report
from epg_tf.runs.metrics import MetricsFile
from tests.evaluation.tables import table

KINDS = {
    "random_hopper": "evolution",
    "directional_half_cheetah": "evolution",
    "maml_half_cheetah": "maml",
    "rl2_half_cheetah": "rl2",
    "metagenrl_laptop": "metagenrl",
    "metagenrl_small": "metagenrl",
    "goal_ant": "evolution",
}
CURVE = np.array([[0.0, -2.0, 3.0], [1.0, 2.0, 5.0], [-1.0, 1.0, 4.0], [2.0, 2.0, 6.0]])
FINAL = [4.0, 6.0, 5.0, 7.0]


def run(
    folder: Path,
    config: str,
    seed: int = 0,
    changes: Changes = (),
    *,
    rows: int = 3,
    finished: bool = True,
) -> Path:
    """Makes the folder of a run with a checkpoint; a finished one has a summary and a best loss."""
    experiment = wanted(config, changes)
    (folder / "checkpoints").mkdir(parents=True)
    description = {
        "format_version": 1,
        "kind": KINDS[config.partition(":")[0]],
        "config": experiment.to_mapping(),
        "seed": seed,
    }
    (folder / "config.json").write_text(json.dumps(description))
    metrics = MetricsFile(folder / "metrics.csv")
    for number in range(rows):
        mean = float(10 * seed + number)
        metrics.append(
            {
                "epoch": number + 1,
                "fitness_mean": mean,
                "goals_reached": 2.0 * number,
                "validation_return_mean": -mean if number % 2 else np.nan,
            }
        )
    if finished:
        (folder / "summary.json").write_text(json.dumps({"format_version": 1, "epochs": rows}))
        (folder / "best").mkdir()
    return folder


def test(
    folder: Path,
    config: str,
    seed: int = 0,
    changes: Changes = (),
    methods: tuple[str, ...] = ("ppo_as_epg", "ppo"),
    *,
    learned: str = "epg",
    finals: list[float] | None = None,
) -> Path:
    """Makes the folder of a test of four agents for each method."""
    folder.mkdir(parents=True)
    kl = np.full(CURVE.shape, 0.1)
    tables = [table(learned, finals or FINAL, CURVE, kl=kl, loss=LossName("a loss", seed))]
    tables += [table(name, [1.0, 0.0, 2.0, 1.5], CURVE - 1.0, kl=kl) for name in methods]
    about = _about(wanted(config, changes), seed)
    write_report(folder, Results.join(tables), about, "title")
    return folder


def progress(folder: Path, of: Path, finals: dict[str, float]) -> Path:
    """Makes a run of MetaGenRL and the folder of a test of the objectives that it kept, with the
    final returns by their names.
    """
    run(of, "metagenrl_laptop")
    folder.mkdir(parents=True)
    tables = [
        table("objective", [final] * 4, CURVE, loss=LossName(name, 0))
        for name, final in finals.items()
    ]
    about = {**_about(wanted("metagenrl_laptop"), 0), "run": str(of), "run_finished": True}
    write_report(folder, Results.join(tables), about, "title")
    return folder


test.__test__ = False  # for pytest


def _about(experiment: AnyExperiment, seed: int) -> dict:
    common = {"loss": "a loss", "seed": 7, "loss_facts": {"seed": seed}}
    if isinstance(experiment, MetaGenRLExperiment):
        return {
            **common,
            "environment": experiment.environments[0],
            "episode_limit": 25,
            "episodes": 5,
            "phase": "objective_test",
            "env_steps": experiment.life_rounds * experiment.round_steps,
            "config": experiment.to_mapping(),
        }
    return {
        **common,
        "phase": "test",
        "task": {**dataclasses.asdict(experiment.task), "physics": "exact"},
        "updates": experiment.inner.updates,
        "alpha": experiment.evolution.final_guidance,
        "reward_declared": experiment.loss.reward,
        "config": experiment.to_mapping(),
    }
