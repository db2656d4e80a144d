"""Draws what agents do: film strips, animations, and paths that are darker as agents learn."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image, ImageDraw

from epg_tf.core import files
from epg_tf.core.types import Array

_LIGHT_TO_DARK = LinearSegmentedColormap.from_list("learning", ["#c6dbef", "#08306b"])
_START = "#333333"
_GOAL: dict[str, Any] = {
    "marker": "x", "linestyle": "", "color": "#D55E00", "markersize": 9, "markeredgewidth": 2
}  # fmt: skip
_PANELS = 6  # of paths at most, one for each goal
_PATHS = 6.0  # inches: width of their picture
_INCHES = 1.6  # height of a frame in a film strip


def film_figure(rows: Sequence[Sequence[Array]], labels: Sequence[str], title: str) -> Figure:
    """Lays out episodes one below the other, their frames from left to right (as EPG, Figures 3 and
    14).

    Args:
      rows: Frames [H, W, 3] uint8 of each episode, all of one size; rows may differ in length.
    """
    columns = max(map(len, rows))
    height, width = rows[0][0].shape[:2]
    figure = Figure((columns * _INCHES * width / height + 0.4, len(rows) * (_INCHES + 0.3) + 0.5))
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes, frames, label in zip(grid, rows, labels, strict=True):
        axes[0].set_title(label, fontsize=9, loc="left")
        for number, axis in enumerate(axes):
            axis.set_axis_off()
            if number < len(frames):
                axis.imshow(frames[number])
    figure.suptitle(title, fontsize=11)
    figure.tight_layout(pad=0.4)
    return figure


def animation(
    frames: Sequence[Array],
    labels: Sequence[str],
    frames_per_second: float,
    path: files.PathLike,
) -> None:
    """Writes an endless GIF, or, where the path ends in .mp4, a film in H.264.

    Args:
      frames: Each [H, W, 3] uint8; for a film with even H and W.
      frames_per_second: At most 50; viewers of GIFs slow down what is faster.
    """
    drawn = []
    for frame, label in zip(frames, labels, strict=True):
        drawn.append(Image.fromarray(frame))
        ImageDraw.Draw(drawn[-1]).text(
            (6, 4), label, fill="white", stroke_width=1, stroke_fill="black"
        )
    if Path(path).suffix == ".mp4":
        film = _h264(drawn, frames_per_second)
        files.write_atomically(path, lambda stream: stream.write(film))
        return
    pictures = [picture.convert("P", palette=Image.Palette.ADAPTIVE) for picture in drawn]
    milliseconds = 1e3 / min(frames_per_second, 50.0)
    files.write_atomically(
        path,
        lambda stream: pictures[0].save(
            stream, "GIF", save_all=True, append_images=pictures[1:], duration=milliseconds, loop=0
        ),
    )


def _h264(pictures: Sequence[Image.Image], frames_per_second: float) -> bytes:
    import imageio_ffmpeg  # here: an extra, which holds a program of tens of megabytes

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        film = imageio_ffmpeg.write_frames(
            str(path), pictures[0].size, fps=frames_per_second, macro_block_size=2
        )
        film.send(None)
        for picture in pictures:
            film.send(picture.tobytes())
        film.close()
        return path.read_bytes()


def paths_figure(paths: Sequence[Array], goals: Sequence[Array | None], title: str) -> Figure:
    """Draws where a body went, one line per episode, the first light, the last dark (as EPG, Figure
    15); each goal has a panel of its own, with at most six of them, evenly over the life.

    Args:
      paths: [T_i, 2] positions (m) of each episode.
      goals: [2] position (m) of the goal of each episode, or None.
    """
    keys = [None if goal is None else (float(goal[0]), float(goal[1])) for goal in goals]
    distinct = list(dict.fromkeys(keys))
    numbers = np.linspace(0, len(distinct) - 1, min(len(distinct), _PANELS)).round().astype(int)
    shown = [distinct[number] for number in numbers]
    columns = math.ceil(math.sqrt(len(shown)))
    lines = math.ceil(len(shown) / columns)
    size = _PATHS / columns
    places_and_goals = np.concatenate([*paths, *(goal[None] for goal in goals if goal is not None)])
    figure = Figure((_PATHS, lines * size + (0.0 if lines == columns else 0.6)))
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    for axes, goal in zip(grid, shown, strict=False):
        for number, (places, key) in enumerate(zip(paths, keys, strict=True)):
            if key == goal:
                share = number / max(len(paths) - 1, 1)
                colour = _LIGHT_TO_DARK(share)
                axes.plot(*places.T, color=colour, linewidth=1.0, zorder=2 + share)
                axes.plot(*places[0], marker="o", color=_START, markersize=4, zorder=4)
        if goal is not None:
            axes.plot(*goal, **_GOAL, zorder=4)
        axes.update_datalim(places_and_goals)
        axes.set_aspect("equal", adjustable="datalim")
    figure.suptitle(title, fontsize=11)
    figure.supxlabel("x (m)", fontsize=10)
    figure.supylabel("y (m)", fontsize=10)
    handles = [
        Line2D([], [], color=_LIGHT_TO_DARK(0.0), label="first episode"),
        Line2D([], [], color=_LIGHT_TO_DARK(1.0), label="last episode"),
        Line2D([], [], marker="o", linestyle="", color=_START, markersize=4, label="start"),
    ]
    if shown != [None]:
        handles.append(Line2D([], [], **_GOAL, label="goal"))
    figure.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.96), ncols=4,
                  frameon=False, fontsize=9)  # fmt: skip
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.94))
    return figure
