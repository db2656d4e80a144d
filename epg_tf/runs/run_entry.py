"""Makes the entry of a page on a run of EPG or of MetaGenRL, finished or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epg_tf.core import files, formatting
from epg_tf.core.config_files import AnyExperiment
from epg_tf.core.errors import RecordError
from epg_tf.core.experiment import Experiment
from epg_tf.core.maml_experiment import MAMLExperiment
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.reports import run_charts
from epg_tf.reports.html_page import Block, Chart, Code, Section, Table, Text
from epg_tf.runs import page_tables, repeat_commands
from epg_tf.runs.folder import CONFIG, beginning_in_words, begun_scale, begun_with
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

    Args:
      path: Folder of the run.
      film: Whether to draw a film strip of a life with its loss.

    Raises:
      RecordError: The folder is damaged.
    """
    record = read_run(path)
    _check_numbers(path, record.metrics)
    experiment = record.experiment
    epg = isinstance(experiment, Experiment)
    sections = [
        Section("What was run", _what(record)),
        Section("Progress", _progress(record)),
    ]
    if epg and record.metrics:
        sections.append(_spread(record))
    if film and epg and record.best is not None:
        sections.append(film_section(record.best))
    settings = page_tables.settings_blocks(experiment)
    sections.append(Section("Settings that differ from their defaults", settings))
    facts = files.read_json(path / CONFIG, "the run's config")
    command = repeat_commands.repeat_run(
        path, record.kind, record.seed, begun_with(facts), begun_scale(facts)
    )
    remark = repeat_commands.remark_on_files(_extent(experiment)[0].split(", "))
    note = [Text(remark)] if remark else []
    sections.append(Section("To run it again", [*_checkout(path), *note, Code(command)]))
    return Entry(path, _NAMES[record.kind], sections, experiment.to_mapping(), rows=record.metrics)


def _check_numbers(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    for number, row in enumerate(rows, start=2):
        for name, value in row.items():
            if isinstance(value, str):
                raise RecordError(
                    f"{path}: line {number} of metrics.csv has {value[:50]!r} in column {name!r}, "
                    "which is no number; restore the line"
                )


def _what(record: RunRecord) -> list[Block]:
    rows = record.metrics
    family, total, unit = _extent(record.experiment)
    seconds = sum(row.get("seconds", 0.0) for row in rows)
    steps = rows[-1].get("env_steps", 0.0) if rows else 0.0
    cost = f"{formatting.count(steps)} env steps, {formatting.duration(seconds)} of work"
    facts = files.read_json(record.path / CONFIG, "the run's config")
    table = [
        ("system", _NAMES[record.kind]),
        ("folder", str(record.path)),
        ("tasks", family),
        ("seed", str(record.seed)),
        ("state", f"{len(rows)} of {total} {unit}{'' if record.finished else ', not finished'}"),
        ("cost", cost),
        *([("begun with", begun)] if (begun := beginning_in_words(facts)) else []),
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
    if not record.metrics:
        return [Text("The run has no epoch yet.")]
    if isinstance(record.experiment, Experiment):
        figure = run_charts.progress(record.metrics)
        shown = "Mean fitness of an epoch's lives; the band is their middle half."
    else:
        names = [name for name in record.metrics[0] if "return" in name]
        tests = {
            name.removeprefix("validation_return/"): name
            for name in names
            if name.startswith("validation_return")
        }
        returns = {
            name.removeprefix("training_return/"): name
            for name in names
            if name not in tests.values()
        }
        figure = run_charts.returns_progress(record.metrics, returns, tests)
        shown = "Mean return of episodes, with exploration."
    hint = "The menu has the other columns of metrics.csv; click a name to hide it, drag to zoom."
    return [Text(f"{shown} {hint}", note=True), Chart("Meta-training", figure)]


def _spread(record: RunRecord) -> Section:
    chart = Chart("Fitness of an epoch's lives", run_charts.fitness_distribution(record.metrics))
    remark = "Every life has a task of its own. A test compares agents with other methods."
    return Section("Distribution over tasks", [chart, Text(remark, note=True)])


def _checkout(path: Path) -> list[Block]:
    commit = files.read_json(path / CONFIG, "the run's config").get("commit")
    if not isinstance(commit, str):
        return []
    changed = ", with changes that were not committed" if commit.endswith("-dirty") else ""
    return [Text(f"With the code of commit {commit.removesuffix('-dirty')}{changed}:")]
