"""Tests epg_tf.reports.objective_plots."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.reports import objective_plots

NAN = float("nan")


@pytest.fixture
def drawn(monkeypatch):
    """Collects the figures a test draws."""
    figures = []
    write = objective_plots.write_png
    monkeypatch.setattr(
        objective_plots,
        "write_png",
        lambda figure, path: (figures.append(figure), write(figure, path)),
    )
    return figures


def curve(*means):
    """Returns a learning curve of two agents."""
    return np.arange(len(means)) * 500, np.array([means, means]) + [[1.0], [-1.0]]


def test_head_of_seven_methods_stays_inside_the_picture(tmp_path, drawn):
    labels = [f"off-policy REINFORCE {number}" for number in range(7)]
    objective_plots.learning_curves(
        {label: curve(1.0, 2.0, 3.0) for label in labels},
        labels[:1],
        tmp_path / "a.png",
        "Fresh agents in gymnasium:LunarLanderContinuous-v3@1000",
    )
    (figure,) = drawn
    legend, axes = figure.legends[0].get_window_extent(), figure.axes[0].get_window_extent()
    assert legend.y0 > axes.y1 and legend.x1 <= 900
    assert all(
        text.get_window_extent().x1 <= 900 and text.get_window_extent().y0 > axes.y1
        for text in figure.texts
    )


def test_exploring_curves_are_dashed_and_lonely_points_are_dots(tmp_path, drawn):
    curves = {"TD3": curve(1.0, 2.0, 3.0), "PPO": curve(NAN, 5.0, NAN, 6.0, 7.0)}
    objective_plots.learning_curves(curves, ["PPO"], tmp_path / "a.png", "T")
    lines = drawn[0].axes[0].lines
    assert [line.get_linestyle() for line in lines] == ["-", "--", "None"]
    dots = [line.get_xydata().tolist() for line in lines if line.get_marker() == "o"]
    assert dots == [[[500.0, 5.0]]]
    assert "dashed: with exploration" in drawn[0].texts[-1].get_text()
    objective_plots.learning_curves({"TD3": curve(1.0)}, [], tmp_path / "b.png", "T")
    assert drawn[1].axes[0].lines[1].get_xydata().tolist() == [[0.0, 1.0]]  # an evaluation alone
    assert "dashed" not in drawn[1].texts[-1].get_text()
