"""Tests epg_tf.reports.plots."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from epg_tf.reports import plots

NAN = float("nan")


pytestmark = pytest.mark.filterwarnings("error")


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


def test_evolution_is_drawn_with_every_column():
    left, right = plots.evolution_figure(rows()).axes
    fitness, validation = left.lines
    np.testing.assert_allclose(fitness.get_ydata(), np.arange(10) + 0.5)
    assert validation.get_xdata().tolist() == [0, 5] and validation.get_ydata().tolist() == [0, 5]
    np.testing.assert_allclose(right.lines[0].get_ydata(), 1 - np.arange(10) / 10)
    assert left.get_xlabel() == "epoch" and "alpha" in right.get_ylabel()


def test_alpha_has_no_axis_where_it_is_always_0():
    assert len(plots.evolution_figure([row | {"alpha": 0.0} for row in rows()]).axes) == 1


@pytest.mark.parametrize("missing", ["alpha", "validation_return_mean"])
def test_evolution_without_a_column(missing):
    table = [{k: v for k, v in row.items() if k != missing} for row in rows()]
    labels = [text.get_text() for text in plots.evolution_figure(table).legends[0].texts]
    assert len(labels) == 3 and not any(missing.split("_")[0] in label for label in labels)


@pytest.mark.parametrize(
    "table", [[], rows(1), [{**rows(1)[0], "fitness_mean": NAN, "fitness_q25": ""}]]
)
def test_the_curve_of_almost_nothing(tmp_path, table):
    plots.write_png(plots.evolution_figure(table), tmp_path / "a.png")
    assert_png(tmp_path / "a.png", 900, 540)


def test_an_svg_has_the_same_bytes_every_time_and_letters_as_text():
    first, again = (plots.svg(plots.evolution_figure(rows())) for _ in range(2))
    assert first == again and b"mean fitness</text>" in first and b"dc:date" not in first


def test_a_kill_before_the_rename_leaves_the_old_picture(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(b"old")
    monkeypatch.setattr(os, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plots.write_png(plots.evolution_figure(rows()), tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"] and (
        tmp_path / "a.png"
    ).read_bytes() == b"old"


def test_pyplot_is_not_involved():
    check = "import sys, epg_tf.reports.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
