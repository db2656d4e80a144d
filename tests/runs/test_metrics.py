"""Tests epg_tf.runs.metrics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epg_tf.core.errors import RecordError
from epg_tf.runs import metrics

ROW = {"epoch": 0, "fitness_mean": 0.1, "note": 'start, quoted "so"'}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.csv"


def fill(path, epochs):
    file = metrics.MetricsFile(path)
    for epoch in epochs:
        file.append({"epoch": epoch, "fitness": epoch / 3})


def epochs(path):
    return [row["epoch"] for row in metrics.MetricsFile(path).read()]


def test_rows_read_back_exactly(path):
    file = metrics.MetricsFile(path)
    rows = [
        ROW,
        {**ROW, "epoch": 1, "fitness_mean": np.float32(0.1)},
        {**ROW, "epoch": 2, "fitness_mean": -math.inf},
    ]
    for count, row in enumerate(rows, start=2):
        file.append(dict(reversed(row.items())) if count > 2 else row)  # the order does not matter
        assert len(path.read_text().splitlines()) == count  # it is on disk at once
    assert file.read() == [{**row, "fitness_mean": float(row["fitness_mean"])} for row in rows]
    assert path.read_text().startswith("epoch,fitness_mean,note\n0,0.1,")


def test_nan_and_empty_cells_are_nan(path):
    metrics.MetricsFile(path).append(
        {"epoch": 0, "a": math.nan, "b": "", "c": np.float64(np.nan), "d": True}
    )
    (row,) = metrics.MetricsFile(path).read()
    assert all(math.isnan(row[name]) for name in "abc") and row["d"] == 1.0


@pytest.mark.parametrize("same_process", [True, False])
@pytest.mark.parametrize(
    "row", [{"epoch": 1}, {"epoch": 1, "fitness": 0.0, "more": 1}, {"epoch": 1, "fitnes": 0.0}]
)
def test_other_columns_are_refused(path, same_process, row):
    file = metrics.MetricsFile(path)
    file.append({"epoch": 0, "fitness": 0.0})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="fitnes|more"):
        (file if same_process else metrics.MetricsFile(path)).append(row)
    assert path.read_bytes() == before


def test_columns_of_later_versions_are_added(path):
    """The other cells keep their bytes; twice changes nothing."""
    metrics.MetricsFile(path).append({"epoch": 0, "fitness": 0.1})
    file = metrics.MetricsFile(path)
    now = ("epoch", "fitness", "norm")
    with pytest.raises(RecordError, match="not that of this run: norm;"):
        file.check(now)
    file.check(now, newer=("norm",))
    for _ in range(2):
        file.add_columns(("norm",))
        assert path.read_text() == "epoch,fitness,norm\n0,0.1,nan\n"
    file.check(now, newer=("norm",))
    file.append({"epoch": 1, "fitness": 0.2, "norm": 3.0})
    assert path.read_text().endswith("\n1,0.2,3.0\n")


def test_rows_follow_those_with_a_column_of_earlier_versions(path):
    metrics.MetricsFile(path).append({"epoch": 0, "pair_correlation": 0.5, "fitness": 0.1})
    file = metrics.MetricsFile(path)
    file.check(("epoch", "fitness"))
    file.append({"epoch": 1, "fitness": 0.2})
    assert path.read_text() == "epoch,pair_correlation,fitness\n0,0.5,0.1\n1,nan,0.2\n"


def test_line_breaks_are_refused_and_leave_no_trace(path):
    with pytest.raises(ValueError, match="line break"):
        metrics.MetricsFile(path).append({"epoch": 0, "note": "a\nb"})
    assert metrics.MetricsFile(path).read() == []


def test_resumed_file_equals_an_unbroken_one(path, tmp_path):
    fill(path, range(6))
    other = tmp_path / "other.csv"
    fill(other, range(5))
    file = metrics.MetricsFile(other)
    file.truncate_after(2)
    for epoch in range(3, 6):
        file.append({"epoch": epoch, "fitness": epoch / 3})
    assert other.read_bytes() == path.read_bytes()


def test_a_file_torn_anywhere_can_be_read_continued_and_truncated(path):
    fill(path, range(3))
    whole = path.read_bytes()
    for length in range(len(whole)):
        rows = max(0, whole[:length].count(b"\n") - 1)
        path.write_bytes(whole[:length])
        assert epochs(path) == list(range(rows))
        metrics.MetricsFile(path).truncate_after(99)
        assert whole.startswith(path.read_bytes()) and epochs(path) == list(range(rows))
        path.write_bytes(whole[:length])
        fill(path, range(rows, 3))
        assert path.read_bytes() == whole, f"torn after {length} bytes"


def test_nothing_makes_no_file(path):
    metrics.MetricsFile(path).truncate_after(3)
    metrics.MetricsFile(path).add_columns(("norm",))
    assert not path.exists() and metrics.MetricsFile(path).read() == []


def test_damage_before_the_last_line_is_named(path):
    fill(path, range(3))
    path.write_text(path.read_text().replace("1,0.333", "1,7,0.333"))
    with pytest.raises(RecordError, match="line 3 has 3 cells"):
        metrics.MetricsFile(path).read()


def test_truncate_needs_the_column_epoch(path):
    metrics.MetricsFile(path).append({"step": 1})
    with pytest.raises(RecordError, match="'epoch'"):
        metrics.MetricsFile(path).truncate_after(3)


@pytest.mark.parametrize(("cells", "count"), [([], 0), ([8, 2], 0), ([8, 2, 8, 8], 2), ([8, 8], 2)])
def test_the_newest_rows_with_a_value_are_counted(path, cells, count):
    file = metrics.MetricsFile(path)
    for epoch, cell in enumerate(cells):
        file.append({"epoch": epoch, "failed_lives": cell})
    assert file.newest_in_a_row("failed_lives", 8) == count


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
def test_a_file_that_a_spreadsheet_saved_is_read_and_goes_on_as_before(path, mark):
    fill(path, (1, 2, 3))
    plain = path.read_bytes()
    path.write_bytes(mark + plain.replace(b"\n", b"\r\n"))
    file = metrics.MetricsFile(path)
    file.check(("epoch", "fitness"))
    assert file.read() == [{"epoch": epoch, "fitness": epoch / 3} for epoch in (1, 2, 3)]
    file.truncate_after(2)
    file.append({"epoch": 3, "fitness": 1.0})
    assert path.read_bytes() == plain
