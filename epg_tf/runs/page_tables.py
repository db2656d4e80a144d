"""Writes settings and facts as the tables of a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from epg_tf.core import files
from epg_tf.core.settings import flat
from epg_tf.reports.html_page import Block, Code, Fold, Section, Table, Text
from epg_tf.runs.config_files import AnyExperiment

SETTINGS = "Settings that differ from their defaults"
"""Title of `settings_section`."""


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


def settings_section(experiment: AnyExperiment) -> Section:
    """Returns the settings that differ from their defaults, and all settings, folded."""
    settings = experiment.to_mapping()
    defaults = {one.name: one for one in experiment.describe()}
    changed = []
    for name, value in flat(settings):
        known = defaults.get(name)
        if known is None or files.plain(value) != files.plain(known.default):
            default, meaning = ("", "") if known is None else (shown(known.default), known.meaning)
            changed.append((name.removeprefix("config."), shown(value), default, meaning))
    header = ("setting", "here", "default", "meaning")
    blocks: list[Block] = [Table(header, changed)] if changed else []
    text = json.dumps(files.plain({"config": settings}), indent=1, ensure_ascii=False)
    blocks.append(Fold("all settings, as config.json holds them", Code(text)))
    return Section(SETTINGS, blocks)


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


def flat_differences(settings: Mapping[str, Mapping[str, Any]]) -> Table | None:
    """Returns the settings in which those experiments differ that have them, one column each; None
    where they differ in none.

    Args:
      settings: Name of an experiment -> its settings, nested.
    """
    each = {name: dict(flat(one)) for name, one in settings.items()}
    names = dict.fromkeys(field for one in each.values() for field in one)
    rows = []
    for field in names:
        cells = [shown(one[field]) if field in one else "" for one in each.values()]
        if len({cell for cell in cells if cell}) > 1:
            rows.append((field.removeprefix("config."), *cells))
    return Table(("setting", *each), rows) if rows else None
