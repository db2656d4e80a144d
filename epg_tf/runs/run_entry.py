"""Makes the entry of a page on a run of EPG or of MetaGenRL, finished or not."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.core import files, formatting
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.reports.html_page import Block, Code, Fold, Picture, Section, Table, Text
from epg_tf.reports.objective_plots import STEPS, column_panels, varying_columns
from epg_tf.reports.plots import column, evolution_figure, svg
from epg_tf.runs import page_tables
from epg_tf.runs.config_files import AnyExperiment
from epg_tf.runs.folder import CONFIG
from epg_tf.runs.identity import SCALE, beginning_of
from epg_tf.runs.metrics import check_numbers
from epg_tf.runs.page_entry import Entry, film_section
from epg_tf.runs.reader import RunRecord, read_run

_NAMES = {
    "evolution": "evolution of a loss (EPG)",
    "metagenrl": "meta-training (MetaGenRL)",
    "maml": "meta-training (MAML)",
    "rl2": "meta-training (RL²)",
}


def run_entry(path: Path, film: bool) -> Entry:
    """Returns the entry of a run; changes nothing in its folder.

    Raises:
      RecordError: The folder is damaged.
    """
    record = read_run(path)
    check_numbers(path / "metrics.csv", record.metrics)
    experiment = record.experiment
    epg = isinstance(experiment, Experiment)
    facts = files.read_json(path / CONFIG, "the run's config")
    sections = [Section("Result", [Text(_verdict(record)), *_progress(record)])]
    if film and epg and record.best is not None:
        sections.append(film_section(record.best))
    sections.append(Section("What was run", _what(record, facts)))
    sections.append(page_tables.settings_section(experiment))
    sections.append(Section("To run it again", [*_checkout(facts), _command(record, facts)]))
    return Entry(path, _NAMES[record.kind], sections, experiment.to_mapping(), rows=record.metrics)


def _verdict(record: RunRecord) -> str:
    """Returns a sentence: how far the run is, and what agents reached in validation."""
    _, total, unit = _extent(record.experiment)
    rows = record.metrics
    parts = [f"{len(rows)} of {total} {unit} are done"]
    for name in rows[0] if rows else ():
        kind, _, environment = name.partition("/")
        known = column(rows, name)
        known = known[np.isfinite(known)]
        if kind in ("validation_return", "validation_return_mean") and len(known):
            where = f" in {environment}" if environment else ""
            parts.append(
                f"the validation return{where} was {known[0]:.2f} at first, {known.max():.2f} at "
                "best"
            )
    return "; ".join(parts) + "."


def _what(record: RunRecord, facts: dict[str, Any]) -> list[Block]:
    rows = record.metrics
    family, total, unit = _extent(record.experiment)
    seconds = sum(row.get("seconds", 0.0) for row in rows)
    steps = rows[-1].get("env_steps", 0.0) if rows else 0.0
    cost = f"{formatting.count(steps)} env steps, {formatting.duration(seconds)} of work"
    table = [
        ("system", _NAMES[record.kind]),
        ("folder", str(record.path)),
        ("tasks", family),
        ("seed", str(record.seed)),
        ("state", f"{len(rows)} of {total} {unit}{'' if record.finished else ', not finished'}"),
        ("cost", cost),
        *([("begun with", begun)] if (begun := record.beginning) else []),
        *page_tables.fact_rows(facts),
    ]
    return [Table((), table)]


def _extent(experiment: AnyExperiment) -> tuple[str, int, str]:
    """Returns where agents live, how long the run is, and in what."""
    if isinstance(experiment, MetaGenRLExperiment):
        return ", ".join(experiment.environments), experiment.rounds, "rounds"
    if isinstance(experiment, Experiment):
        families = ", ".join(task.family for task in experiment.tasks)
        return families, experiment.evolution.epochs, "epochs"
    if isinstance(experiment, MAMLExperiment):
        return experiment.task.family, experiment.outer.iterations, "iterations"
    return experiment.task.family, experiment.iterations, "iterations"


def _progress(record: RunRecord) -> list[Block]:
    rows = record.metrics
    if not rows:
        return [Text("The run has no epoch yet.")]
    if isinstance(record.experiment, Experiment):
        x, shown = "epoch", ["fitness_mean", "fitness_q25", "fitness_q75", "alpha"]
        figure = evolution_figure(rows)
    else:
        x, shown = STEPS, [name for name in rows[0] if "return" in name]
        known = {_words(name): name for name in shown}
        figure = column_panels({"": rows}, known, "Meta-training: mean returns of episodes")
    blocks: list[Block] = [Picture(svg(figure), "Returns along meta-training")]
    if others := varying_columns(rows, ("epoch", "env_steps", *shown)):
        figure = column_panels({"": rows}, others, "Other columns of metrics.csv", x)
        blocks.append(Fold("other columns", Picture(svg(figure), ", ".join(others))))
    return blocks


def _words(column: str) -> str:
    """Returns what a column is, e.g. "training return in Hopper-v5"."""
    kind, _, environment = column.partition("/")
    return kind.replace("_", " ") + (f" in {environment}" if environment else "")


def _command(record: RunRecord, facts: dict[str, Any]) -> Code:
    """Returns the command that makes a run with the same settings and seed once more."""
    words = {"config": record.path, "seed": record.seed, "run_dir": f"{record.path}-again"}
    begun = beginning_of(facts)
    given = {"begin_with": begun.get("loss"), "begin_scale": begun.get(SCALE)}
    words |= {name: value for name, value in given.items() if value is not None}
    flags = [shlex.quote(f"--{name}={value}") for name, value in words.items()]
    return Code(" \\\n    ".join(["epg-tf meta-train", *flags]))


def _checkout(facts: dict[str, Any]) -> list[Block]:
    commit = facts.get("commit")
    if not isinstance(commit, str):
        return []
    changed = ", with changes that were not committed" if commit.endswith("-dirty") else ""
    return [Text(f"With the code of commit {commit.removesuffix('-dirty')}{changed}:")]
