"""Draws what agents do: film strips, animations, and paths that are darker as agents learn."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from PIL import Image, ImageDraw

from epg_tf.core import files
from epg_tf.core.types import Array

_LIGHT_TO_DARK = LinearSegmentedColormap.from_list("learning", ["#c6dbef", "#08306b"])
_TARGET = "#D55E00"
_INCHES = 1.6  # height of a frame in a film strip


def film_figure(rows: Sequence[Sequence[Array]], labels: Sequence[str], title: str) -> Figure:
    """Lays out episodes one below the other, their frames from left to right (as EPG, Figures 3 and
    14).

    Args:
      rows: Frames [H, W, 3] uint8 of each episode, all of one size; rows may differ in length.
      labels: One per episode.
      title: Above all.
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
    """Writes an endless GIF.

    Args:
      frames: Each [H, W, 3] uint8.
      labels: What is written into each frame.
      frames_per_second: At most 50; viewers slow down what is faster.
      path: GIF to write.
    """
    pictures = []
    for frame, label in zip(frames, labels, strict=True):
        picture = Image.fromarray(frame)
        ImageDraw.Draw(picture).text(
            (6, 4), label, fill="white", stroke_width=1, stroke_fill="black"
        )
        pictures.append(picture.convert("P", palette=Image.Palette.ADAPTIVE))
    milliseconds = 1e3 / min(frames_per_second, 50.0)
    files.write_atomically(
        path,
        lambda stream: pictures[0].save(
            stream, "GIF", save_all=True, append_images=pictures[1:], duration=milliseconds, loop=0
        ),
    )


def paths_figure(paths: Sequence[Array], targets: Array, title: str) -> Figure:
    """Draws where a body went, one line per episode, the first light, the last dark (as EPG, Figure
    15).

    Args:
      paths: [T_i, 2] positions (m) of each episode.
      targets: [K, 2] positions of its goals (m); K may be 0.
      title: Above the picture.
    """
    figure = Figure((6.0, 6.0))
    axes = figure.subplots()
    for number, places in enumerate(paths):
        share = number / max(len(paths) - 1, 1)
        axes.plot(*places.T, color=_LIGHT_TO_DARK(share), linewidth=1.0, zorder=2 + share)
    axes.plot(*paths[0][0], marker="o", color="#333333", markersize=5, zorder=4)
    axes.plot(
        *targets.T,
        marker="x",
        linestyle="",
        color=_TARGET,
        markersize=9,
        markeredgewidth=2,
        zorder=4,
    )
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("x (m)")
    axes.set_ylabel("y (m)")
    axes.set_title(title, fontsize=11)
    figure.tight_layout()
    return figure
