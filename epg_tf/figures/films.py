"""Analyses that watch one life with a loss: frames of its episodes, or its paths."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from epg_tf.artifacts.artifact import load_loss
from epg_tf.core.errors import RenderError
from epg_tf.core.types import Array, LifeKey
from epg_tf.figures.declaration import Match, Result, Row
from epg_tf.reports import life_pictures, pictures
from epg_tf.reports.life_pictures import LifeRecorder
from epg_tf.tasks.registry import make_family

_KEY = LifeKey(0, "test", 0, 0)
_PIXELS = (120, 160)  # of a frame: height, width
_DPI = 72
_COUNTS = (3, 6)  # episodes, frames of each


def film(found: Match) -> Result:
    """Draws frames of the first, the middle and the last episode of a life (EPG, Figures 3, 4 and
    14).

    Raises:
      RenderError: There is nothing to draw with.
    """
    learned = load_loss(found.runs[0][1])
    family = make_family(learned.experiment.in_physics("exact").task)
    camera = life_pictures.make_camera(family, _KEY, *_PIXELS)
    recorder, final = life_pictures.recorded_life(learned.experiment, learned.phi, _KEY)
    rows, labels = life_pictures.film_frames(recorder, camera, _COUNTS)
    camera.close()
    return Result(
        _episodes(recorder),
        _numbers(recorder, final),
        functools.partial(_small_film, rows, labels),
    )


def _small_film(rows: Sequence[Sequence[Array]], labels: Sequence[str], title: str) -> Figure:
    """Returns a film strip whose file is small enough for a page."""
    figure = pictures.film_figure(rows, labels, title)
    figure.set_dpi(_DPI)
    return figure


def paths(found: Match) -> Result:
    """Draws where a body went in each episode of a life, from light to dark (EPG, Figure 15).

    Raises:
      RenderError: The body has no way over the ground.
    """
    learned = load_loss(found.runs[0][1])
    recorder, final = life_pictures.recorded_life(learned.experiment, learned.phi, _KEY)
    if not all(episode.places for episode in recorder.episodes()):
        raise RenderError(f"{learned.experiment.task.family} has no way over the ground")
    ways, goals = life_pictures.ground_paths_of(recorder)
    rows: list[Row] = [
        {"episode": number, "env_step": step, "x": float(place[0]), "y": float(place[1])}
        for number, way in enumerate(ways)
        for step, place in enumerate(np.asarray(way))
    ]
    return Result(
        rows,
        _numbers(recorder, final),
        functools.partial(pictures.paths_figure, ways, goals),
    )


def _episodes(recorder: LifeRecorder) -> list[Row]:
    return [
        {"episode": number, "start": episode.start, "env_steps": len(episode.poses)}
        for number, episode in enumerate(recorder.episodes())
    ]


def _numbers(recorder: LifeRecorder, final: float) -> list[str]:
    return [
        f"one agent in one unseen task: {len(recorder.episodes())} episodes, "
        f"{recorder.learning_steps} env steps of learning, return of the final policy {final:.2f}"
    ]
