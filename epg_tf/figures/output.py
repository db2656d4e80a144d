"""Makes a figure and writes what it leaves: picture, data and caption, each file at once."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from epg_tf.core import files
from epg_tf.figures.declaration import Match, Result, Run
from epg_tf.figures.sources import Status
from epg_tf.reports.plots import write_csv, write_svg

PICTURE, VECTOR, DATA, CAPTION = "figure.png", "figure.svg", "data.csv", "caption.md"


def make_figure(status: Status, folder: files.PathLike, overwrite: bool = False) -> list[str]:
    """Analyses, draws and writes a figure.

    Args:
      status: Of a figure that is ready.
      folder: For its files; may be missing or empty.
      overwrite: Whether its files there are replaced; others stay.

    Returns:
      The numbers of its caption.

    Raises:
      RecordError: The folder is in use, or what was found is damaged.
      EpgError: The analysis does not succeed.
      OSError: A file cannot be written.
    """
    if not status.ready:
        raise ValueError(f"{status.figure.name} is not ready; make what it lacks first")
    folder = Path(folder)
    files.prepare_folder(folder, (), overwrite=overwrite)
    findings = status.figure.analysis(status.found)
    figure = findings.draw(status.figure.title)
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


def _lines(findings: Result) -> list[list[float | str]]:
    """Returns the cells of the tidy table, its header first."""
    if not findings.table:
        return []
    header = list(findings.table[0])
    return [list(header), *([row[name] for name in header] for row in findings.table)]


def caption(status: Status, findings: Result) -> str:
    """Returns the caption: what is shown, the claim, numbers, and what it is made from."""
    figure = status.figure
    parts = [
        f"# {figure.name}: {figure.title}",
        f"{figure.source}, at the scale {status.found.scale}. The paper: {figure.claim}",
        figure.method,
        _list("Numbers (means with 95 % intervals in brackets)", findings.numbers),
        _list("Made from", _sources(status.found)),
        _list("Not there yet", [*map(str, status.missing)]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _list(head: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{head}:", "", *(f"- {line}" for line in lines)]) if lines else ""


def _sources(found: Match) -> list[str]:
    """Returns folder (or pretrained loss), config and seeds of each run and evaluation."""
    lines = []
    for source, path in found.sources:
        runs = (source,) if isinstance(source, Run) else source.runs
        seeds = ", ".join(str(run.seed) for run in runs)
        place = source.folder if path.exists() else path
        lines.append(f"{place}: {runs[0].config}, seed{'s' * (len(runs) > 1)} {seeds}")
    return lines
