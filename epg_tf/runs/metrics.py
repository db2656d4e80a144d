"""Records numbers while a run goes on: a CSV file for programs, TensorBoard for eyes."""

from __future__ import annotations

import csv
import functools
import io
import math
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core.errors import RecordError
from epg_tf.core import files


class MetricsFile:
    """One CSV row per epoch, on disk when `append` returns; survives being killed within a row.

    The header comes from the keys of the first row. Floats are written exactly, NaN as `nan`.
    """

    def __init__(self, path: files.PathLike):
        """Names the file; its folder must exist, it need not."""
        self._path = Path(path)
        self._columns: list[str] | None = None

    def append(self, row: Mapping[str, float | int | str]) -> None:
        """Adds a row and flushes it.

        Raises:
          ValueError: The keys are not those of the rows before, or a text holds a line break.
          RecordError: The file that an earlier process wrote cannot be read.
          OSError: The file cannot be written.
        """
        if self._columns is None:
            lines = self._drop_torn_line()
            self._columns = _cells(lines[0]) if lines else None
        columns = self._columns or list(row)
        if set(row) != set(columns):
            odd = ", ".join(sorted(set(row) ^ set(columns)))
            raise ValueError(f"{self._path}: a row differs from the header in: {odd}; start a new "
                             "file for new columns")
        text = _line(row[name] for name in columns)
        if self._columns is None:
            text = _line(columns) + text
        with open(self._path, "a", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        self._columns = columns

    def truncate_after(self, epoch: int) -> None:
        """Drops rows whose column `epoch` exceeds `epoch`, and a torn last line; the other rows
        keep their bytes.

        Raises:
          RecordError: The file has no column `epoch`, or is damaged before its last line.
          OSError: The file cannot be written.
        """
        self._columns = None
        header, *lines = self._drop_torn_line() or [""]
        epochs = [row.get("epoch") for row in self.read()]
        if not all(isinstance(value, float) for value in epochs):
            raise RecordError(f"{self._path}: not every row has a number in column 'epoch'; "
                              "restore the file")
        kept = [line for line, value in zip(lines, epochs, strict=True) if value <= epoch]
        if len(kept) < len(lines):
            self._rewrite([header, *kept])

    def read(self) -> list[dict[str, float]]:
        """Reads the rows; an empty cell is NaN, a cell that is not a number stays text, a torn last
        line is left out.

        Raises:
          RecordError: The file is damaged before its last line.
        """
        header, *lines = [_cells(line) for line in self._lines()] or [[]]
        for number, cells in enumerate(lines, start=2):
            if len(cells) != len(header):
                raise RecordError(
                    f"{self._path}: line {number} has {len(cells)} cells, the header "
                    f"{len(header)}; remove the line"
                )
        return [{name: _value(cell) for name, cell in zip(header, cells, strict=True)} for cells in lines]

    def _lines(self) -> list[str]:
        """Returns the whole lines of the file, ends included: a line without an end was torn, and
        is not among them.
        """
        try:
            text = self._path.read_text("utf-8", errors="replace") if self._path.exists() else ""
        except OSError as error:
            raise RecordError(f"{self._path}: {error.strerror}; check the path") from error
        return [f"{line}\n" for line in text.split("\n")[:-1]]

    def _drop_torn_line(self) -> list[str]:
        """Rewrites the file without what follows its last line end; returns the whole lines."""
        lines = self._lines()
        if self._path.exists() and not self._path.read_bytes().endswith(b"\n"):
            self._rewrite(lines)
        return lines

    def _rewrite(self, lines: list[str]) -> None:
        files.write_atomically(self._path, lambda stream: stream.write("".join(lines).encode()))


def _line(cells: Iterable[float | int | str]) -> str:
    """Returns one line of CSV with its end."""
    plain = [cell.item() if isinstance(cell, np.generic) else cell for cell in cells]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow([int(c) if isinstance(c, bool) else c for c in plain])
    text = buffer.getvalue()
    if text.count("\n") > 1 or "\r" in text:
        raise ValueError(f"{text!r} holds a line break within a cell; metrics are one line per row")
    return text


def _cells(line: str) -> list[str]:
    return next(csv.reader([line.rstrip("\n")]), [])


def _value(cell: str) -> float | str:
    try:
        return float(cell or "nan")
    except ValueError:
        return cell


class TensorBoardWriter:
    """Writes scalars and texts to a TensorBoard log; every call is flushed."""

    def __init__(self, folder: files.PathLike):
        """Writes nothing yet; the first point or text opens a new event file in `folder`, created
        if missing.
        """
        import tensorflow as tf  # slow to import, and only needed where somebody watches

        self._v1 = tf.compat.v1
        self._make_tensor_proto, self._folder = tf.make_tensor_proto, folder

    @functools.cached_property
    def _writer(self) -> Any:
        # The v1 writer is the one public interface that can write session logs. It asks for a graph
        # only when made, and does not initialise TensorFlow's runtime, so threads may still be
        # configured afterwards.
        with self._v1.Graph().as_default():
            # Files are named after the second and read in order of their names: runs within a
            # second need more digits.
            suffix = f".{time.time_ns() % 10**9:09d}"
            return self._v1.summary.FileWriter(str(self._folder), filename_suffix=suffix)

    def scalars(self, step: int, mapping: Mapping[str, float], prefix: str = "") -> None:
        """Adds one point at `step` to the curve `prefix/name` of every item; NaN adds none."""
        start = f"{prefix}/" if prefix else ""
        values = [
            self._v1.Summary.Value(tag=start + name, simple_value=float(value))
            for name, value in mapping.items()
            if not math.isnan(value)
        ]
        self._writer.add_summary(self._v1.Summary(value=values), step)
        self._writer.flush()

    def purge_after(self, step: int) -> None:
        """Hides points after `step` that earlier processes wrote to the same folder: call it when a
        run resumes.

        TensorBoard's fast loader hides them curve by curve, each as soon as it gets a point at or
        before the old ones.
        """
        log = self._v1.SessionLog(status=self._v1.SessionLog.START)
        self._writer.add_session_log(log, step + 1)  # TensorBoard drops what is at or beyond a START
        self._writer.flush()

    def text(self, name: str, text: str) -> None:
        """Shows `text` (Markdown) under `name`."""
        metadata = self._v1.SummaryMetadata(plugin_data=self._v1.SummaryMetadata.PluginData(plugin_name="text"))
        tensor = self._make_tensor_proto(text.encode())
        value = self._v1.Summary.Value(tag=name, metadata=metadata, tensor=tensor)
        self._writer.add_summary(self._v1.Summary(value=[value]), 0)
        self._writer.flush()

    def close(self) -> None:
        """Closes the event file, if there is one; the writer cannot be used afterwards."""
        if "_writer" in vars(self):
            self._writer.close()
