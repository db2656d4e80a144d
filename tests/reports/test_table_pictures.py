"""Tests epg_tf.reports.table_pictures: tables that are drawn."""

from __future__ import annotations

import itertools

from matplotlib.backends.backend_agg import FigureCanvasAgg

from epg_tf.reports.plots import svg
from epg_tf.reports.table_pictures import interval_picture, table_picture

NAN = float("nan")


def test_no_two_cells_overlap_whether_names_or_numbers_are_longer():
    header = ["changed", "g", "InvertedPendulum-v5@200", "InvertedDoublePendulum-v5@200", "h"]
    lines = [["base", "-10.6 (-11.2, -10.1) [-12.7, -9.1]", "1", "2", "-1392.7 (-1494.3, -1291.1)"]]
    figure = table_picture(header, lines, "T")
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    (drawn,) = figure.axes[0].tables
    cells = [cell.get_text() for cell in drawn.get_celld().values()]
    assert [cell.get_text() for cell in cells] == [*header, *lines[0]]
    for one, other in itertools.combinations(cells, 2):
        boxes = one.get_window_extent(renderer), other.get_window_extent(renderer)
        assert not boxes[0].overlaps(boxes[1]), (one.get_text(), other.get_text())
    for cell in cells:
        box = cell.get_window_extent(renderer)
        assert 0 <= box.x0 and box.x1 <= figure.bbox.width


def test_intervals_reach_from_low_to_high():
    figure = interval_picture({"a": (2.0, 1.0, 5.0), "$b": (NAN, NAN, NAN)}, "T")
    (interval, mean, *_, first) = figure.axes[0].lines
    assert interval.get_xdata().tolist() == [1.0, 5.0] and mean.get_xdata().tolist() == [2.0]
    assert list(first.get_xdata()) == [2.0, 2.0] and b"$b</text>" in svg(figure)
