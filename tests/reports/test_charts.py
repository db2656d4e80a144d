"""Tests what charts of a page draw: the numbers they are given, and one view at a time."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.baselines.method import LossName
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.summary import summarize
from epg_tf.reports import charts, result_charts, run_charts
from epg_tf.reports.plots import EvaluatedRun
from epg_tf.reports.tables import label
from tests.evaluation.tables import NAN, table


def shown(figure, button: int) -> list[str]:
    """Returns the names of the traces that an entry of the menu shows."""
    visible = figure.layout.updatemenus[0].buttons[button].args[0]["visible"]
    return [trace.name for trace, on in zip(figure.data, visible, strict=True) if on]


def test_the_menu_shows_one_view_at_a_time():
    rows = [
        {"epoch": 1.0, "fitness_mean": -2.0, "fitness_q25": -3.0, "fitness_q75": NAN, "alpha": 1.0},
        {"epoch": 2.0, "fitness_mean": -1.0, "fitness_q25": -3.0, "fitness_q75": 0.0, "alpha": 0.5},
        {"epoch": 3.0, "fitness_mean": NAN, "fitness_q25": NAN, "fitness_q75": NAN, "alpha": 0.0},
    ]
    figure = run_charts.progress(rows)
    assert [button.label for button in figure.layout.updatemenus[0].buttons] == ["return", "alpha"]
    assert [trace.visible for trace in figure.data] == [True, True, False]
    assert shown(figure, 1) == ["alpha"]
    line = figure.data[1]
    assert (list(line.x), list(line.y)) == ([1.0, 2.0], [-2.0, -1.0])  # NaN is not drawn
    assert list(figure.data[0].x) == [2.0, 2.0]  # nor is half of a band


def test_intervals_reach_from_low_to_high():
    (one, unknown) = charts.intervals({"a": (2.0, 1.0, 5.0), "b": (NAN, NAN, NAN)})
    assert (one.x[0], one.error_x.array[0], one.error_x.arrayminus[0]) == (2.0, 3.0, 1.0)
    assert unknown.x[0] is None


@pytest.fixture
def results() -> Results:
    curve = np.arange(12.0).reshape(3, 4)
    return Results.join(
        [
            table("epg", [3.0, 5.0, 4.0], curve, loss=LossName("best", 0)),
            table("ppo", [1.0, NAN, 2.0], curve - 1.0),
        ]
    )


def test_a_test_s_charts_hold_its_numbers(results):
    groups, summaries = results.groups(), summarize(results)
    figure = result_charts.comparison(summaries)
    finals = [trace for trace in figure.data if trace.visible]
    for trace, (name, row) in zip(finals, summaries.items(), strict=True):
        assert (trace.name, trace.x[0]) == (label(name), row.final_return_mean)
        assert trace.x[0] + trace.error_x.array[0] == pytest.approx(row.ci95[1])
    boxes = result_charts.distribution(groups, summaries).data[:2]
    assert [sorted(box.x) for box in boxes] == [[3.0, 4.0, 5.0], [1.0, 2.0]]
    curves = result_charts.learning_curves(groups)
    np.testing.assert_allclose(curves.data[1].y, results.select("epg").pivot()[1].mean(axis=0))
    masses = np.array([0.5, 1.5, 1.0])
    scatter = result_charts.by_parameter(groups, {"mass (kg)": masses})
    assert list(scatter.data[0].x) == [0.5, 1.5, 1.0] and list(scatter.data[0].y) == [3.0, 5.0, 4.0]


def test_runs_side_by_side():
    runs = {
        "a": [{"env_steps": 10.0, "alpha": 1.0}, {"env_steps": 20.0, "alpha": 0.5}],
        "b": [{"env_steps": 5.0, "alpha": NAN}],
    }
    (trace,) = run_charts.side_by_side(runs, {"alpha": "alpha", "fitness": "fitness_mean"}).data
    assert (trace.name, list(trace.x), list(trace.y)) == ("a", [10.0, 20.0], [1.0, 0.5])
    with pytest.raises(ValueError, match="no run has a number in fitness_mean"):
        run_charts.side_by_side(runs, {"fitness": "fitness_mean"})


def test_a_study_has_a_line_for_each_run_and_ppo():
    rows = [{"env_steps": step, "mean": 1.0, "low": 0.0, "high": 2.0} for step in (0.0, 9.0)]
    runs = [EvaluatedRun("paper", 0, rows), EvaluatedRun("config", 1, [])]
    figure = run_charts.study(runs, {"mean": -1.0})
    assert [trace.name for trace in figure.data if trace.name] == [
        "paper, seed 0",
        "config, seed 1",
        "PPO",
    ]
    assert list(figure.data[-1].x) == [0.0, 9.0] and list(figure.data[-1].y) == [-1.0, -1.0]
