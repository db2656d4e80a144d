"""Draws the gallery of docs/claims.md from the pretrained losses of EPG: how agents learn, and what
one of them does.

    make gallery                                   # all pictures, about an hour
    .venv/bin/python docs/make_gallery.py fetch_night cheetahs.gif    # some of them
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image, ImageDraw

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

import epg_tf  # noqa: E402
from epg_tf.core.random_streams import life_generator  # noqa: E402
from epg_tf.core.types import LifeKey  # noqa: E402
from epg_tf.reports import life_pictures, pictures, plots  # noqa: E402
from epg_tf.tasks.registry import make_family  # noqa: E402

PRETRAINED = DOCS.parent / "epg_tf" / "pretrained"
LOSSES = sorted(
    path.name for path in PRETRAINED.iterdir()
    if (path / "loss.json").is_file() and not path.name.endswith("_objective")
)  # fmt: skip
AGENTS = 16
CURVES = {"epg": ("evolved loss", 0), "ppo": ("PPO", 2), "untrained": ("never learns", 3)}
"""Method -> label and number of the colour, as in the README's picture."""
CHEETAHS = "cheetahs.gif"
_SEED = 0
_FILM = (3, 5)  # episodes, frames of each
_PIXELS = (120, 160)  # of a frame: height, width
_SHADES = 32  # of 256, apart, in the animation: fewer colours, a smaller file
_ANIMATION = (3, 40)  # episodes, frames of each


def picture(name: str) -> Figure:
    """Returns the curves of 16 agents per method beside the film of the first one."""
    results, rows, labels = _loss(name)
    figure = Figure(figsize=(11, 3.6), dpi=80, facecolor="white")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.75))
    axes = left.subplots()
    for method, (label, number) in CURVES.items():
        env_steps, returns = results.select(method=method).pivot()
        plots.draw_statistics(axes, env_steps, returns, plots.COLOURS[number])
        axes.plot([], [], color=plots.COLOURS[number], label=label)
    plots.dress(axes, "env steps of learning", "return")
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(-0.1, 1), ncols=3,
                fontsize=9, handlelength=1.2, columnspacing=1.0)  # fmt: skip
    left.subplots_adjust(left=0.2, right=0.97, bottom=0.17, top=0.89)
    grid = right.subplots(*_FILM, squeeze=False)
    right.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.93, hspace=0.2, wspace=0.03)
    for line, frames, label in zip(grid, rows, labels, strict=True):
        line[0].set_title(label, fontsize=9, loc="left", pad=3)
        for axis, frame in zip(line, frames, strict=True):
            axis.imshow(frame)
            axis.set_axis_off()
    return figure


def _loss(name: str) -> tuple[epg_tf.Results, list[Any], list[str]]:
    learned = epg_tf.load_loss(name)
    experiment = dataclasses.replace(  # one thread, as for the film
        learned.experiment, compute=dataclasses.replace(learned.experiment.compute, threads=1)
    )
    methods = [*CURVES]
    results = epg_tf.evaluate(experiment, learned.phi, _SEED, AGENTS, methods=methods)
    _, rows, labels = _film(learned, 0, _FILM)
    return results, rows, labels


def _film(
    learned: epg_tf.LearnedLoss, life: int, counts: tuple[int, int]
) -> tuple[life_pictures.LifeRecorder, list[Any], list[str]]:
    """Returns an agent's life, frames of some of its episodes, and what they are."""
    family, key = make_family(learned.experiment.in_physics("exact").task), _key(life)
    camera = life_pictures.make_camera(family, key, *_PIXELS)
    recorder, _ = life_pictures.recorded_life(learned.experiment, learned.phi, key)
    rows, labels = life_pictures.film_frames(recorder, camera, counts)
    camera.close()
    return recorder, rows, labels


def _key(life: int) -> LifeKey:
    return LifeKey(_SEED, "test", 0, life)


def cheetahs() -> None:
    """Writes an animation of two agents of one loss; the reward wants one to run forward, one
    backward.
    """
    learned = epg_tf.load_loss("directional_half_cheetah")
    family = make_family(learned.experiment.task)
    sides: list[list[Any]] = []
    labels: list[str] = []
    for way, sign in (("forward", 1.0), ("backward", -1.0)):
        life = next(
            life
            for life in range(AGENTS)
            if sign * family.sample_task(life_generator(_key(life), "task"))["direction"] > 0
        )
        recorder, rows, labels = _film(learned, life, _ANIMATION)
        episodes = recorder.chosen(_ANIMATION[0])
        sides.append(
            [
                _named(frame, f"{way}: {episode.poses[step].qpos[0]:+.1f} m")
                for episode, row in zip(episodes, rows, strict=True)
                for frame, step in zip(row, _steps(episode, len(row)), strict=True)
            ]
        )
    gap = np.full((_PIXELS[0], 4, 3), 255)
    frames = [
        (np.concatenate([left, gap, right], axis=1) // _SHADES * _SHADES).astype(np.uint8)
        for left, right in zip(*sides, strict=True)
    ]
    pictures.animation(frames, np.repeat(labels, _ANIMATION[1]).tolist(), 16.0, DOCS / CHEETAHS)


def _steps(episode: life_pictures.Episode, count: int) -> list[int]:
    """Returns the env steps of an episode that `film_frames` draws."""
    return np.linspace(0, len(episode.poses) - 1, count).round().astype(int).tolist()


def _named(frame: Any, text: str) -> Any:
    """Returns a frame with a text in its second line."""
    image = Image.fromarray(frame)
    ImageDraw.Draw(image).text((6, 18), text, fill="white", stroke_width=1, stroke_fill="black")
    return np.asarray(image)


def main(names: Sequence[str]) -> None:
    """Draws pictures by name, all where there are no names."""
    for name in names or (*LOSSES, CHEETAHS):
        print(name, flush=True)
        if name == CHEETAHS:
            cheetahs()
        else:
            plots.write_png(picture(name), DOCS / f"gallery_{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
