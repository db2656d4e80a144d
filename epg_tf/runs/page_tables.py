"""Writes settings, facts and summaries as the tables of a page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from epg_tf.core import fields, files, formatting
from epg_tf.core.config_files import AnyExperiment
from epg_tf.evaluation.summary import Summary
from epg_tf.reports.html_page import Block, Code, Fold, Table, Text
from epg_tf.reports.tables import label
from epg_tf.runs import saved_settings


def fact_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns rows on commit, machine and versions, as `provenance` states them."""
    machine, versions = facts.get("machine"), facts.get("versions")
    return [
        ("commit", str(facts.get("commit") or "not recorded")),
        ("machine", _listed(machine) if isinstance(machine, Mapping) else "not recorded"),
        ("versions", _listed(versions) if isinstance(versions, Mapping) else "not recorded"),
    ]


def _listed(mapping: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in mapping.items())


def settings_blocks(experiment: AnyExperiment) -> list[Block]:
    """Returns the settings that differ from their defaults, and all settings, folded."""
    settings = experiment.to_mapping()
    defaults = {one.name: one for one in fields.describe(type(experiment))}
    changed = []
    for name, value in saved_settings.flat(settings):
        known = defaults.get(name)
        if known is None or files.plain(value) != files.plain(known.default):
            default, meaning = ("", "") if known is None else (shown(known.default), known.meaning)
            changed.append((name.removeprefix("config."), shown(value), default, meaning))
    header = ("setting", "here", "default", "meaning")
    blocks: list[Block] = [Table(header, changed)] if changed else []
    return [*blocks, Fold("all settings, as config.json holds them", Code(config_text(settings)))]


def config_text(settings: Mapping[str, Any]) -> str:
    """Returns settings as the config.json of a folder that a command takes for a config."""
    return json.dumps(files.plain({"config": settings}), indent=1, ensure_ascii=False)


def changes_block(changes: Any) -> Block:
    """Returns a table of settings that a test replaced: name -> [then, now]."""
    if not isinstance(changes, Mapping) or not changes:
        return Text("All settings are those of the loss.")
    pairs = [
        (str(name).removeprefix("config."), *map(shown, pair))
        for name, pair in changes.items()
        if isinstance(pair, list | tuple)
    ]
    return Table(("setting", "of the loss", "of the test"), pairs)


def shown(value: Any) -> str:
    """Returns a value as JSON; floats such as 0.003 are shorter than in Python's text."""
    return json.dumps(files.plain(value), ensure_ascii=False)


def summary_table(summaries: Mapping[str, Summary]) -> Table:
    """Returns the numbers of each method, the best one first."""
    header = (
        "",
        "mean",
        "95 % interval",
        "IQM",
        "auc",
        "agents",
        "failed",
        "success",
        "env steps",
        "match",
        "ahead",
        "95 % interval",
    )
    best_first = sorted(summaries.items(), key=lambda item: -_worth(item[1].final_return_mean))
    never = "never" if any(row.steps_to_match is not None for row in summaries.values()) else "-"
    rows = [(label(name), *_cells(row, never)) for name, row in best_first]
    return Table(header, rows, numbers=True)


def _worth(mean: float) -> float:
    return -math.inf if math.isnan(mean) else mean


def _cells(row: Summary, never: str) -> tuple[str, ...]:
    ahead = row.ahead_mean is not None and row.ahead_ci95 is not None
    return (
        number(row.final_return_mean),
        interval(row.ci95),
        number(row.final_return_iqm),
        number(row.auc_mean),
        str(row.lives),
        str(row.failed_lives),
        "-" if math.isnan(row.success_rate) else f"{row.success_rate:.0%}",
        formatting.count(row.env_steps),
        never if row.steps_to_match is None else formatting.count(row.steps_to_match),
        number(row.ahead_mean) if ahead else "",
        interval(row.ahead_ci95) if ahead else "",
    )


def number(value: float | None) -> str:
    """Returns a return as text: two decimals, "-" where it is not known."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.2f}"


def interval(ends: tuple[float, float] | None) -> str:
    """Returns both ends of an interval as text."""
    return "-" if ends is None else f"[{number(ends[0])}, {number(ends[1])}]"


def flat_differences(settings: Mapping[str, Mapping[str, Any]]) -> Table | None:
    """Returns the settings in which those experiments differ that have them, one column each; None
    where they differ in none.

    Args:
      settings: Name of an experiment -> its settings, nested.
    """
    flat = {name: dict(saved_settings.flat(one)) for name, one in settings.items()}
    names = dict.fromkeys(field for one in flat.values() for field in one)
    rows = []
    for field in names:
        cells = [shown(one[field]) if field in one else "" for one in flat.values()]
        if len({cell for cell in cells if cell}) > 1:
            rows.append((field.removeprefix("config."), *cells))
    return Table(("setting", *flat), rows) if rows else None
