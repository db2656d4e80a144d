"""Shows one agent over its life: a film strip (PNG), an animation (GIF), or the paths it took over
the ground (PNG).

python -m launch.render --loss=runs/hopper/best --output=hopper.gif
python -m launch.render --loss=none --config=configs/goal_ant.py --view=path --output=untrained.png
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from launch import command_line  # first: it quietens the frameworks

import numpy as np  # isort: skip
from absl import flags  # isort: skip
from ml_collections import config_flags  # isort: skip

from epg_tf.core.errors import RenderError
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.inner_loop import InnerLoop, Teaching
from epg_tf.core.threads import configure_tensorflow
from epg_tf.core.experiment import ComputeConfig, Experiment
from epg_tf.artifacts.learned_loss import load_loss
from epg_tf.core.random_streams import life_generator
from epg_tf.reports import pictures
from epg_tf.tasks.base import StepResult
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.rendering import Camera, Pose
from epg_tf.core.types import Array, LifeKey

_LOSS = flags.DEFINE_string(
    "loss", None, "Folder of a learned loss, or 'none' for an agent that never learns."
)
_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment to live in instead of the loss's own."
)
_OUTPUT = flags.DEFINE_string("output", None, "File to write: .gif or .png.")
_VIEW = flags.DEFINE_enum(
    "view", "film", ["film", "path"], "The body at work, or its way over the ground."
)
_EPISODES = flags.DEFINE_integer(
    "episodes", 4, "Episodes shown, evenly over the life.", lower_bound=1, upper_bound=100
)
_FRAMES = flags.DEFINE_integer(
    "frames", None, "Frames per episode; 8 in a PNG, 50 in a GIF.", lower_bound=1, upper_bound=1000
)
_UPDATES = flags.DEFINE_integer(
    "updates",
    None,
    "Updates in the life; the experiment's by default.",
    lower_bound=1,
    upper_bound=10**7,
)
_LIFE = flags.DEFINE_integer("life", 0, "Number of the life, and so of its task.", lower_bound=0)
_SEED = flags.DEFINE_integer("seed", 0, "Names the unseen tasks.", lower_bound=0)

_HEIGHT, _WIDTH = 240, 320  # pixels
_FRAMES_PER_SECOND = 25


@dataclasses.dataclass
class Episode:
    """What was seen of one episode.

    Attributes:
      start: Env steps lived before it.
      poses: The body after each env step.
      places: Its position on the ground (m) after each env step; empty where the family has none.
    """

    start: int
    poses: list[Pose] = dataclasses.field(default_factory=list)
    places: list[Array] = dataclasses.field(default_factory=list)


class Recorder:
    """Remembers where the one body of a simulation was.

    Args:
      learning_steps: Env steps of the life without its final episodes, which start afresh.
    """

    def __init__(self, learning_steps: int):
        self.episodes = [Episode(0)]
        self._steps, self._learning_steps = 0, learning_steps

    def __call__(self, simulation: BodySimulation, result: StepResult) -> None:
        """Takes in one env step."""
        episode, place = self.episodes[-1], simulation.family.place(simulation.state)
        episode.poses.append(Pose.of(simulation, 0))
        if place is not None:
            episode.places.append(place[0])
        self._steps += 1
        if result.terminated[0] or result.truncated[0] or self._steps == self._learning_steps:
            self.episodes.append(Episode(self._steps))

    def lived(self) -> list[Episode]:
        """Returns the episodes in which something was seen."""
        return [episode for episode in self.episodes if episode.poses]

    def chosen(self, count: int) -> list[Episode]:
        """Returns the first and the last episode and others evenly between."""
        lived = self.lived()
        return [
            lived[round(number)]
            for number in np.linspace(0, len(lived) - 1, min(count, len(lived)))
        ]


def main(argv: list[str]) -> int:
    """Lives one life and draws it; returns the exit code."""
    del argv
    output = _output()
    experiment, phi, teaching = _life()
    family, key = make_family(experiment.task), LifeKey(_SEED.value, "test", 0, _LIFE.value)
    if not isinstance(family, BodyFamily):
        raise command_line.UsageError(
            f"config.task.family={family.name!r} is drawn by Gymnasium, not here; choose one "
            f"of launch.list_tasks"
        )
    body = BodySimulation(family, 1)
    if _VIEW.value == "path" and family.place(body.state) is None:
        raise command_line.UsageError(
            f"--view=path: {family.name} has no way over the ground; use --view=film"
        )
    body.set_tasks([family.sample_task(life_generator(key, "task"))])
    try:  # before the life: without anything to draw with, it would be for nothing
        camera = Camera(body.model(0), _HEIGHT, _WIDTH) if _VIEW.value == "film" else None
    except RenderError as error:
        raise command_line.UsageError(f"--view=film: {error}") from error
    configure_tensorflow(1)
    steps = (_UPDATES.value or experiment.inner.updates) * experiment.inner.update_period
    recorder = Recorder(steps)
    results = InnerLoop(experiment, family).run(
        [key], phi[None], teaching, _UPDATES.value, recorder
    )
    _draw(output, camera, recorder, family.name, steps)
    print(
        f"{family.name}, task {_LIFE.value}: {len(recorder.lived())} episodes, return of the "
        "final policy "
        f"{results.final_return[0]:.2f}\nthe picture is in {output}"
    )
    return 0


def _output() -> Path:
    if not _OUTPUT.value:
        raise command_line.UsageError("--output is missing; name a file, e.g. --output=life.gif")
    output = Path(_OUTPUT.value)
    if (
        output.suffix not in (".gif", ".png")
        or (_VIEW.value == "path" and output.suffix != ".png")
        or output.is_dir()
    ):
        raise command_line.UsageError(
            f"--output={output} must be a file that ends in .png, or in .gif for --view=film"
        )
    if not output.parent.is_dir() or not os.access(output.parent, os.W_OK):
        raise command_line.UsageError(
            f"--output={output}: {output.parent} is no folder that can be written to; create it"
        )
    return output


def _life() -> tuple[Experiment, Array, Teaching]:
    """Returns where the agent lives, its loss and how it is taught."""
    if not _LOSS.value:
        raise command_line.UsageError(
            "--loss is missing; name a folder, e.g. --loss=runs/first/best, or none"
        )
    alone = ComputeConfig(shard_lives=1, threads=1)
    if _LOSS.value == "none":  # an agent that never learns
        experiment = dataclasses.replace(command_line.experiment_of(_CONFIG), compute=alone)
        return experiment, initial_phi(experiment, 0), Teaching(0.0, 0.0)
    learned = load_loss(_LOSS.value)
    experiment = command_line.elsewhere(learned.experiment, _CONFIG)
    return (
        dataclasses.replace(experiment, compute=alone),
        learned.phi,
        Teaching(0.0, experiment.inner.learning_rate),
    )


def _draw(output: Path, camera: Camera | None, recorder: Recorder, family: str, steps: int) -> None:
    title = f"{family}: one agent over its life"
    if camera is None:
        marker = recorder.lived()[-1].poses[-1].marker
        targets = np.zeros((0, 2)) if marker is None else marker[None, :2]
        pictures.ground_paths(
            [np.stack(episode.places) for episode in recorder.lived()], targets, title, output
        )
        return
    rows, labels = [], []
    for episode in recorder.chosen(_EPISODES.value):
        count = min(_FRAMES.value or {".png": 8, ".gif": 50}[output.suffix], len(episode.poses))
        shown = np.linspace(0, len(episode.poses) - 1, count).round().astype(int)
        rows.append([camera.frame(episode.poses[step]) for step in shown])
        labels.append(
            "final policy"
            if episode.start >= steps
            else f"after {episode.start} of {steps} env steps"
        )
    camera.close()
    if output.suffix == ".png":
        pictures.film_strip(rows, labels, title, output)
    else:
        captions = [label for row, label in zip(rows, labels, strict=True) for _ in row]
        pictures.animation(
            [frame for row in rows for frame in row], captions, _FRAMES_PER_SECOND, output
        )


if __name__ == "__main__":
    command_line.run(main)
