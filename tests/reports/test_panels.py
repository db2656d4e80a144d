"""Tests epg_tf.reports.panels, and the columns and studies that it draws."""

from __future__ import annotations

import numpy as np

from epg_tf.baselines.method import LossName
from epg_tf.evaluation.results import Results
from epg_tf.reports.objective_plots import column_panels, varying_columns
from epg_tf.reports.panels import objective_panels
from epg_tf.reports.study_plots import EvaluatedRun, study_csv, study_figure
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


def a_run(estimator, seed, returns):
    rows = [
        {
            "epoch": 2.0 * number,
            "env_steps": 100.0 * number + seed,
            "mean": value,
            "low": value - 1,
            "high": value + 1,
        }
        for number, value in enumerate(returns)
    ]
    return EvaluatedRun(estimator, seed, rows)


def test_a_study_shows_every_run_their_means_and_ppo():
    runs = [a_run("paper", 0, [-9, -8]), a_run("paper", 10, [-7, -4, -3]), a_run("config", 0, [-9])]
    figure = study_figure(runs, -5.0, "A study")
    (axes,) = figure.axes
    one, other, paper, config, ppo = axes.lines
    np.testing.assert_array_equal(one.get_ydata(), [-9, -8, NAN])
    assert other.get_ydata().tolist() == [-7, -4, -3] and config.get_ydata().tolist() == [-9]
    assert paper.get_xdata().tolist() == [5, 105, 210]
    np.testing.assert_array_equal(paper.get_ydata(), [-8, -6, NAN])
    assert paper.get_color() == one.get_color() == other.get_color() != config.get_color()
    assert ppo.get_ydata() == [-5, -5] and axes.get_xlabel() == "environment steps of meta-training"
    assert [text.get_text() for text in figure.legends[0].texts] == ["paper", "config"]


def test_a_study_without_ppos_number_draws_none():
    assert len(study_figure([a_run("paper", 0, [-9, -8])], NAN, "A study").axes[0].lines) == 1


def test_the_csv_of_a_study(tmp_path):
    study_csv([a_run("paper", 0, [-9.5]), a_run("config", 1, [NAN, -0.1])], tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == (
        "estimator,seed,epoch,env_steps,mean,low,high\n"
        "paper,0,0,0,-9.5,-10.5,-8.5\nconfig,1,0,1,nan,nan,nan\nconfig,1,2,101,-0.1,-1.1,0.9\n"
    )
