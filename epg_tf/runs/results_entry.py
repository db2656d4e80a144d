"""Makes the entry of a page on a test of fresh agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epg_tf.baselines.method import MEANINGS
from epg_tf.core import files, formatting
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.old_settings import renamed
from epg_tf.evaluation.results import FINAL, Results, read_results
from epg_tf.evaluation.summary import Summary, reference, summarize
from epg_tf.reports import tables
from epg_tf.reports.agent_plots import learning_figure
from epg_tf.reports.html_page import Block, Code, Fold, Picture, Section, Table, Text
from epg_tf.reports.plots import svg
from epg_tf.reports.table_pictures import interval_picture
from epg_tf.reports.tables import label
from epg_tf.runs import page_tables
from epg_tf.runs.config_files import read_experiment
from epg_tf.runs.page_entry import Entry, film_section


def results_entry(path: Path, film: bool) -> Entry:
    """Returns the entry of a test.

    Raises:
      RecordError: The folder is damaged.
    """
    results = read_results(path)
    _check(path, results)
    about = files.read_json(path / "summary.json", "the test's summary").get("about")
    try:
        if not isinstance(about, Mapping):
            raise TypeError("it has no mapping about")
        summaries = summaries_of(results, about)
        sections = _sections(path, results, about, summaries, film)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RecordError(
            f"{path}: summary.json is damaged, or of another version of epg_tf "
            f"({files.one_line(error)[:200]}); restore it or run the test again"
        ) from error
    return Entry(path, "test of fresh agents", sections, _settings(about), summaries=summaries)


def _settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that a test states, named as those of a run."""
    parts = {"task": about.get("task"), "policy": about.get("policy")}
    for whole in (about.get("config"), about.get("rivals")):
        parts |= whole if isinstance(whole, Mapping) else {}
    return {name: part for name, part in parts.items() if part is not None}


def _check(path: Path, results: Results) -> None:
    """Refuses a table without agents, or with agents that have not one final row."""
    agents = results.agents()
    last = results.select(episodes=FINAL)
    if not agents or sorted(last.agents()) != sorted(agents) or len(last) != len(agents):
        raise RecordError(
            f"{path}: curves.csv has no agents, or agents without exactly one final row; restore "
            "the file or run the test again"
        )


def _sections(
    path: Path,
    results: Results,
    about: Mapping[str, Any],
    summaries: Mapping[str, Summary],
    film: bool,
) -> list[Section]:
    curves = svg(learning_figure(results, str(results.task[0])))
    shown = [Section("Learning curves", [Picture(curves, "Returns while agents learn")])]
    if film and isinstance(about.get("loss"), str):
        shown.append(film_section(about["loss"]))
    sections = [
        Section("Result", _result(results, summaries)),
        *shown,
        Section("All numbers", _numbers(results, summaries)),
        Section("What was tested", _what(path, results, about)),
        *_settings_section(about),
    ]
    if isinstance(about.get("command"), str):
        sections.append(Section("The command", [Code(about["command"])]))
    return sections


def _settings_section(about: Mapping[str, Any]) -> list[Section]:
    """Returns the settings that a test states in full; none where it does not."""
    if not isinstance(about.get("config"), Mapping):
        return []
    try:
        experiment = read_experiment(renamed(about["config"]))
    except ConfigError as error:
        why = Text(f"The settings cannot be read: {files.one_line(error)}.", note=True)
        return [Section(page_tables.SETTINGS, [why])]
    return [page_tables.settings_section(experiment)]


def summaries_of(results: Results, about: Mapping[str, Any]) -> dict[str, Summary]:
    """Returns the summary of each method; of each objective where they are stages of a run."""
    if "run" not in about:
        return summarize(results)
    groups = results.groups().items()
    return {name: next(iter(summarize(rows).values())) for name, rows in groups}


def _what(path: Path, results: Results, about: Mapping[str, Any]) -> list[Block]:
    agents = len(next(iter(results.groups().values())).agents())
    steps = formatting.count(int(results.env_steps.max()))
    loss_facts = about.get("loss_facts")
    made_with = about.get("made_with")
    rows = [
        ("folder", str(path)),
        ("loss", str(about.get("loss") or about.get("run"))),
        ("tasks", str(results.task[0])),
        ("phase", str(about.get("phase", "not recorded"))),
        ("seed", str(about["seed"])),
        ("cost", f"{agents} agents for each method, at most {steps} env steps of learning each"),
        *page_tables.fact_rows(made_with if isinstance(made_with, Mapping) else {}),
    ]
    later = about.get("continued_with")
    if isinstance(later, list):
        commits = [str(each.get("commit")) for each in later if isinstance(each, Mapping)]
        rows += [("continued with", commit) for commit in commits]
    if isinstance(loss_facts, Mapping):
        known = [
            f"{name.replace('_', ' ')} {f'{value:.2f}' if isinstance(value, float) else value}"
            for name, value in loss_facts.items()
            if name != "versions" and value is not None
        ]  # fmt: skip
        rows.append(("origin of the loss", ", ".join(known) or "not recorded"))
    return [Table((), rows), page_tables.changes_block(about.get("replaced"))]


def _result(results: Results, summaries: Mapping[str, Summary]) -> list[Block]:
    """Returns how the learned loss compares, and final returns as a picture."""
    ends = {label(name): (row.final_return_mean, *row.ci95) for name, row in summaries.items()}
    colours = {name: number for number, name in enumerate(ends)}  # as of learning curves
    figure = interval_picture(ends, "Final returns", colours)
    agents = min(row.lives for row in summaries.values())
    about = f"{agents} fresh agents of each method met the same unseen tasks."
    sentences = [f"{line[0].upper()}{line[1:]}." for line in tables.comparison(summaries)]
    return [*map(Text, (*sentences, about)), Picture(svg(figure), "Means and 95 % intervals")]


def _numbers(results: Results, summaries: Mapping[str, Summary]) -> list[Block]:
    blocks: list[Block] = [
        Table(tables.HEADER, tables.summary_rows(summaries), numbers=True),
        Text(tables.EXPLANATION, note=True),
    ]
    if (compared := reference(results)) in summaries:
        blocks.append(Text(f"Compared with: {label(str(compared))}.", note=True))
    methods = dict.fromkeys(name.partition(" ")[0] for name in summaries)
    words = [(label(name), MEANINGS[name]) for name in methods if name in MEANINGS]
    return [*blocks, Fold("what the methods are", Table((), words))] if words else blocks
