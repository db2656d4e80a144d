"""Makes a figure and writes what it leaves: picture, data and caption, each file at once."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from epg_tf.core import files
from epg_tf.core.config_files import AnyExperiment
from epg_tf.figures import settings
from epg_tf.figures.declaration import Findings, RunNeed
from epg_tf.figures.search import Status
from epg_tf.reports.plots import write_csv, write_svg

PICTURE, VECTOR, DATA, CAPTION = "figure.png", "figure.svg", "data.csv", "caption.md"


def make_figure(status: Status, folder: files.PathLike, overwrite: bool = False) -> list[str]:
    """Analyses, draws and writes a figure.

    Args:
      status: Of a figure whose state is "ready".
      folder: For its files; may be missing or empty.
      overwrite: Whether its files there are replaced; others stay.

    Returns:
      The numbers of its caption.

    Raises:
      RecordError: The folder is in use, or what was found is damaged.
      EpgError: The analysis does not succeed.
      OSError: A file cannot be written.
    """
    analysis = status.declaration.analysis
    if status.state != "ready":
        raise ValueError(f"{status.declaration.name} is {status.state}; make what it lacks first")
    folder = Path(folder)
    files.prepare_folder(folder, (), overwrite=overwrite)
    findings = analysis(status.found)
    figure = findings.draw(status.declaration.title)
    (folder / CAPTION).unlink(missing_ok=True)  # written last: it never tells of other files
    write_csv(_lines(findings), folder / DATA)
    _write_picture(figure, folder / PICTURE)
    write_svg(figure, folder / VECTOR)
    text = caption(status, findings)
    files.write_atomically(folder / CAPTION, lambda stream: stream.write(text.encode()))
    return list(findings.numbers)


def _write_picture(figure: Figure, path: Path) -> None:
    """Writes a PNG with a palette of 256 colours, which takes a third of the bytes."""
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    picture = Image.open(buffer).convert("RGB").quantize(256)
    files.write_atomically(path, lambda stream: picture.save(stream, "PNG", optimize=True))


def _lines(findings: Findings) -> list[list[float | str]]:
    """Returns the cells of the tidy table, its header first."""
    if not findings.table:
        return []
    header = list(findings.table[0])
    return [list(header), *([row[name] for name in header] for row in findings.table)]


def caption(status: Status, findings: Findings) -> str:
    """Returns the caption: what is shown, the claim, numbers, and what it is made from."""
    figure = status.declaration
    parts = [
        f"# {figure.name}: {figure.title}",
        f"{figure.source}, at the scale {status.found.scale}. {figure.claimant}: {figure.claim}",
        figure.method,
        _list("Numbers (means with 95 % intervals in brackets)", findings.numbers),
        _list("Made from", _sources(status)),
        _list("Not there yet", status.missing),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _list(head: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{head}:", "", *(f"- {line}" for line in lines)]) if lines else ""


def _differences(need: RunNeed, found: AnyExperiment | None, beginning: str | None) -> str:
    """Returns how settings differ from those of a config, and what a run began with, to end a line
    with.
    """
    begun = f"; begun with {beginning}" if beginning else ""
    if found is None:
        return f"{begun}; its settings are not stated"
    other = settings.differences(need, found)
    words = ", ".join(f"{name}={value}" for name, value in other.items())
    return begun + (f"; other than there: {words}" if words else "")


def _sources(status: Status) -> list[str]:
    """Returns folder, config and seed of each run, test and loss."""
    found, lines = status.found, []
    for run_need, run in found.runs:
        differs = _differences(run_need, run.record.experiment, run.record.beginning)
        done = len(run.record.metrics)
        lines.append(
            f"run {run.shown}: {run_need.config}, seed {run.record.seed}, {done} epochs{differs}"
        )
    for test_need, test in found.tests:
        about = test.about
        lines.append(
            f"test {test.shown}: {about.get('loss') or about.get('run')}, "
            f"{test_need.run.config}, seed of meta-training "
            f"{about.get('loss_facts', {}).get('seed', test_need.run.seed)}, seed of the tasks "
            f"{about.get('seed')}{_differences(test_need.run, test.experiment, test.beginning)}"
        )
    for loss_need, loss in found.losses:
        begun = f"; begun with {loss.beginning}" if loss.beginning else ""
        lines.append(f"loss {loss.shown}: {loss_need.run.config}, seed {loss_need.run.seed}{begun}")
    return lines
