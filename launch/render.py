"""Draws one agent over its life: a film strip (PNG), a film (GIF, mp4), or its paths (PNG).

For example:

    epg-tf render --loss=runs/hopper/best --output=hopper.gif
    epg-tf render --loss=none --config=goal_ant --view=path \\
        --output=untrained.png
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from .evaluation_flags import check_parent, losses_exist, required_loss

_LOSS = flags.DEFINE_string(
    "loss",
    None,
    "Folder of a run or of a learned loss, name of a pretrained loss, or 'none' for an agent that "
    "never learns.",
)
flags.register_validator("loss", lambda name: name in (None, "", "none") or losses_exist(name))
flags.adopt_module_key_flags(config_flag)
_OUTPUT = flags.DEFINE_string("output", None, "File to write: .gif, .mp4 or .png.")
_VIEW = flags.DEFINE_enum(
    "view", "film", ["film", "path"], "The body, or its path over the ground."
)
_EPISODES = flags.DEFINE_integer(
    "episodes",
    None,
    "Episodes in the film, evenly over the life; 4 by default.",
    lower_bound=1,
    upper_bound=100,
)
_FRAMES = flags.DEFINE_integer(
    "frames",
    None,
    "Frames per episode of the film; 8 in a PNG, else 50.",
    lower_bound=1,
    upper_bound=1000,
)
_SIZE = flags.DEFINE_string(
    "size",
    None,
    "Size of a .gif or .mp4 in pixels: WIDTHxHEIGHT, or its width alone; 320x240 by default.",
)
_UPDATES = flags.DEFINE_integer(
    "updates",
    None,
    "Updates in the life; the experiment's by default.",
    lower_bound=1,
    upper_bound=10**7,
)
_LIFE = flags.DEFINE_integer("life", 0, "Number of the life, and so of its task.", lower_bound=0)
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace the file --output.")
_SEED = flags.DEFINE_integer("seed", 0, "Names the unseen tasks.", lower_bound=0)

command_line.parse_flags(__name__)

from epg_tf.core.errors import RenderError
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.gymnasium_drawing import ReplayCamera
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.rendering import Camera
from epg_tf.core.types import Array, LifeKey

if TYPE_CHECKING:  # it imports TensorFlow, and flags are read before it is
    from epg_tf.epg.inner_loop import InnerLoopSettings

_SIZES = range(16, 4097)  # pixels


def main(argv: list[str]) -> int:
    """Runs one life and draws it; returns the exit code."""
    del argv
    output = _output()
    size = _size(output)
    experiment, phi, inner_settings = _life()
    family = make_family(experiment.in_physics("exact").task)
    key = LifeKey(_SEED.value, "test", 0, _LIFE.value)
    # Before the life: without anything to draw with, the life would be useless.
    camera = _camera(family, key, size)
    from epg_tf.reports.life_pictures import draw_film, draw_paths, recorded_life

    recorder, final_return = recorded_life(experiment, phi, key, inner_settings)
    title = f"{family.name}: one agent over its life"
    if camera is None:
        draw_paths(recorder, title, output)
    else:
        draw_film(recorder, camera, (_EPISODES.value or 4, _FRAMES.value), title, output)
        camera.close()
    print(
        f"{family.name}, task {_LIFE.value}: {len(recorder.episodes())} episodes, return of the "
        f"final policy {final_return:.2f}\nthe picture is in {output}"
    )
    return 0


def _camera(
    family: TaskFamily, key: LifeKey, size: tuple[int, int]
) -> Camera | ReplayCamera | None:
    """Returns what draws the body of a life; None for --view=path.

    Raises:
      UsageError: What --view wants cannot be drawn.
    """
    if _VIEW.value == "path":
        for flag in (_EPISODES, _FRAMES):
            if flag.value is not None:
                raise command_line.UsageError(
                    f"--{flag.name}={flag.value} has no effect with --view=path; leave it out"
                )
        if not isinstance(family, BodyFamily) or (
            family.place(BodySimulation(family, 1).state) is None
        ):
            raise command_line.UsageError(
                f"--view=path: {family.name} has no way over the ground; use --view=film"
            )
        return None
    from epg_tf.reports.life_pictures import make_camera

    try:
        return make_camera(family, key, *size)
    except RenderError as error:
        raise command_line.UsageError(f"--view=film: {error}") from error


def _output() -> Path:
    output = Path(command_line.required(_OUTPUT, "life.gif"))
    if output.is_file() and not _OVERWRITE.value:
        raise command_line.UsageError(
            f"--output={output}: there is such a file; name another, or pass --overwrite"
        )
    if (
        output.suffix not in (".gif", ".mp4", ".png")
        or (_VIEW.value == "path" and output.suffix != ".png")
        or output.is_dir()
    ):
        raise command_line.UsageError(
            f"--output={output} must be a file that ends in .png, or in .gif or .mp4 for "
            "--view=film"
        )
    check_parent("output", output)
    if output.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise command_line.UsageError(
            f"--output={output}: films need a package; pip install imageio-ffmpeg, or write a .gif"
        )
    return output


def _size(output: Path) -> tuple[int, int]:
    """Returns height and width of a frame in pixels."""
    if _SIZE.value is None:
        return 240, 320
    if output.suffix == ".png":
        raise command_line.UsageError(f"--size={_SIZE.value} has no effect on a .png; leave it out")
    found = re.fullmatch(r"([0-9]{1,5})(?:x([0-9]{1,5}))?", _SIZE.value)
    width = int(found[1]) if found else 0
    height = int(found[2]) if found and found[2] else width * 3 // 4
    even = output.suffix == ".mp4"
    if not {width, height} <= {*_SIZES} or (even and (width % 2 or height % 2)):
        raise command_line.UsageError(
            f"--size={_SIZE.value} must be WIDTHxHEIGHT or a width, e.g. 640x480, each from "
            f"{_SIZES.start} to {_SIZES.stop - 1} pixels{' and even for .mp4' * even}"
        )
    return height, width


def _life() -> tuple[Experiment, Array, InnerLoopSettings]:
    """Returns where and how long the agent lives, its loss and how it is taught."""
    config_flag.refuse("task.physics", reason="lives are drawn in exact physics; leave it out")
    if _LOSS.value == "none":  # an agent that never learns
        experiment = _of_length(config_flag.experiment_of((Experiment,), physics="exact"))
        from epg_tf.epg.inner_loop import InnerLoopSettings
        from epg_tf.epg.meta_parameters import initial_phi

        return experiment, initial_phi(experiment, 0), InnerLoopSettings(0.0, 0.0)
    loss = required_loss(_LOSS, "runs/first, or none")
    from epg_tf.artifacts.artifact import load_loss
    from epg_tf.epg.inner_loop import final_inner_settings

    learned = load_loss(loss)
    experiment = _of_length(config_flag.with_test_settings(learned.experiment))
    return experiment, learned.phi, final_inner_settings(experiment)


def _of_length(experiment: Experiment) -> Experiment:
    """Returns the settings with as many updates as --updates says."""
    updates = _UPDATES.value or experiment.inner.updates
    return dataclasses.replace(
        experiment, inner=dataclasses.replace(experiment.inner, updates=updates)
    )


if __name__ == "__main__":
    command_line.run(main)
