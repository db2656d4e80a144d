"""Writes what is known of all figures as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from epg_tf.core import files
from epg_tf.core.formatting import count
from epg_tf.figures.search import Status

Program = Callable[[str], str]


def lines_of(status: Status, program: Program) -> list[str]:
    """Returns what the list says of one figure.

    Args:
      status: Of the figure.
      program: Says how a command is started.
    """
    figure = status.declaration
    lines = [f"{figure.name}: {figure.title} ({figure.source}): {status.state}"]
    lines.append(f"  shows: {figure.claim}")
    if status.state == "not possible":
        return [*lines, f"  why: {status.reason}"]
    lines.append(f"  costs: {_cost(status)}")
    lines += [f"  there: {folder}" for folder in _there(status)]
    lines += [f"  missing: {what}" for what in status.missing]
    return lines + [f"  {command.text(program)}" for command in status.commands]


def _cost(status: Status) -> str:
    if not status.env_steps:
        return "no env steps"
    return f"{count(status.env_steps)} env steps, what is there included"


def _there(status: Status) -> list[Path]:
    """Returns what is there for a figure, losses without their tests included, each once."""
    return list(dict.fromkeys([*status.found.folders, *status.losses]))


def as_mapping(status: Status, program: Program) -> dict[str, Any]:
    """Returns what programs read: name, title, state, missing, command, and more."""
    figure = status.declaration
    return {
        "name": figure.name,
        "title": figure.title,
        "state": status.state,
        "missing": list(status.missing) or ([status.reason] if status.reason else []),
        "command": "\n".join(command.text(program) for command in status.commands),
        "source": figure.source,
        "claim": figure.claim,
        "env_steps": status.env_steps,
        "found": [str(folder) for folder in _there(status)],
    }


def write_list(path: files.PathLike, statuses: Sequence[Status], program: Program) -> None:
    """Writes a list of `as_mapping` as JSON; the commands of a figure are lines of one text.

    Raises:
      OSError: The file cannot be written.
    """
    found = [files.plain(as_mapping(status, program)) for status in statuses]
    text = json.dumps(found, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    files.write_atomically(path, lambda stream: stream.write(text.encode()))


def is_list(path: Path) -> bool:
    """Returns whether `write_list` wrote a file."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, list) and all(
        isinstance(each, dict) and {"name", "state", "command"} <= set(each) for each in found
    )
