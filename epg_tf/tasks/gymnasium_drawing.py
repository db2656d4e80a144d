"""Draws environments of Gymnasium, which make pictures of themselves (render_mode "rgb_array")."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator, Sequence

import gymnasium
import numpy as np
from PIL import Image

from epg_tf.core.errors import RenderError
from epg_tf.core.types import Array
from epg_tf.tasks.gymnasium_family import GymnasiumFamily
from epg_tf.tasks.gymnasium_simulation import Moment
from epg_tf.tasks.quantities import Task
from epg_tf.tasks.rendering import wanted_backend

MODE = "rgb_array"


def prepare_drawing(family: GymnasiumFamily) -> None:
    """Makes environments that the family makes from now on able to draw themselves.

    Raises:
      RenderError: They cannot.
    """
    if MODE not in family.render_modes:
        raise RenderError(
            f"config.task.family={family.name!r} has no pictures: its environment does not list "
            f"{MODE!r} in metadata['render_modes']"
        )
    os.environ.setdefault("MUJOCO_GL", wanted_backend())  # read when the first picture is drawn
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # pygame would look for a sound card
    family.render_mode = MODE


def picture_of(environment: gymnasium.Env) -> Array:
    """Returns the environment's own picture, [H, W, 3] uint8.

    Raises:
      RenderError: It cannot draw itself here.
    """
    with _drawing():
        picture = np.asarray(environment.render())
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise RenderError(
            f"the environment draws {picture.dtype} of shape {picture.shape}; its render() must "
            "return [height, width, 3] uint8"
        )
    return picture


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    """Turns what an environment raises into a `RenderError` of one line."""
    try:
        yield
    except Exception as error:  # a missing package or driver raises many types
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise RenderError(f"the environment cannot draw itself ({reason})") from error


class ReplayCamera:
    """Plays episodes again, from their seeds and actions, in an environment that draws itself.

    Args:
      family: Of the environment.
      task: Of the life.
      height: Of pictures at most, in pixels; they keep the environment's shape.
      width: Of pictures at most, in pixels.

    Raises:
      RenderError: The environment cannot draw itself here.
    """

    def __init__(self, family: GymnasiumFamily, task: Task, height: int, width: int):
        drawn = copy.copy(family)
        prepare_drawing(drawn)
        self._size = width, height
        with _drawing():
            self._options = family.reset_options(task)
            self._environment = drawn.make()
            family.configure(self._environment, task)
            self._environment.reset(seed=0, options=dict(self._options))
        picture_of(self._environment)  # fails now rather than after a life

    def frames(self, moments: Sequence[Moment], steps: Sequence[int]) -> list[Array]:
        """Returns pictures [H, W, 3] uint8 of some env steps of an episode.

        Args:
          moments: Of all its env steps.
          steps: Numbers of those that are drawn, in increasing order.
        """
        pictures = {}
        self._environment.reset(seed=moments[0].seed, options=dict(self._options))
        for step, moment in enumerate(moments):
            self._environment.step(moment.action)
            if step in steps:
                picture = Image.fromarray(picture_of(self._environment))
                picture.thumbnail(self._size)
                pictures[step] = np.asarray(picture)
        return [pictures[step] for step in steps]

    def close(self) -> None:
        """Closes the environment."""
        self._environment.close()
