"""Records the life of one agent and draws it: as a film strip, an animation, or paths."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from epg_tf.core.random_streams import life_generator
from epg_tf.core.threads import configure_tensorflow
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings, final_inner_settings
from epg_tf.epg.memory_requirements import refuse_lives_that_cannot_fit
from epg_tf.epg.settings import ComputeConfig, Experiment
from epg_tf.reports import pictures
from epg_tf.reports.plots import write_png
from epg_tf.tasks.base import Simulation, StepResult, TaskFamily
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.gymnasium_drawing import ReplayCamera
from epg_tf.tasks.gymnasium_family import GymnasiumFamily
from epg_tf.tasks.gymnasium_simulation import GymnasiumSimulation
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.rendering import Camera, Pose

_FRAMES = {".png": 8, ".gif": 50, ".mp4": 50}  # of an episode
_FRAMES_PER_SECOND = 25
_SMALL = (120, 160)  # pixels of a frame on a page: height, width


@dataclasses.dataclass
class Episode:
    """What was seen of one episode.

    Attributes:
      start: Env steps of the life before it.
      poses: The body after each env step, or how to play that step again.
      places: Its position on the ground (m) after each env step; empty where the family has none.
    """

    start: int
    poses: list[Any] = dataclasses.field(default_factory=list)
    places: list[Array] = dataclasses.field(default_factory=list)


class LifeRecorder:
    """Records what the one agent of a simulation did; given to `InnerLoop.run` as `watch`.

    Args:
      learning_steps: Env steps of the life without its final episodes.
    """

    def __init__(self, learning_steps: int):
        self.learning_steps = learning_steps
        self._episodes = [Episode(0)]
        self._steps = 0

    def __call__(self, simulation: Simulation, result: StepResult) -> None:
        """Records one env step."""
        episode = self._episodes[-1]
        if isinstance(simulation, BodySimulation):
            episode.poses.append(Pose.of(simulation, 0))
            place = simulation.family.place(simulation.state)
            if place is not None:
                episode.places.append(place[0])
        else:
            assert isinstance(simulation, GymnasiumSimulation)
            episode.poses.append(simulation.moment(0))
        self._steps += 1
        learned = self._steps == self.learning_steps
        if result.terminated[0] or result.truncated[0] or learned:
            self._episodes.append(Episode(self._steps))

    def episodes(self) -> list[Episode]:
        """Returns the episodes with at least one env step."""
        return [episode for episode in self._episodes if episode.poses]

    def chosen(self, count: int) -> list[Episode]:
        """Returns the first and the last episode and others evenly between."""
        episodes = self.episodes()
        numbers = np.linspace(0, len(episodes) - 1, min(count, len(episodes)))
        return [episodes[round(number)] for number in numbers]


def make_camera(family: TaskFamily, key: LifeKey, height: int, width: int) -> Camera | ReplayCamera:
    """Returns a camera for the body or the environment of a life.

    Args:
      height: Of pictures, in pixels.
      width: Of pictures, in pixels.

    Raises:
      RenderError: There is nothing to draw with.
    """
    task = family.sample_task(life_generator(key, "task"))
    if isinstance(family, GymnasiumFamily):
        return ReplayCamera(family, task, height, width)
    assert isinstance(family, BodyFamily)
    body = BodySimulation(family, 1)
    body.set_tasks([task])
    return Camera(body.model(0), height, width)


def recorded_life(
    experiment: Experiment,
    phi: Array,
    key: LifeKey,
    inner_settings: InnerLoopSettings | None = None,
) -> tuple[LifeRecorder, float]:
    """Runs one life in exact physics; returns what was recorded and the return of its final policy.

    Args:
      phi: [D] float32, what evolution moved.
      inner_settings: What the agent minimises; None: what evolution ends with.

    Raises:
      ConfigError: The family is not known, or memory does not hold the life.
    """
    family = make_family(experiment.in_physics("exact").task)
    alone = ComputeConfig(shard_lives=1, threads=1)
    experiment = dataclasses.replace(experiment.in_physics("exact"), compute=alone)
    refuse_lives_that_cannot_fit(experiment, 1)
    configure_tensorflow(1)
    recorder = LifeRecorder(experiment.life_steps)
    loop = InnerLoop(experiment, family)
    lives = loop.run([key], phi[None], inner_settings or final_inner_settings(experiment), recorder)
    return recorder, float(lives.final_return[0])


def film_of_life(experiment: Experiment, phi: Array, key: LifeKey) -> Figure:
    """Runs one life in exact physics and returns a film strip of four of its episodes.

    Args:
      phi: [D] float32, what evolution moved.

    Raises:
      RenderError: There is nothing to draw with.
      ConfigError: The family is not known.
    """
    family = make_family(experiment.in_physics("exact").task)
    # Before the life: without anything to draw with, the life would be useless.
    camera = make_camera(family, key, *_SMALL)
    recorder, _ = recorded_life(experiment, phi, key)
    rows, labels = film_frames(recorder, camera, (4, 5))
    camera.close()
    return pictures.film_figure(rows, labels, f"{family.name}: one agent over its life")


def draw_paths(recorder: LifeRecorder, title: str, output: Path) -> None:
    """Draws the paths of all episodes over the ground into a PNG file."""
    write_png(pictures.paths_figure(*ground_paths_of(recorder), title), output)


def ground_paths_of(recorder: LifeRecorder) -> tuple[list[Array], list[Array | None]]:
    """Returns the paths [T_i, 2] of all episodes over the ground, and the goal [2] of each."""
    episodes = recorder.episodes()
    markers = [episode.poses[-1].marker for episode in episodes]
    goals = [None if marker is None else marker[:2].round(6) for marker in markers]
    return [np.stack(episode.places) for episode in episodes], goals


def draw_film(
    recorder: LifeRecorder,
    camera: Camera | ReplayCamera,
    counts: tuple[int, int | None],
    title: str,
    output: Path,
) -> None:
    """Draws episodes of a life as a film strip (.png) or an animation (.gif, .mp4).

    Args:
      counts: Number of episodes, and frames of each; None for 8 in a PNG, else 50.
    """
    episodes, frames = counts
    rows, labels = film_frames(recorder, camera, (episodes, frames or _FRAMES[output.suffix]))
    if output.suffix == ".png":
        write_png(pictures.film_figure(rows, labels, title), output)
        return
    captions = [label for row, label in zip(rows, labels, strict=True) for _ in row]
    film = [frame for row in rows for frame in row]
    pictures.animation(film, captions, _FRAMES_PER_SECOND, output)


def film_frames(
    recorder: LifeRecorder, camera: Camera | ReplayCamera, counts: tuple[int, int]
) -> tuple[list[list[Array]], list[str]]:
    """Returns the frames of some episodes, from the first to the last, and what each is.

    Args:
      counts: Number of episodes, and frames of each at most.
    """
    rows, labels = [], []
    for episode in recorder.chosen(counts[0]):
        count = min(counts[1], len(episode.poses))
        shown = np.linspace(0, len(episode.poses) - 1, count).round().astype(int)
        rows.append(camera.frames(episode.poses, shown.tolist()))
        labels.append(
            "final policy"
            if episode.start >= recorder.learning_steps
            else f"after {episode.start} of {recorder.learning_steps} env steps"
        )
    return rows, labels
