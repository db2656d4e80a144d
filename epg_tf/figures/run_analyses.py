"""Analyses of runs of evolution and of objectives along meta-training."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from epg_tf.baselines.method import LABELS
from epg_tf.core import formatting
from epg_tf.core.errors import RecordError
from epg_tf.core.experiment import Experiment
from epg_tf.core.failures import worst_for_failed
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.types import Array
from epg_tf.evaluation.summary import Summary, summarize
from epg_tf.figures.declaration import Findings, Found, Row, RunNeed
from epg_tf.figures.records import FoundRun
from epg_tf.figures.settings import wanted
from epg_tf.figures.tidy import epochs_of, mean_with_interval, rows_of, summary_lines
from epg_tf.reports import panels
from epg_tf.reports.panels import Curves
from epg_tf.reports.plots import column


def evolution_curves(
    *columns: tuple[str, str], level: str | None = None
) -> Callable[[Found], Findings]:
    """Returns the analysis of runs: columns of their metrics against epochs, mean and standard
    deviation over seeds, one panel for each label of the needs (EPG, Figures 19 and 20).

    Args:
      columns: Name in metrics.csv and in the picture; where there are several, each is a curve.
      level: Key of a method; its mean final return in a test of the same label is a horizontal
        line.
    """

    def analysis(found: Found) -> Findings:
        rows: list[Row] = []
        numbers: list[str] = []
        grid: dict[str, dict[str, Curves]] = {}
        for above in dict.fromkeys(need.label for need, _ in found.runs):
            runs = [run for need, run in found.runs if need.label == above]
            seeds = [run.record.seed for run in runs]
            for name, shown in columns:
                curves = _curves(runs, name)
                if not np.isfinite(curves.values).any():
                    continue
                grid.setdefault(above, {})[shown] = curves
                rows += _tidy(above, name, seeds, curves)
                numbers.append(_ends(above, shown, seeds, curves))
        _check_drawn(grid, [name for name, _ in columns], found)
        labels = ("epoch", columns[0][1] if len(columns) == 1 else "value")
        levels = _levels(found, level) if level else {}
        for above, row in levels.items():
            low, high = row.ci95
            at = f"{row.final_return_mean:.2f} [{low:.2f}, {high:.2f}]"
            numbers.append(f"{above}: {LABELS[str(level)]} ends at {at}")
        heights = {above: row.final_return_mean for above, row in levels.items()}
        draw = functools.partial(panels.run_panels, grid, labels=labels, levels=heights)
        return Findings(rows, numbers, draw)

    return analysis


def _check_drawn(grid: Mapping[str, Any], columns: Sequence[str], found: Found) -> None:
    """Raises RecordError if no run has a value in any of the columns."""
    if not grid:
        runs = ", ".join(str(run.shown) for _, run in found.runs)
        raise RecordError(
            f"{runs}: metrics.csv has no value of {', '.join(columns)}; make such runs again, with "
            "config.evolution.validation_period above 0 for values of validation"
        )


def _levels(found: Found, method: str) -> dict[str, Summary]:
    """Returns how a method did, by the label of the test."""
    return {need.label: summarize(test.results())[method] for need, test in found.tests}


def validation_curves(found: Found) -> Findings:
    """Draws the validation of runs against epochs, mean and standard deviation over seeds, where
    all of a curve's runs were tested, up to the epochs that the needs ask for. Labels of the needs
    are "PANEL: CURVE".
    """
    name = "validation_return_mean"
    rows: list[Row] = []
    numbers: list[str] = []
    grid: dict[str, dict[str, Curves]] = {}
    for label in dict.fromkeys(need.label for need, _ in found.runs):
        needs, runs = zip(*(pair for pair in found.runs if pair[0].label == label), strict=True)
        seeds = [run.record.seed for run in runs]
        every = _curves(runs, name)
        last = min(_epochs(need, len(every.x)) for need in needs)
        tested = np.flatnonzero(np.isfinite(every.values[:, :last]).all(axis=0))
        if not tested.size:
            continue
        curves = Curves(every.x[tested], every.values[:, tested])
        panel, _, curve = label.partition(": ")
        grid.setdefault(panel, {})[curve.replace("_", " ")] = curves
        rows += _tidy(label, name, seeds, curves)
        first, final = (mean_with_interval(curves.values[:, place]) for place in (0, -1))
        words = ", ".join(map(str, seeds))
        numbers.append(
            f"{label}: validation {first} after {curves.x[0]} epochs, {final} after "
            f"{curves.x[-1]}; seed{'s' * (len(seeds) > 1)} {words}"
        )
    _check_drawn(grid, [name], found)
    labels = ("epoch", "final return in validation")
    return Findings(rows, numbers, functools.partial(panels.run_panels, grid, labels=labels))


def _epochs(need: RunNeed, otherwise: int) -> int:
    """Returns how many epochs a need asks for."""
    experiment = wanted(need.config, need.changes)
    return experiment.evolution.epochs if isinstance(experiment, Experiment) else otherwise


def _curves(runs: Sequence[FoundRun], name: str) -> Curves:
    """Returns a column of several runs over all epochs; NaN where one has none."""
    epochs = [epochs_of(run) for run in runs]
    last = max(int(done.max(initial=0)) for done in epochs)
    values = np.full((len(runs), last), np.nan)
    for number, (run, done) in enumerate(zip(runs, epochs, strict=True)):
        values[number, done - 1] = column(run.record.metrics, name)
    return Curves(np.arange(1, last + 1), values)


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


def objective_stages(found: Found) -> Findings:
    """Draws fresh agents with the objectives of several stages of meta-training, one panel each
    (MetaGenRL, Figures 4 and 10).
    """
    ((need, test),) = found.tests
    results = test.results()
    experiment = wanted(need.run.config, need.run.changes)
    period = experiment.round_steps if isinstance(experiment, MetaGenRLExperiment) else 1
    titles = {}
    for name in dict.fromkeys(results.loss.tolist()):
        steps = int(name.removeprefix("round_")) * period
        titles[name] = f"after {formatting.count(steps)} env steps per agent"
    return Findings(
        rows_of(results),
        summary_lines(results),
        functools.partial(panels.objective_panels, results, titles),
    )


def without_worst(found: Found) -> Findings:
    """Draws the learned objectives of all seeds, and again without the two that end lowest
    (MetaGenRL, Figure 11).
    """
    tables = {
        test.about.get("loss_facts", {}).get("seed"): test.results().select(method="objective")
        for _, test in found.tests
    }
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
    return Findings(rows, numbers, functools.partial(panels.agent_panels, grid))


def _deviation(finals: dict[int, float], seeds: list[int]) -> float:
    values: Array = np.array([finals[seed] for seed in seeds])
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")
