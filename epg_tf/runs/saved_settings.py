"""Reads settings that an earlier process saved, compares them, and shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, TypeVar

from epg_tf.core import formatting
from epg_tf.core.old_settings import renamed
from epg_tf.core.settings import flat

_Experiment = TypeVar("_Experiment")


def read(settings: Any, from_mapping: Callable[[Any], _Experiment]) -> _Experiment:
    """Returns the experiment that saved settings describe.

    All settings in the folders of runs and studies are read here; old names are translated.

    Raises:
      ConfigError: They are not usable.
    """
    return from_mapping(renamed(settings))


def changes(
    before: Mapping[str, Any], now: Mapping[str, Any], ignored: Set[str]
) -> Iterator[tuple[str, Any, Any]]:
    """Yields name, old and new value of settings that differ.

    Args:
      ignored: Names "config.GROUP.FIELD" of settings that may differ.
    """
    old = dict(flat(before))
    for name, value in flat(now):
        if old[name] != value and name not in ignored:
            yield name, old[name], value


def markdown_table(settings: Mapping[str, Any]) -> str:
    """Returns settings as a Markdown table."""
    rows = [
        f"| {name.removeprefix('config.')} | {formatting.markdown_cell(value)} |"
        for name, value in flat(settings)
    ]
    return "\n".join(["| setting | value |", "|---|---|", *rows])
