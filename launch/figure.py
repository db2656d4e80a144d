"""Makes figures and tables from finished runs, and lists what is missing for each.

    epg-tf figure --list
    epg-tf figure --name=epg.fig5 --runs=runs --output_dir=fig5

It starts no run: where one is missing, it prints the command that makes it and ends with exit
code 2. `--name=all` makes every figure that is ready, each in a folder of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from . import command_line  # first: it silences the frameworks

from absl import flags

from epg_tf.core.errors import ConfigError, EpgError, RenderError
from epg_tf.figures.catalogue import CATALOGUE, declaration
from epg_tf.figures.declaration import SCALES
from epg_tf.figures.listing import is_list, lines_of, write_list
from epg_tf.figures.output import make_figure
from epg_tf.figures.records import open_library
from epg_tf.figures.search import Status, status_of
from .evaluation_flags import required

_LIST = flags.DEFINE_bool(
    "list", False, "List all figures and tables: what each shows, costs, and lacks."
)
_NAME = flags.DEFINE_list(
    "name", None, "Figure or table, e.g. epg.fig5; several separated by commas; all: what is ready."
)
_SCALE = flags.DEFINE_enum(
    "scale", "laptop", SCALES, "How large the runs are: variants of the configs."
)
_RUNS = flags.DEFINE_list(
    "runs",
    ["runs"],
    "Folder below which runs and tests are, e.g. runs, or results; several separated by commas. "
    "Commands write to the first one.",
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir",
    None,
    "Folder for figure.png, figure.svg, data.csv and caption.md; of several figures a folder each.",
)
_JSON = flags.DEFINE_string("json", None, "With --list: file to write the list to.")
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace a figure in --output_dir; foreign files in it stay."
)


def main(argv: list[str]) -> int:
    """Lists or makes figures; returns the exit code."""
    del argv
    if _LIST.value == bool(_NAME.value):
        raise command_line.UsageError("give either --name=epg.fig5 or --list")
    if _LIST.value and _OVERWRITE.value:
        raise command_line.UsageError("--overwrite=True goes with --name; leave it out")
    for flag, ignored in ((_JSON, not _LIST.value), (_OUTPUT_DIR, _LIST.value)):
        if flag.value is not None and ignored:
            other = "--name" if _LIST.value else "--list"
            raise command_line.UsageError(
                f"--{flag.name}={flag.value} goes with {other}; leave it out"
            )
    with open_library(_folders()) as library:
        for path, reason in library.unreadable:
            print(f"left out: {path} cannot be read ({reason})", file=sys.stderr)
        chosen = _chosen()
        first = Path(_RUNS.value[0])
        statuses = [status_of(each, _SCALE.value, library, first) for each in chosen]
        if _LIST.value:
            return _list(statuses)
        return _make(statuses)


def _folders() -> list[str]:
    missing = [folder for folder in _RUNS.value if not Path(folder).is_dir()]
    if missing and (len(_RUNS.value) > 1 or flags.FLAGS["runs"].present):
        raise command_line.UsageError(f"--runs={missing[0]} is no folder; name that of your runs")
    return list(_RUNS.value)


def _chosen() -> Sequence:
    """Returns the declarations that are meant."""
    names = dict.fromkeys(name for name in _NAME.value or () if name != "all")
    try:
        chosen = [declaration(name) for name in names]
    except ConfigError as error:
        raise command_line.UsageError(f"--{error}") from error
    return CATALOGUE if not _NAME.value or "all" in _NAME.value else chosen


def _list(statuses: Sequence[Status]) -> int:
    if _JSON.value is not None:
        path = Path(_JSON.value)
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise command_line.UsageError(
                f"--json={path}: {path.parent} is not a folder that can be written to; create it"
            )
        if path.exists() and not is_list(path):
            raise command_line.UsageError(
                f"--json={path} is there, and is no list of figures; name another file"
            )
        write_list(path, statuses, command_line.program)
    for status in statuses:
        print("\n".join(lines_of(status, command_line.program)), end="\n\n")
    states = [status.state for status in statuses]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    print(", ".join(f"{number} {state}" for state, number in counts.items()))
    return 0


def _make(statuses: Sequence[Status]) -> int:
    """Makes what is ready; what is asked for by name and is not ready ends with exit code 2."""
    everything = "all" in (_NAME.value or ())
    lacking = [] if everything else [each for each in statuses if each.state != "ready"]
    if lacking:
        for status in lacking:
            print("\n".join(lines_of(status, command_line.program)), file=sys.stderr)
        names = ",".join(status.declaration.name for status in lacking)
        raise command_line.UsageError(
            f"--name={names} cannot be made yet; the lines above say what is missing"
        )
    output, code = Path(required(_OUTPUT_DIR, "figures")), 0
    for status in statuses:
        if status.state == "ready":
            name = status.declaration.name
            folder = output / name if everything or len(statuses) > 1 else output
            try:
                numbers = make_figure(status, folder, _OVERWRITE.value)
            except EpgError as error:
                if len(statuses) == 1:
                    raise
                print(f"left out: {name} cannot be made ({error})", file=sys.stderr)
                if not isinstance(error, RenderError):  # else nothing here can draw films
                    code = 1
                continue
            print("\n".join([f"{name}: {folder}", *(f"  {line}" for line in numbers)]), flush=True)
            if status.missing:
                print(f"  not there yet: {'; '.join(status.missing)}")
    return code


if __name__ == "__main__":
    command_line.run(main)
