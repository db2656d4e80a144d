"""Writes the numbers of a run to a CSV file, one row per epoch, and reads them back."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core import files
from epg_tf.core.errors import RecordError

_FILE_LIMIT = 2**28  # bytes; a row takes a few hundred
_GONE = ("pair_correlation",)  # columns of earlier versions; rows that follow have NaN there


class MetricsFile:
    """One CSV row per epoch, on disk when `append` returns; a torn last row is dropped.

    The header comes from the keys of the first row. Floats are written exactly, NaN as `nan`.

    Args:
      path: The file, which need not exist; its folder must.
    """

    def __init__(self, path: files.PathLike):
        self._path = Path(path)
        self._columns: list[str] | None = None

    def append(self, row: Mapping[str, float | int | str]) -> None:
        """Adds a row and flushes it.

        Raises:
          ValueError: The keys are not those of the rows before, or a text has a line break.
          RecordError: The file that an earlier process wrote cannot be read.
          OSError: The file cannot be written.
        """
        if self._columns is None:
            lines = self._drop_torn_line()
            self._columns = _cells(lines[0]) if lines else None
        columns = self._columns or list(row)
        row = {name: float("nan") for name in columns if name in _GONE} | dict(row)
        if set(row) != set(columns):
            odd = ", ".join(sorted(set(row) ^ set(columns)))
            raise ValueError(
                f"{self._path}: a row differs from the header in: {odd}; start a new file for new "
                "columns"
            )
        text = _line(row[name] for name in columns)
        if self._columns is None:
            text = _line(columns) + text
        with open(self._path, "a", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        self._columns = columns

    def check(self, columns: Sequence[str], newer: Sequence[str] = ()) -> None:
        """Checks that rows with these columns can follow, and that all cells are numbers.

        Args:
          newer: Those of them that the file may lack, to be added by `add_columns`.

        Raises:
          RecordError: They are not; the message names the line.
        """
        rows = self.read()
        header = [name for name in _cells(next(iter(self._lines()), "")) if name not in _GONE]
        expected = [name for name in columns if name in header or name not in newer]
        if header and sorted(header) != sorted(expected):
            odd = ", ".join(sorted(set(header) ^ set(columns))) or "a name twice"
            raise RecordError(
                f"{self._path}: its header (line 1) is not that of this run: {odd}; restore the "
                "line, or resume with the version of epg_tf that wrote it"
            )
        check_numbers(self._path, rows)

    def add_columns(self, names: Sequence[str]) -> None:
        """Adds columns that the file does not have yet, NaN in all its rows.

        Raises:
          OSError: The file cannot be written.
        """
        self._columns = None
        header, *lines = self._drop_torn_line() or [""]
        missing = [name for name in names if name not in _cells(header)]
        if header and missing:
            cells = ",nan" * len(missing)
            header = ",".join([header.rstrip("\n"), *missing]) + "\n"
            self._rewrite([header, *(line.rstrip("\n") + cells + "\n" for line in lines)])

    def truncate_after(self, epoch: int) -> None:
        """Removes rows whose column `epoch` is above `epoch`, and a torn last line.

        The other rows keep their bytes.

        Raises:
          RecordError: The file has no column `epoch`, or is damaged before its last line.
          OSError: The file cannot be written.
        """
        self._columns = None
        header, *lines = self._drop_torn_line() or [""]
        rows = self.read()
        if not all(isinstance(row.get("epoch"), float) for row in rows):
            raise RecordError(
                f"{self._path}: not every row has a number in column 'epoch'; restore the file"
            )
        kept = [line for line, row in zip(lines, rows, strict=True) if row["epoch"] <= epoch]
        if len(kept) < len(lines):
            self._rewrite([header, *kept])

    def read(self) -> list[dict[str, Any]]:
        """Reads the rows, without a torn last line.

        Cells are floats, empty ones NaN; a cell that is not a number is a text.

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
        return [
            {name: _value(cell) for name, cell in zip(header, cells, strict=True)}
            for cells in lines
        ]

    def newest_in_a_row(self, column: str, value: float) -> int:
        """Returns how many rows at the end of the file have this value in a column.

        Raises:
          RecordError: The file is damaged before its last line.
        """
        newest_first = (row.get(column) for row in reversed(self.read()))
        return sum(1 for _ in itertools.takewhile(lambda cell: cell == value, newest_first))

    def _lines(self) -> list[str]:
        """Returns the lines of the file with their ends; a line without an end was torn. A byte
        order mark and other ends of lines, which spreadsheets write, are left out.
        """
        if not self._path.exists():
            return []
        content = files.read_bytes(self._path, "the metrics of a run", _FILE_LIMIT)
        text = content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
        text = text.replace("\r", "\n")
        return [f"{line}\n" for line in text.split("\n")[:-1]]

    def _drop_torn_line(self) -> list[str]:
        """Removes a torn last line from the file, and what a spreadsheet added; returns the other
        lines.
        """
        lines = self._lines()
        if self._path.exists():
            content = self._path.read_bytes()
            added = content.startswith(codecs.BOM_UTF8) or b"\r\n" in content
            if added or not content.endswith(b"\n"):
                self._rewrite(lines)
        return lines

    def _rewrite(self, lines: list[str]) -> None:
        files.write_atomically(self._path, lambda stream: stream.write("".join(lines).encode()))


def _line(cells: Iterable[float | int | str]) -> str:
    """Returns one line of CSV with its end."""
    plain = [cell.item() if isinstance(cell, np.generic) else cell for cell in cells]
    buffer = io.StringIO()
    numbers = [int(cell) if isinstance(cell, bool) else cell for cell in plain]
    csv.writer(buffer, lineterminator="\n").writerow(numbers)
    text = buffer.getvalue()
    if text.count("\n") > 1 or "\r" in text:
        raise ValueError(f"{text!r} has a line break within a cell; metrics are one line per row")
    return text


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\n")]), [])
    except csv.Error:  # a cell of more than 131 kB
        return []


def _value(cell: str) -> float | str:
    try:
        return float(cell or "nan")
    except ValueError:
        return cell


def check_numbers(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Checks that all cells of a file of metrics are numbers.

    Raises:
      RecordError: One is not; the message names its line.
    """
    for number, row in enumerate(rows, start=2):
        for name, value in row.items():
            if isinstance(value, str):
                raise RecordError(
                    f"{path}: line {number} has {value[:50]!r} in column {name!r}, which is no "
                    "number; restore the line"
                )
