"""Tests epg_tf.reports.pictures by what is in the files."""

import numpy as np
import pytest
from PIL import Image

from epg_tf.reports import pictures
from epg_tf.reports.plots import svg, write_png


def flat(*colour, height=30, width=40):
    return np.full((height, width, 3), colour, np.uint8)


def colours_in(path):
    return {tuple(colour) for colour in np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)}


def test_a_strip_shows_every_frame(tmp_path):
    rows = [[flat(255, 0, 0), flat(0, 255, 0)], [flat(0, 0, 255)]]
    write_png(pictures.film_figure(rows, ["first", "second"], "title"), tmp_path / "a.png")
    assert {(255, 0, 0), (0, 255, 0), (0, 0, 255)} <= colours_in(tmp_path / "a.png")
    picture = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).astype(int)
    red, blue = (
        np.argwhere((picture == colour).all(axis=2)).mean(axis=0)
        for colour in ((255, 0, 0), (0, 0, 255))
    )
    assert (
        blue[0] > red[0] + 50 and abs(blue[1] - red[1]) < 10
    )  # the second episode is below the first


@pytest.mark.parametrize(("rate", "milliseconds"), [(10.0, 100), (1000.0, 20)])
def test_an_animation_holds_frames_in_order_with_their_labels(tmp_path, rate, milliseconds):
    frames = [flat(200, 10 * number, 0, height=60, width=200) for number in range(5)]
    pictures.animation(frames, ["", "", "five hundred", "", ""], rate, tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as film:
        assert (
            film.n_frames == 5 and film.info["duration"] == milliseconds and film.info["loop"] == 0
        )
        for number in range(5):
            film.seek(number)
            shown = np.asarray(film.convert("RGB")).astype(int)
            assert np.abs(shown[-1, -1] - [200, 10 * number, 0]).max() < 8
            assert ((shown > 240).all(axis=2).sum() > 10) == (number == 2)  # white letters


def test_a_film_in_h264_has_all_frames_in_their_size(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    frames = [flat(250 * (number % 2), 0, 0, height=48, width=64) for number in range(6)]
    pictures.animation(frames, [""] * 6, 3.0, tmp_path / "a.mp4")
    read = ffmpeg.read_frames(str(tmp_path / "a.mp4"))
    about, found = next(read), [np.frombuffer(frame, np.uint8).reshape(48, 64, 3) for frame in read]
    assert about["size"] == (64, 48) and about["codec"] == "h264" and about["duration"] == 2.0
    assert [frame[..., 0].mean() > 125 for frame in found] == [False, True] * 3


def test_paths_go_from_light_to_dark(tmp_path):
    ways = [
        np.column_stack([np.linspace(0, 10, 20), np.full(20, height)])
        for height in (0.0, 5.0, 10.0)
    ]
    figure = pictures.paths_figure(ways, [np.array([10.0, 10.0])] * 3, "title")
    write_png(figure, tmp_path / "a.png")
    found = colours_in(tmp_path / "a.png")
    assert (198, 219, 239) in found and (8, 48, 107) in found  # the ends of the scale
    picture = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).astype(int)
    light, dark = (
        np.argwhere((picture == colour).all(axis=2))[:, 0].mean()
        for colour in ((198, 219, 239), (8, 48, 107))
    )
    assert light > dark + 100  # the first way is the lower one
    assert any(
        red > 190 and 70 < green < 120 and blue < 40 for red, green, blue in found
    )  # the goal


def test_one_way_without_a_goal_can_be_drawn():
    figure = pictures.paths_figure([np.zeros((1, 2))], [None], "title")
    assert svg(figure).startswith(b"<?xml")


def test_each_goal_has_a_panel_with_its_own_episodes():
    """A light dot of each start; six panels are the most."""
    ways = [np.array([[0.0, 0.0], [float(number), 1.0]]) for number in range(4)]
    goals = [np.array([float(number % 2), 0.0]) for number in range(4)]
    panels = pictures.paths_figure(ways, goals, "title").axes
    ends = [[line.get_xdata()[-1] for line in axes.lines[:-1:2]] for axes in panels]
    assert ends == [[0.0, 2.0], [1.0, 3.0]]
    many = pictures.paths_figure(ways * 5, [np.full(2, float(n)) for n in range(20)], "title")
    assert len(many.axes) == 6
