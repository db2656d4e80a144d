"""Tests epg_tf.reports.table_pictures: tables that are drawn."""

from __future__ import annotations

import itertools

from matplotlib.backends.backend_agg import FigureCanvasAgg

from epg_tf.reports.table_pictures import table_picture


def test_no_two_cells_overlap_whether_names_or_numbers_are_longer():
    header = ["changed", "g", "InvertedPendulum-v5@200", "InvertedDoublePendulum-v5@200", "h"]
    lines = [["base", "-10.6 (-11.2, -10.1) [-12.7, -9.1]", "1", "2", "-1392.7 (-1494.3, -1291.1)"]]
    figure = table_picture(header, lines, "T")
    renderer = FigureCanvasAgg(figure).get_renderer()
    cells = [text for text in figure.texts if text.get_text() != "T"]
    assert len(cells) == 2 * len(header)
    for one, other in itertools.combinations(cells, 2):
        boxes = one.get_window_extent(renderer), other.get_window_extent(renderer)
        assert not boxes[0].overlaps(boxes[1]), (one.get_text(), other.get_text())
    for cell in cells:
        box = cell.get_window_extent(renderer)
        assert 0 <= box.x0 and box.x1 <= figure.bbox.width
