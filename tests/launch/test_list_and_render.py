"""launch.render, as a user runs it, and what draws."""

import ctypes.util

import numpy as np
import pytest
from PIL import Image

from epg_tf.core.errors import RenderError
from epg_tf.tasks.registry import FAMILIES
from epg_tf.tasks.rendering import Camera
from tests.launch import commands

SHORT = (
    "--config.inner.updates=3",
    "--config.inner.update_period=8",
    "--config.inner.minibatch=4",
    "--config.loss.buffer_steps=64",
    "--config.task.episode_limit=5",
)
FILM = ("--loss=none", "--config=configs/random_hopper.py", *SHORT, "--episodes=3", "--frames=4")


def can_draw() -> str:
    """Returns why nothing can be drawn here, or nothing."""
    family = FAMILIES["point_goal"](4, 25)
    try:
        Camera(family.model, 8, 8).close()
    except RenderError as error:
        return str(error)
    return ""


REASON = can_draw()
needs_gl = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.mark.slow
@needs_gl
def test_a_film_strip_has_a_row_per_episode_and_a_column_per_frame(tmp_path):
    printed = commands.done("render", *FILM, f"--output={tmp_path / 'strip.png'}")
    assert printed.splitlines()[-1] == f"the picture is in {tmp_path / 'strip.png'}"
    picture = np.asarray(Image.open(tmp_path / "strip.png").convert("RGB"))
    assert picture.shape[1] > picture.shape[0] > 500  # 4 frames of 4 : 3 wide, 3 rows high
    assert picture.std() > 10


@pytest.mark.slow
@needs_gl
def test_an_animation_has_all_frames_and_moves(tmp_path):
    commands.done("render", *FILM, "--size=200", f"--output={tmp_path / 'life.gif'}")
    with Image.open(tmp_path / "life.gif") as film:
        assert film.n_frames == 12 and film.size == (200, 150)
        first = np.asarray(film.convert("RGB")).astype(int)
        film.seek(3)
        assert np.abs(np.asarray(film.convert("RGB")).astype(int) - first).max() > 30


@pytest.mark.slow
def test_an_agent_with_a_loss_learns_and_its_final_episodes_start_afresh(tmp_path):
    """The same task and start as without learning, another way; no line from where learning ended
    to the start. Paths need no graphics.
    """
    run, pictures = commands.ROOT / "tests" / "golden" / "run", []
    for name, words in (
        ("still", ["--loss=none", f"--config={run}"]),
        ("learning", [f"--loss={run}/final"]),
    ):
        path = tmp_path / f"{name}.png"
        printed = commands.done("render", *words, "--view=path", f"--output={path}")
        assert f"{3 * 8 // 6 + 3} episodes" in printed  # of learning and of its result
        with Image.open(path) as picture:
            assert picture.width == 600
        pictures.append(path.read_bytes())
    assert pictures[0] != pictures[1]


@pytest.mark.skipif(bool(ctypes.util.find_library("OSMesa")), reason="the library is installed")
def test_a_backend_whose_library_is_missing_is_refused_in_one_line(monkeypatch):
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    line = commands.refused("list")
    assert line.startswith("error: MUJOCO_GL=osmesa: its library cannot be loaded")


@pytest.mark.slow
def test_without_graphics_one_line_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setenv("PYOPENGL_PLATFORM", "nonsense")
    line = commands.refused("render", *FILM, f"--output={tmp_path / 'strip.png'}")
    assert "libosmesa6" in line and not (tmp_path / "strip.png").exists()
