"""Analyses of runs of evolution and of objectives along meta-training."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from epg_tf.baselines.method import LABELS
from epg_tf.core import formatting
from epg_tf.core.errors import RecordError
from epg_tf.core.failures import worst_for_failed
from epg_tf.core.types import Array
from epg_tf.evaluation.results import read_results
from epg_tf.evaluation.summary import Summary, summarize
from epg_tf.figures.declaration import Match, Result, Row
from epg_tf.figures.tidy import mean_with_interval, rows_of, summary_lines
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.reports import panels
from epg_tf.reports.panels import Curves
from epg_tf.reports.plots import column
from epg_tf.runs.metrics import MetricsFile


def evolution_curves(
    *columns: tuple[str, str], level: str | None = None
) -> Callable[[Match], Result]:
    """Returns the analysis of runs: columns of their metrics against epochs, mean and standard
    deviation over seeds, one panel for each label of the needs (EPG, Figures 19 and 20).

    Args:
      columns: Name in metrics.csv and in the picture; where there are several, each is a curve.
      level: Key of a method; its mean final return in a test of the same label is a horizontal
        line.
    """

    def analysis(found: Match) -> Result:
        rows: list[Row] = []
        numbers: list[str] = []
        grid: dict[str, dict[str, Curves]] = {}
        for above in dict.fromkeys(run.label for run, _ in found.runs):
            seeds = [run.seed for run, _ in found.runs if run.label == above]
            paths = [path for run, path in found.runs if run.label == above]
            for name, shown in columns:
                curves = _curves(paths, name)
                if not np.isfinite(curves.values).any():
                    continue
                grid.setdefault(above, {})[shown] = curves
                rows += _tidy(above, name, seeds, curves)
                numbers.append(_ends(above, shown, seeds, curves))
        if not grid:
            folders = ", ".join(str(path) for _, path in found.runs)
            raise RecordError(
                f"{folders}: metrics.csv has no value of {', '.join(name for name, _ in columns)}; "
                "make such runs again"
            )
        labels = ("epoch", columns[0][1] if len(columns) == 1 else "value")
        levels = _levels(found, level) if level else {}
        for above, row in levels.items():
            low, high = row.ci95
            at = f"{row.final_return_mean:.2f} [{low:.2f}, {high:.2f}]"
            numbers.append(f"{above}: {LABELS[str(level)]} ends at {at}")
        heights = {above: row.final_return_mean for above, row in levels.items()}
        draw = functools.partial(panels.run_panels, grid, labels=labels, levels=heights)
        return Result(rows, numbers, draw)

    return analysis


def _levels(found: Match, method: str) -> dict[str, Summary]:
    """Returns how a method did, by the label of the test."""
    return {test.label: summarize(read_results(path))[method] for test, path in found.tests}


def _curves(folders: Sequence[Path], name: str) -> Curves:
    """Returns a column of several runs over epochs that have values; NaN where a run has none.

    Raises:
      RecordError: Metrics cannot be read, or a row does not state its epoch.
    """
    found = []
    for folder in folders:
        metrics = MetricsFile(folder / "metrics.csv").read()
        epochs = column(metrics, "epoch")
        if not (epochs >= 1).all():  # NaN is not, either
            row = 1 + int(np.argmin(epochs >= 1))
            raise RecordError(f"{folder}: row {row} of metrics.csv states no epoch; restore it")
        found.append((epochs.astype(int), column(metrics, name)))
    last = max(int(epochs.max(initial=0)) for epochs, _ in found)
    values = np.full((len(folders), last), np.nan)
    for number, (epochs, cells) in enumerate(found):
        values[number, epochs - 1] = cells
    there = np.flatnonzero(np.isfinite(values).any(axis=0))
    return Curves(there + 1, values[:, there])


def _tidy(panel: str, name: str, seeds: list[int], curves: Curves) -> list[Row]:
    return [
        {
            "panel": panel,
            "column": name,
            "seed": seed,
            "epoch": int(epoch),
            "value": float(value),
        }
        for seed, values in zip(seeds, curves.values, strict=True)
        for epoch, value in zip(curves.x, values, strict=True)
        if np.isfinite(value)
    ]


def _ends(panel: str, shown: str, seeds: list[int], curves: Curves) -> str:
    """Returns where runs began and ended, a mean over a tenth each of the epochs that all have."""
    shared = np.flatnonzero(np.isfinite(curves.values).all(axis=0))
    words = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    if not shared.size:
        return f"{panel}: {shown} has no epoch that all runs have; {words}"
    width = max(1, len(shared) // 10)
    first = curves.values[:, shared[:width]].mean(axis=1)
    last = curves.values[:, shared[-width:]].mean(axis=1)
    return (
        f"{panel}: {shown} {mean_with_interval(first)} in the first {width} epochs, "
        f"{mean_with_interval(last)} in the last up to {curves.x[shared[-1]]}; {words}"
    )


def objective_stages(found: Match) -> Result:
    """Draws fresh agents with the objectives of several stages of meta-training, one panel each
    (MetaGenRL, Figures 4 and 10).
    """
    ((test, path),) = found.tests
    results = read_results(path)
    experiment = test.runs[0].experiment()
    period = experiment.round_steps if isinstance(experiment, MetaGenRLExperiment) else 1
    titles = {}
    for name in dict.fromkeys(results.loss.tolist()):
        steps = int(name.removeprefix("round_")) * period
        titles[name] = f"after {formatting.count(steps)} env steps per agent"
    return Result(
        rows_of(results),
        summary_lines(results),
        functools.partial(panels.objective_panels, results, titles),
    )


def without_worst(found: Match) -> Result:
    """Draws the learned objectives of all seeds, and again without the two that end lowest
    (MetaGenRL, Figure 11).
    """
    ((_, path),) = found.tests
    learned = read_results(path).select(method="objective")
    tables = {int(rows.loss_seed[0]): rows for rows in learned.groups().values()}
    finals: dict[int, float] = {
        seed: float(worst_for_failed(table.final()).mean()) for seed, table in tables.items()
    }
    kept = sorted(finals, key=lambda seed: np.nan_to_num(finals[seed], nan=-np.inf))[
        min(2, len(finals) // 2) :
    ]
    everything = {f"seed {seed}": Curves.of_agents(tables[seed]) for seed in sorted(tables)}
    grid = {
        f"all {len(tables)} seeds": everything,
        f"without the {len(tables) - len(kept)} lowest": {
            name: curves for name, curves in everything.items() if int(name.split()[1]) in kept
        },
    }
    deviation = [_deviation(finals, seeds) for seeds in (sorted(finals), sorted(kept))]
    numbers = [f"seed {seed}: mean final return {finals[seed]:.2f}" for seed in sorted(finals)]
    numbers.append(
        f"standard deviation over seeds: {deviation[0]:.2f} with all, {deviation[1]:.2f} without "
        f"the {len(tables) - len(kept)} lowest"
    )
    rows = [row for seed in sorted(tables) for row in rows_of(tables[seed], f"seed {seed}")]
    return Result(rows, numbers, functools.partial(panels.agent_panels, grid))


def _deviation(finals: dict[int, float], seeds: list[int]) -> float:
    values: Array = np.array([finals[seed] for seed in seeds])
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")
