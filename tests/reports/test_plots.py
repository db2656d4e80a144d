"""Tests epg_tf.reports.plots."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from matplotlib.image import imread

from epg_tf.reports import plots

NAN = float("nan")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def drawn(monkeypatch):
    """Collects the figures a test draws."""
    figures = []
    write = plots.write_png

    def keep(figure, path):
        figures.append(figure)
        write(figure, path)

    monkeypatch.setattr(plots, "write_png", keep)
    return figures


def rows(count=10):
    return [
        {
            "epoch": float(epoch),
            "fitness_mean": epoch + 0.5,
            "fitness_q25": epoch - 1.0,
            "fitness_q75": epoch + 2.0,
            "validation_return_mean": float(epoch) if epoch % 5 == 0 else NAN,
            "alpha": 1 - epoch / count,
        }
        for epoch in range(count)
    ]


def assert_png(path, width, height):
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    image = imread(path)
    assert image.shape[:2] == (height, width)
    assert image[..., :3].min() < 0.5 < image[..., :3].max() and np.unique(image[..., 0]).size > 20


def test_statistics_by_hand():
    mean, low, high = plots.statistics(
        np.array([[1, NAN, NAN], [3, 7, NAN], [5, np.inf, NAN], [7, 9, NAN]])
    )
    np.testing.assert_allclose(mean, [4, 8, NAN])
    np.testing.assert_allclose(low, [2.5, 7.5, NAN])
    np.testing.assert_allclose(high, [5.5, 8.5, NAN])


def test_learning_curve_draws_every_column(tmp_path, drawn):
    plots.learning_curve(rows(), tmp_path / "a.png")
    assert_png(tmp_path / "a.png", 900, 540)
    left, right = drawn[0].axes
    fitness, validation = left.lines
    np.testing.assert_allclose(fitness.get_ydata(), np.arange(10) + 0.5)
    assert validation.get_xdata().tolist() == [0, 5] and validation.get_ydata().tolist() == [0, 5]
    np.testing.assert_allclose(right.lines[0].get_ydata(), 1 - np.arange(10) / 10)
    assert left.get_xlabel() == "epoch" and "alpha" in right.get_ylabel()


@pytest.mark.parametrize("missing", ["alpha", "validation_return_mean"])
def test_learning_curve_without_a_column(tmp_path, drawn, missing):
    plots.learning_curve(
        [{k: v for k, v in row.items() if k != missing} for row in rows()], tmp_path / "a.png"
    )
    labels = [text.get_text() for text in drawn[0].legends[0].texts]
    assert len(labels) == 3 and not any(missing.split("_")[0] in label for label in labels)


@pytest.mark.parametrize(
    "table", [[], rows(1), [{**rows(1)[0], "fitness_mean": NAN, "fitness_q25": ""}]]
)
def test_learning_curve_of_almost_nothing(tmp_path, table):
    plots.learning_curve(table, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_kill_before_the_rename_leaves_the_old_picture(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(b"old")
    monkeypatch.setattr(os, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plots.learning_curve(rows(), tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"] and (
        tmp_path / "a.png"
    ).read_bytes() == b"old"


def test_pyplot_is_not_involved():
    check = "import sys, epg_tf.reports.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def a_run(estimator, seed, returns):
    return plots.EvaluatedRun(
        estimator,
        seed,
        [
            {
                "epoch": 2.0 * number,
                "env_steps": 100.0 * number + seed,
                "mean": value,
                "low": value - 1,
                "high": value + 1,
            }
            for number, value in enumerate(returns)
        ],
    )


def test_a_study_shows_every_run_their_means_and_ppo(tmp_path, drawn):
    runs = [
        a_run("paper", 0, [-9, -8]),
        a_run("paper", 10, [-7, -4]),
        a_run("config", 0, [-9, NAN]),
    ]
    plots.study_curves(runs, (-5.0, -6.0, -4.5), tmp_path / "a.png", "A study")
    assert_png(tmp_path / "a.png", 900, 540)
    (axes,) = drawn[0].axes
    one, other, paper, alone, config, ppo = axes.lines
    assert (one.get_ydata().tolist(), other.get_xdata().tolist()) == ([-9, -8], [10, 110])
    assert (paper.get_xdata().tolist(), paper.get_ydata().tolist()) == ([5, 105], [-8, -6])
    assert (
        paper.get_linewidth() > 2 * one.get_linewidth() and paper.get_color() == other.get_color()
    )
    assert alone.get_color() == config.get_color() != paper.get_color()
    assert ppo.get_ydata() == [-5, -5] and axes.get_xlabel() == "environment steps of meta-training"
    (band,) = axes.patches
    low, high = band.get_extents().get_points()[:, 1]
    np.testing.assert_allclose(
        axes.transData.inverted().transform([(0, low), (0, high)])[:, 1], [-6, -4.5]
    )
    assert [text.get_text() for text in drawn[0].legends[0].texts] == [
        "paper",
        "config",
        "PPO",
    ]


def test_a_study_of_seven_leaves_room_for_its_head(tmp_path, drawn):
    runs = [a_run(f"some_estimator_{number}", 0, [-9, -8]) for number in range(7)]
    plots.study_curves(runs, (-5.0, -6.0, -4.5), tmp_path / "a.png", "A study")
    legend, axes = drawn[0].legends[0].get_window_extent(), drawn[0].axes[0].get_window_extent()
    assert legend.y0 > drawn[0].texts[1].get_window_extent().y1 > axes.y1 and legend.x1 <= 900


def test_a_study_without_ppos_numbers_draws_none(tmp_path, drawn):
    plots.study_curves(
        [a_run("paper", 0, [-9, -8])], (NAN, NAN, NAN), tmp_path / "a.png", "A study"
    )
    assert len(drawn[0].axes[0].lines) == 2 and not drawn[0].axes[0].patches


def test_the_csv_of_a_study(tmp_path):
    plots.study_csv(
        [a_run("paper", 0, [-9.5]), a_run("config", 1, [NAN, -0.1])], tmp_path / "a.csv"
    )
    assert (tmp_path / "a.csv").read_text() == (
        "estimator,seed,epoch,env_steps,mean,low,high\npaper,0,0,0,-9.5,-10.5,-8.5\nconfig,1,0,1,nan,nan,nan\n"
        "config,1,2,101,-0.1,-1.1,0.9\n"
    )
