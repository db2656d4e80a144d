"""Tests epg_tf.tasks.rendering. What draws is skipped, with the reason, where OpenGL is missing."""

from __future__ import annotations

import sys

import mujoco
import numpy as np
import pytest

from epg_tf.core.errors import RenderError
from epg_tf.tasks.hopper import Hopper, RandomHopper
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.registry import FAMILIES, simulate
from epg_tf.tasks.rendering import Camera, Pose, Window

BOX = """<mujoco>
  <visual><headlight ambient="1 1 1"/></visual>
  <worldbody>
    <camera name="track" pos="0 0 4"/>
    <body mocap="true" pos="0 0 0"><geom type="box" size=".5 .5 .1" rgba="1 0 0 1"/></body>
    <body pos="5 5 0"><joint type="slide" axis="1 0 0"/><geom size=".1"/></body>
  </worldbody>
</mujoco>"""


@pytest.fixture
def camera():
    """A function (model, height, width) -> camera, closed after the test."""
    made = []

    def make(model: mujoco.MjModel, height: int = 60, width: int = 80) -> Camera:
        try:
            made.append(Camera(model, height, width))
        except RenderError as error:
            pytest.skip(str(error))
        return made[-1]

    yield make
    for one in made:
        one.close()


def one_per_model() -> list[str]:
    """Returns the name of one family of each model file."""
    return list({FAMILIES[name](2, 10).model_file: name for name in FAMILIES}.values())


def started(family, population: int = 2) -> BodySimulation:
    """Returns simulations with tasks and starts drawn from 0, 1, ..."""
    simulation, generators = (
        simulate(family, population),
        [np.random.default_rng(seed) for seed in range(population)],
    )
    simulation.set_tasks([family.sample_task(generator) for generator in generators])
    simulation.reset(np.arange(population), generators)
    return simulation


def green(picture: np.ndarray) -> np.ndarray:
    """Returns (row, column) of the middle of what is green in a picture."""
    picture = picture.astype(int)
    found = np.argwhere(picture[..., 1] > picture[..., [0, 2]].max(axis=-1) + 40)
    assert found.size
    return found.mean(axis=0)


@pytest.mark.parametrize("name", one_per_model())
def test_every_body_can_be_drawn(name, camera):
    simulation = started(FAMILIES[name](FAMILIES[name].default_frame_skip, 10))
    view, pose = camera(simulation.model(1)), Pose.of(simulation, 1)
    picture = view.frame(pose)
    assert picture.shape == (60, 80, 3) and picture.dtype == np.uint8 and picture.std() > 5
    for _ in range(5):
        simulation.step(np.ones((2, simulation.family.action_size)))
    moved = view.frame(Pose.of(simulation, 1))
    assert (moved != picture).any()
    np.testing.assert_array_equal(
        view.frame(pose), picture
    )  # a pose is a copy, and draws the same again


def test_right_side_up_and_true_to_scale(camera):
    """The marker stands where the goal is: x to the right, y upwards, one metre alike in both."""
    view = camera(PointGoal(4, 25).model, 200, 200)
    at = {
        (x, y): green(view.frame(Pose(np.array([-0.9, -0.9]), np.array([x, y, 0.0]))))
        for x, y in ((0.0, 0.0), (0.8, 0.0), (0.0, 0.8))
    }
    np.testing.assert_allclose(at[0.0, 0.0], [99.5, 99.5], atol=1)
    right, up = at[0.8, 0.0] - at[0.0, 0.0], at[0.0, 0.8] - at[0.0, 0.0]
    assert abs(right[0]) < 1 and abs(up[1]) < 1
    assert right[1] > 40 and up[0] == pytest.approx(-right[1], abs=1)


def test_the_goal_of_point_goal_is_marked():
    simulation = started(PointGoal(4, 25))
    simulation.state.goal[1] = 0.25, -0.5
    assert Pose.of(simulation, 1).marker.tolist() == [0.25, -0.5, 0.0]
    assert Pose.of(started(Hopper(4, 25)), 1).marker is None


def test_pictures_show_the_body_of_the_task(camera):
    family = RandomHopper(4, 100)
    simulation = simulate(family, 2)
    simulation.set_tasks([family.complete_task({"radius": scale}) for scale in (0.5, 2.0)])
    pose = Pose(family.model.qpos0)
    thin, thick = (camera(simulation.model(row)).frame(pose).astype(int) for row in (0, 1))
    skin = [(picture[..., 0] > picture[..., 2] + 40).sum() for picture in (thin, thick)]
    assert skin[1] > 2 * skin[0] > 0


def test_mocap_bodies_follow_the_pose(camera):
    view = camera(mujoco.MjModel.from_xml_string(BOX))
    poses = [
        Pose(np.zeros(1)),
        Pose(np.zeros(1), None, np.array([[1.0, 0.0, 0.0]]), np.array([[1.0, 0, 0, 0]])),
        Pose(np.zeros(1), None, np.zeros((1, 3)), np.array([[np.sqrt(0.5), 0, np.sqrt(0.5), 0]])),
    ]
    red = [np.argwhere(view.frame(pose)[..., 0] > 128) for pose in poses]
    assert red[1].mean(axis=0)[1] > red[0].mean(axis=0)[1] + 10  # to the right
    assert 0 < len(red[2]) < 0.6 * len(red[0])  # on edge


def test_cameras_do_not_disturb_each_other_and_may_be_large(camera):
    first, second = started(PointGoal(4, 25)), started(Hopper(4, 25))
    views = camera(first.model(0), 700, 900), camera(second.model(0), 60, 80)
    poses = Pose.of(first, 0), Pose.of(second, 0)
    alone = [view.frame(pose) for view, pose in zip(views, poses, strict=True)]
    assert alone[0].shape == (700, 900, 3)  # beyond the framebuffer that models ask for
    for view, pose, picture in [*zip(views, poses, alone, strict=True)] * 2:
        np.testing.assert_array_equal(view.frame(pose), picture)
    views[0].close()
    np.testing.assert_array_equal(views[1].frame(poses[1]), alone[1])


def test_closing_twice_and_drawing_after_it(camera):
    view = camera(PointGoal(4, 25).model)
    view.close()
    view.close()
    with pytest.raises(RenderError, match="^the camera is closed; make another one$"):
        view.frame(Pose(np.zeros(2)))


class TestWithoutOpenGl:
    """One line that says what to install."""

    @pytest.mark.parametrize(
        "backend, library, loaded",
        [
            ("egl", None, "egl"),
            ("", None, "osmesa"),
            ("OSMesa", "libEGL.so.1", "osmesa"),
        ],
    )
    def test_the_line(self, monkeypatch, backend, library, loaded):
        monkeypatch.setenv("MUJOCO_GL", backend)
        monkeypatch.setattr("ctypes.util.find_library", lambda name: {"EGL": library}[name])
        for name in ("egl", "osmesa"):
            monkeypatch.setitem(sys.modules, f"mujoco.{name}", None)  # importing it fails
        with pytest.raises(RenderError) as caught:
            Camera(PointGoal(4, 25).model, 60, 80)
        line = str(caught.value)
        assert line.startswith(f"cannot draw: {loaded} fails (ModuleNotFoundError: ")
        assert line.endswith(
            "install libegl1 and libegl-mesa0 for MUJOCO_GL=egl, or libosmesa6 for MUJOCO_GL=osmesa"
        )
        assert "\n" not in line

    def test_a_backend_there_is_not(self, monkeypatch):
        monkeypatch.setenv("MUJOCO_GL", "vulkan")
        with pytest.raises(
            RenderError, match="^MUJOCO_GL='vulkan' is not supported; set it to one of egl, "
        ):
            Camera(PointGoal(4, 25).model, 60, 80)


class Viewer:
    """Replaces Gymnasium's window, which needs a display, and records calls."""

    def __init__(self, model, data):
        self.data, self.markers, self.shown, self.closed = data, [], [], False

    def add_marker(self, type, pos, rgba, size):
        self.markers.append(pos.tolist())

    def render(self):
        self.shown.append(self.data.qpos.tolist())

    def close(self):
        self.closed = True


class TestWindow:
    """Gymnasium's viewer, or one line where there is no display."""

    @pytest.mark.parametrize("display", ["", ":4711"])
    def test_needs_a_display_that_works(self, monkeypatch, display):
        monkeypatch.setenv("DISPLAY", display)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        with pytest.raises(
            RenderError,
            match=rf"^no window can be opened \(DISPLAY='{display}'\); without a display ",
        ):
            Window(PointGoal(4, 25).model)

    def test_shows_poses_and_goals(self, monkeypatch):
        monkeypatch.setattr("epg_tf.tasks.rendering.check_display", lambda: None)
        monkeypatch.setattr("gymnasium.envs.mujoco.mujoco_rendering.WindowViewer", Viewer)
        window = Window(PointGoal(4, 25).model)
        window.show(Pose(np.array([0.1, 0.2]), np.array([0.3, 0.4, 0.0])))
        window.show(Pose(np.array([0.5, 0.6])))
        window.close()
        viewer = window._viewer
        assert (
            viewer.shown == [[0.1, 0.2], [0.5, 0.6]]
            and viewer.markers == [[0.3, 0.4, 0.0]]
            and viewer.closed
        )
        assert viewer.cam.elevation == -90.0  # as the model asks for
