"""Makes figures and tables from finished runs, and lists what is missing for each.

    epg-tf figure --list
    epg-tf figure --name=epg.fig5 --runs=runs --output_dir=fig5

It starts no run: where a folder is missing, it prints the command that makes it and ends with exit
code 2. `--name=all` makes every figure that is ready, each in a folder of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import command_line  # first: it silences the frameworks

from absl import flags

flags.adopt_module_key_flags(command_line)
_LIST = flags.DEFINE_bool(
    "list", False, "List all figures and tables: what each shows, which folders it reads or lacks."
)
_NAME = flags.DEFINE_list(
    "name", None, "Figure or table, e.g. epg.fig5; several separated by commas; all: what is ready."
)
_SCALE = flags.DEFINE_enum(
    "scale",
    "laptop",
    ["laptop", "night", "paper"],
    "How large the runs are: variants of the configs.",
)
_RUNS = flags.DEFINE_list(
    "runs",
    ["runs"],
    "Folder with the folders that figures read, e.g. runs, or results; several separated by "
    "commas. Commands write to the first one.",
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir",
    None,
    "Folder for figure.png, figure.svg, data.csv and caption.md; of several figures a folder each.",
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace a figure in --output_dir; foreign files in it stay."
)

command_line.parse_flags(__name__)

from epg_tf.core.errors import ConfigError, EpgError, RenderError

if TYPE_CHECKING:  # they import TensorFlow, and flags are read before it is
    from epg_tf.figures.declaration import Declaration
    from epg_tf.figures.sources import Status


def main(argv: list[str]) -> int:
    """Lists or makes figures; returns the exit code."""
    del argv
    if _LIST.value == bool(_NAME.value):
        raise command_line.UsageError("give either --name=epg.fig5 or --list")
    for flag in (_OUTPUT_DIR, _OVERWRITE):
        if _LIST.value and flag.value:
            raise command_line.UsageError(
                f"--{flag.name}={flag.value} goes with --name; leave it out"
            )
    roots = _roots()
    from epg_tf.figures.sources import status_of

    statuses = [status_of(figure, _SCALE.value, roots) for figure in _chosen()]
    return _list(statuses) if _LIST.value else _make(statuses)


def _roots() -> list[Path]:
    missing = [folder for folder in _RUNS.value or [""] if not folder or not Path(folder).is_dir()]
    if missing and (len(_RUNS.value) > 1 or flags.FLAGS["runs"].present):
        raise command_line.UsageError(f"--runs={missing[0]} is no folder; name that of your runs")
    return [Path(folder) for folder in _RUNS.value]


def _chosen() -> Sequence[Declaration]:
    """Returns the declarations that are meant."""
    from epg_tf.figures.catalogue import CATALOGUE, declaration

    names = dict.fromkeys(name for name in _NAME.value or () if name != "all")
    try:
        chosen = [declaration(name) for name in names]
    except ConfigError as error:
        raise command_line.UsageError(f"--{error}") from error
    return CATALOGUE if not _NAME.value or "all" in _NAME.value else chosen


def _list(statuses: Sequence[Status]) -> int:
    for status in statuses:
        print("\n".join(_lines(status)), end="\n\n")
    ready = sum(status.ready for status in statuses)
    print(f"{ready} ready, {len(statuses) - ready} not")
    return 0


def _lines(status: Status) -> list[str]:
    """Returns what the list says of one figure."""
    figure, scale = status.figure, status.found.scale
    state = "ready" if status.ready else "missing"
    if scale not in figure.sources:
        state = f"not declared at --scale={scale}; use {' or '.join(figure.sources)}"
    lines = [f"{figure.name}: {figure.title} ({figure.source}): {state}"]
    lines.append(f"  shows: {figure.claim}")
    lines += [f"  there: {path}" for path in dict.fromkeys(p for _, p in status.found.sources)]
    for folder, command in status.missing.items():
        lines += [f"  missing: {folder}", f"    {command.text(command_line.program)}"]
    return lines


def _make(statuses: Sequence[Status]) -> int:
    """Makes what is ready; what is asked for by name and is not ready ends with exit code 2."""
    everything = "all" in (_NAME.value or ())
    lacking = [] if everything else [each for each in statuses if not each.ready]
    if lacking:
        for status in lacking:
            print("\n".join(_lines(status)), file=sys.stderr)
        names = ",".join(status.figure.name for status in lacking)
        raise command_line.UsageError(
            f"--name={names} cannot be made yet; the lines above say what is missing"
        )
    from epg_tf.figures.output import make_figure

    output, code = Path(command_line.required(_OUTPUT_DIR, "figures")), 0
    for status in statuses:
        if not status.ready:
            continue
        name = status.figure.name
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
            print(f"  not there yet: {'; '.join(map(str, status.missing))}")
    return code


if __name__ == "__main__":
    command_line.run(main)
