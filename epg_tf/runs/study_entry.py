"""Makes the entry of a page on a study of estimators, finished or not."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core import files, formatting
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.epg.settings import Experiment
from epg_tf.reports.html_page import Block, Code, Picture, Section, Table, Text
from epg_tf.reports.plots import svg
from epg_tf.reports.study_plots import EvaluatedRun, study_figure
from epg_tf.reports.tables import interval, number
from epg_tf.runs import page_tables, repeat_commands, saved_settings
from epg_tf.runs.folder import CONFIG
from epg_tf.runs.metrics import MetricsFile
from epg_tf.runs.page_entry import Entry
from epg_tf.runs.study import STUDY, read_ppo, summarize

_COLUMNS = ("env_steps", "mean", "low", "high")


def study_entry(path: Path) -> Entry:
    """Returns the entry of a study; changes nothing in its folder.

    Raises:
      RecordError: The folder is damaged.
    """
    description = files.read_json(path / STUDY, "the description of the study")
    choices = description.get("flags")
    try:
        experiment = saved_settings.read(description.get("config"), Experiment.from_mapping)
        if not isinstance(choices, dict):
            raise TypeError("no flags")
        pairs = itertools.product(choices["estimators"], choices["seeds"])
        names = [(str(name), int(seed)) for name, seed in pairs]
    except (ConfigError, KeyError, TypeError, ValueError) as error:
        raise RecordError(
            f"{path}: study.json is damaged ({files.one_line(error)[:200]}); restore it"
        ) from error
    runs = [_run(path, name, seed) for name, seed in names]
    tested = [run for run in runs if run.rows]
    ppo = read_ppo(path / "ppo.json")
    rows = [(name, page_tables.shown(value)) for name, value in choices.items()]
    facts = page_tables.fact_rows(_first_facts(path, tested))
    again: list[Block] = [
        Text("Save the settings above as settings/config.json; then:"),
        Code(repeat_commands.repeat_study(path, choices)),
    ]
    sections = [
        Section("What was compared", [Table((), [("folder", str(path)), *rows, *facts])]),
        Section("Returns", _returns(tested, ppo)),
        page_tables.settings_section(experiment),
        Section("To run it again", again),
    ]
    return Entry(path, "study of estimators", sections, experiment.to_mapping())


def _run(path: Path, estimator: str, seed: int) -> EvaluatedRun:
    """Returns the tests of a run so far; none where it has not started."""
    file = path / f"{estimator}-{seed}" / "tests.csv"
    rows = MetricsFile(file).read()
    for row in rows:
        if not all(isinstance(row.get(name), float) for name in _COLUMNS):
            raise RecordError(f"{file}: a row lacks a number; restore the file")
    return EvaluatedRun(estimator, seed, rows)


def _first_facts(path: Path, tested: Sequence[EvaluatedRun]) -> dict[str, Any]:
    """Returns what the first run states of commit, machine and versions."""
    for run in tested:
        file = path / f"{run.estimator}-{run.seed}" / CONFIG
        if file.is_file():
            return files.read_json(file, "the run's config")
    return {}


def _returns(tested: Sequence[EvaluatedRun], ppo: Mapping[str, float] | None) -> list[Block]:
    """Returns the tests of all runs as curves, and the last of each beside PPO's."""
    if not tested:
        return [Text("No run has been tested yet.")]
    figure = study_figure(tested, np.nan if ppo is None else ppo["mean"], "Tests of the runs")
    rows: dict[str, Mapping[str, Any]] = {
        f"{run.estimator}, seed {run.seed}": run.rows[-1] for run in tested
    }
    above = dict.fromkeys(rows, "-")
    if ppo is not None:
        firsts = summarize(tested, ppo)["runs"].values()
        for name, row in zip(list(rows), firsts, strict=True):
            first = row["env_steps_above_ppo"]
            above[name] = "never" if first is None else formatting.count(first)
        rows["PPO"] = ppo
    cells = [
        (
            name,
            number(row["mean"]),
            interval((row["low"], row["high"])),
            formatting.count(row["env_steps"]) if "env_steps" in row else "",
            above.get(name, ""),
        )
        for name, row in rows.items()
    ]
    header = ("last test", "mean", "95 % interval", "env steps", "above PPO from")
    shows = "Returns against the env steps of meta-training"
    return [Picture(svg(figure), shows), Table(header, cells, numbers=True)]
