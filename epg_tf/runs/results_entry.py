"""Makes the entry of a page on a test of fresh agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core import files, formatting
from epg_tf.core.config_files import read_experiment
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.experiment import TaskConfig, from_mapping
from epg_tf.core.random_streams import PHASES, life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.evaluation.results import FINAL, Results, read_results
from epg_tf.evaluation.summary import Summary, reference, summarize
from epg_tf.reports import result_charts
from epg_tf.reports.html_page import Block, Chart, Code, Section, Table, Text
from epg_tf.reports.tables import label
from epg_tf.runs import page_tables, repeat_commands, saved_settings
from epg_tf.runs.page_entry import Entry, film_section
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.registry import FAMILIES, is_importable, make_family, named_environment

_MOST_AGENTS = 10**5  # whose tasks are drawn again
_EXPLANATION = (
    "Mean: return of the final policy (sum of rewards in an episode), over agents; one that failed "
    "counts as the worst of the others. auc: return, averaged over learning. Match: env steps "
    "after which a method first reaches the learned loss's final mean. Ahead: how far the learned "
    "loss ends above a method, agent by agent."
)


def results_entry(path: Path, film: bool) -> Entry:
    """Returns the entry of a test.

    Args:
      path: Folder of the test.
      film: Whether to draw a film strip of a life with the loss.

    Raises:
      RecordError: The folder is damaged.
    """
    results = read_results(path)
    _check(path, results)
    about = files.read_json(path / "summary.json", "the test's summary").get("about")
    try:
        if not isinstance(about, Mapping):
            raise TypeError("it has no mapping about")
        sections = _sections(path, results, about)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RecordError(
            f"{path}: summary.json is damaged, or of another version of epg_tf "
            f"({files.one_line(error)[:200]}); restore it or run the test again"
        ) from error
    if film and isinstance(about.get("loss"), str):
        sections.insert(-1, film_section(about["loss"]))
    what, summaries = "test of fresh agents", summaries_of(results, about)
    return Entry(path, what, sections, _settings(about), summaries=summaries)


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


def _sections(path: Path, results: Results, about: Mapping[str, Any]) -> list[Section]:
    groups, summaries = results.groups(), summaries_of(results, about)
    sections = [
        Section("What was tested", _what(path, results, about)),
        Section("Final comparison", _comparison(results, summaries)),
        Section("Learning curves", _curves(groups)),
        Section(
            "Distribution over tasks",
            [Chart("Final returns", result_charts.distribution(groups, summaries))],
        ),
        Section("Return against what tasks differ in", _by_parameter(results, about)),
        *_settings_section(about),
    ]
    command = repeat_commands.repeat_test(path, about, results)
    blocks: list[Block] = [Code(command)]
    if set(about.get("replaced") or ()) - {"config.task.physics"}:
        blocks.insert(0, Text("With the settings above, from a config of your own:"))
    elif remark := repeat_commands.remark_on_files([results.task[0].partition(" ")[0]]):
        blocks.insert(0, Text(remark))
    return [*sections, Section("To run it again", blocks)]


def _settings_section(about: Mapping[str, Any]) -> list[Section]:
    """Returns the settings that a test states in full; none where it does not."""
    if not isinstance(about.get("config"), Mapping):
        return []
    try:
        experiment = saved_settings.read(about["config"], read_experiment)
        blocks = page_tables.settings_blocks(experiment)
    except ConfigError as error:
        blocks = [Text(f"The settings cannot be read: {files.one_line(error)}.", note=True)]
    return [Section("Settings that differ from their defaults", blocks)]


def summaries_of(results: Results, about: Mapping[str, Any]) -> dict[str, Summary]:
    """Returns the summary of each method; of each objective alone where they are stages of a run.

    Args:
      results: The table of a test.
      about: What was tested.
    """
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
        known = {name: loss_facts[name] for name in loss_facts if name != "versions"}
        rows.append(("origin of the loss", ", ".join(f"{k} {v}" for k, v in known.items())))
    return [Table((), rows), page_tables.changes_block(about.get("replaced"))]


def _comparison(results: Results, summaries: Mapping[str, Summary]) -> list[Block]:
    chart = Chart("Means and 95 % intervals", result_charts.comparison(summaries))
    blocks: list[Block] = [chart, page_tables.summary_table(summaries)]
    blocks.append(Text(_EXPLANATION, note=True))
    if (compared := reference(results)) in summaries:
        blocks.append(Text(f"Compared with: {label(str(compared))}.", note=True))
    return blocks


def _curves(groups: Mapping[str, Results]) -> list[Block]:
    remark = (
        "Line: mean over agents; band: their middle half; dashed: with exploration, where others "
        "are without. Click a name to hide it, drag to zoom, double-click to zoom out."
    )
    chart = Chart("While agents learn", result_charts.learning_curves(groups))
    return [chart, Text(remark, note=True)]


def _by_parameter(results: Results, about: Mapping[str, Any]) -> list[Block]:
    try:
        parameters = task_parameters(results, about)
    except (ConfigError, RecordError) as error:
        return [Text(f"The tasks cannot be drawn again: {error}.", note=True)]
    if not parameters:
        return [Text("All tasks of this test are the same.", note=True)]
    figure = result_charts.by_parameter(results.groups(), parameters)
    return [Chart("One point an agent; the menu has every parameter", figure)]


def task_parameters(results: Results, about: Mapping[str, Any]) -> dict[str, Array]:
    """Returns what the tasks of a test differ in: name with unit -> a value for each agent.

    Args:
      results: Its table.
      about: What was tested.

    Raises:
      ConfigError: The family is not known here.
      RecordError: The table or the summary does not say which tasks they are.
    """
    count, names = int(results.agent.max()) + 1, set(results.task)
    if len(names) > 1 or count > _MOST_AGENTS or results.agent.min() < 0:
        raise RecordError("the table is of several tasks, or has odd numbers of agents")
    if "run" not in about and "phase" not in about:
        raise RecordError("summary.json does not state the phase of the test")
    phase = about.get("phase", "objective_test")  # stages of a run are tested in no other
    if phase not in PHASES:
        raise RecordError(f"phase {str(phase)[:50]!r} is not known here")
    family = _family(results, about)
    keys = [LifeKey(about["seed"], phase, 0, number) for number in range(count)]
    tasks = [family.sample_task(life_generator(key, "task")) for key in keys]
    found = {}
    for quantity in family.quantities:
        values = np.array([np.ravel(task[quantity.name]) for task in tasks])
        for place, column in enumerate(values.T, start=1):
            name = quantity.name if values.shape[1] == 1 else f"{quantity.name} {place}"
            if np.ptp(column) > 0:
                found[f"{name} ({quantity.unit})"] = column
    return found


def _family(results: Results, about: Mapping[str, Any]) -> TaskFamily:
    """Returns the family of a test, if it is one of this package or registered."""
    config: TaskConfig | None = None
    name = str(results.task[0]).partition(" ")[0]
    if isinstance(task := about.get("task"), Mapping):
        config = from_mapping({"task": task}).task
        name = config.family
    family = name.partition("@")[0]
    if family not in FAMILIES and not is_importable(family):
        raise ConfigError(f"family {family[:50]!r} is not known here")
    return named_environment(name) if config is None else make_family(config)
