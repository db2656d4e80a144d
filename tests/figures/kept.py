"""Makes folders of runs and tests that nobody ran, as the real ones are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from epg_tf.baselines.method import LossName
from epg_tf.evaluation.results import Results
from epg_tf.reports.evaluation_report import write_report
from epg_tf.runs.metrics import MetricsFile
from tests.evaluation.tables import table

CURVE = np.array([[0.0, -2.0, 3.0], [1.0, 2.0, 5.0], [-1.0, 1.0, 4.0], [2.0, 2.0, 6.0]])
FINAL = [4.0, 6.0, 5.0, 7.0]


def run(folder: Path, seed: int = 0, *, rows: int = 3, finished: bool = True) -> Path:
    """Makes the folder of a run; a finished one has a summary."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    metrics = MetricsFile(folder / "metrics.csv")
    for number in range(rows):
        mean = float(10 * seed + number)
        metrics.append({"epoch": number + 1, "fitness_mean": mean, "goals_reached": 2.0 * number})
    if finished:
        (folder / "summary.json").write_text("{}")
    return folder


def test(
    folder: Path,
    methods: tuple[str, ...] = ("ppo_as_epg", "ppo"),
    *,
    learned: str = "epg",
    losses: dict[str, list[float]] | None = None,
) -> Path:
    """Makes the folder of an evaluation of four agents for each method and loss, which has name ->
    final returns; seeds are 0, 1, ...
    """
    folder.mkdir(parents=True)
    losses = losses or {"a loss": FINAL}
    kl = np.full(CURVE.shape, 0.1)
    tables = [
        table(learned, finals, CURVE, kl=kl, loss=LossName(name, seed))
        for seed, (name, finals) in enumerate(losses.items())
    ]
    tables += [table(name, [1.0, 0.0, 2.0, 1.5], CURVE - 1.0, kl=kl) for name in methods]
    first, *others = losses
    about = {
        "phase": "test",
        "task": {"family": "random_hopper"},
        "loss": first,
        "loss_facts": {"seed": 0},
        "other_losses": others,
        "other_loss_facts": {name: {"seed": seed} for seed, name in enumerate(others, 1)},
    }
    write_report(folder, Results.join(tables), about, "title")
    return folder


test.__test__ = False  # for pytest
