"""Tests epg_tf.reports.panels, and the columns that it draws."""

from __future__ import annotations

from epg_tf.baselines.method import LossName
from epg_tf.evaluation.results import Results
from epg_tf.reports.objective_plots import column_panels, varying_columns
from epg_tf.reports.panels import objective_panels
from tests.evaluation.tables import NAN, table


def test_objectives_have_a_panel_each():
    parts = [
        table("objective", [0.0], [[value, value + 1]], explores=False, loss=LossName(name))
        for name, value in (("round_0", 1.0), ("round_1", 5.0))
    ]
    titles = {"round_0": "after 0", "round_1": "after 10"}
    panels = objective_panels(Results.join(parts), titles, "T").axes
    assert [axes.get_title(loc="left") for axes in panels] == ["after 0", "after 10"]
    assert [axes.lines[0].get_ydata().tolist() for axes in panels] == [[1.0, 2.0], [5.0, 6.0]]


def test_columns_are_drawn_through_their_known_values():
    rows = {
        "a": [{"env_steps": 10.0, "alpha": 1.0}, {"env_steps": 20.0, "alpha": NAN}],
        "b": [{"env_steps": 5.0, "alpha": 0.25}, {"env_steps": 15.0, "alpha": 0.5}],
    }
    figure = column_panels(rows, {"share": "alpha"}, "T")
    (axes,) = figure.axes
    assert [line.get_xydata().tolist() for line in axes.lines] == [
        [[10.0, 1.0]],
        [[5.0, 0.25], [15.0, 0.5]],
    ]
    assert axes.lines[0].get_marker() == "o"  # a line of one point would be invisible
    assert [text.get_text() for text in figure.legends[0].texts] == ["a", "b"]


def test_columns_that_vary():
    rows = [{"a": 1.0, "b": 1.0, "c": 2.0, "d": NAN}, {"a": 2.0, "b": 1.0, "c": 3.0, "d": 1.0}]
    assert varying_columns(rows, without=["c"]) == {"a": "a"} and varying_columns([]) == {}
