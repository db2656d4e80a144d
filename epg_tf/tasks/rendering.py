"""Draws simulations of MuJoCo bodies: `Camera` without a display to arrays, `Window` on a display.
`gymnasium_drawing` draws Gymnasium's environments.

At its first import, MuJoCo chooses the backend of `mujoco.Renderer` from MUJOCO_GL; if the variable
is not set and there is no display, it has none. So this module makes contexts itself when they are
needed.
"""

from __future__ import annotations

import ctypes.util
import dataclasses
import importlib
import os
import warnings
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from epg_tf.core.errors import RenderError
from epg_tf.core.types import Array
from epg_tf.tasks.physics import BodySimulation

BACKENDS = ("egl", "osmesa", "glfw")
MARKER_COLOUR = np.array([0.1, 0.8, 0.2, 0.6], np.float32)  # red, green, blue, opacity
MARKER_RADIUS = 0.05  # times the model's extent
FONT = mujoco.mjtFontScale.mjFONTSCALE_100.value


@dataclasses.dataclass(frozen=True)
class Pose:
    """Holds the part of one simulation's state that is drawn.

    Attributes:
      qpos: [nq] generalised positions.
      marker: [3] position of the goal (m), or None to draw no marker.
      mocap_pos: [nmocap, 3] (m), or None to leave mocap bodies as they are in the model.
      mocap_quat: [nmocap, 4], or None, likewise.
    """

    qpos: Array
    marker: Array | None = None
    mocap_pos: Array | None = None
    mocap_quat: Array | None = None

    @staticmethod
    def of(simulation: BodySimulation, row: int) -> Pose:
        """Returns a copy of the pose of simulation `row`; draw it with `simulation.model(row)`."""
        state = simulation.state.rows(np.array([row]))
        markers = simulation.family.marker(state)
        return Pose(
            qpos=state.qpos[0],
            marker=None if markers is None else markers[0],
            mocap_pos=state.sensed["mocap_pos"][0] if "mocap_pos" in state.sensed else None,
            mocap_quat=state.sensed["mocap_quat"][0] if "mocap_quat" in state.sensed else None,
        )

    def apply(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Sets `data` to this pose."""
        data.qpos[:] = self.qpos
        if self.mocap_pos is not None:
            data.mocap_pos[:] = self.mocap_pos
        if self.mocap_quat is not None:
            data.mocap_quat[:] = self.mocap_quat
        mujoco.mj_fwdPosition(model, data)


class Camera:
    """Takes pictures of one body.

    It uses the model's camera "track" if there is one, else a view of the whole model. Use it on
    the thread that made it. The backend is MUJOCO_GL if that is set, else egl if the library is
    installed, else osmesa; none of them needs a GPU.

    Args:
      model: The body of the task, e.g. from `BodySimulation.model`.
      height: Of pictures, in pixels, >= 1.
      width: Of pictures, in pixels, >= 1.

    Raises:
      RenderError: No OpenGL backend works here.
    """

    def __init__(self, model: mujoco.MjModel, height: int, width: int):
        self._model, self._data = model, mujoco.MjData(model)
        self._view = _view(model)
        self._options = mujoco.MjvOption()
        self._scene = mujoco.MjvScene(model, maxgeom=model.ngeom + 1000)
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._context: mujoco.MjrContext | None
        self._gl, self._context = _make_contexts(model, height, width)

    def frame(self, pose: Pose) -> Array:
        """Returns a picture, [height, width, 3] uint8.

        Raises:
          RenderError: The camera is closed.
        """
        if self._context is None:
            raise RenderError("the camera is closed; make another one")
        pose.apply(self._model, self._data)
        mujoco.mjv_updateScene(
            self._model,
            self._data,
            self._options,
            None,
            self._view,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )
        if pose.marker is not None:
            mujoco.mjv_initGeom(
                self._scene.geoms[self._scene.ngeom],
                mujoco.mjtGeom.mjGEOM_SPHERE,
                np.full(3, MARKER_RADIUS * self._model.stat.extent),
                pose.marker,
                np.eye(3).ravel(),
                MARKER_COLOUR,
            )
            self._scene.ngeom += 1
        picture = np.empty((self._rect.height, self._rect.width, 3), np.uint8)
        self._gl.make_current()
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(picture, None, self._rect, self._context)
        return picture[::-1].copy()  # OpenGL counts rows from below

    def frames(self, poses: Sequence[Pose], steps: Sequence[int]) -> list[Array]:
        """Returns pictures of some env steps of an episode, as `frame` does."""
        return [self.frame(poses[step]) for step in steps]

    def close(self) -> None:
        """Frees the contexts; further calls do nothing."""
        if self._context is not None:
            self._gl.make_current()
            self._context.free()
            self._gl.free()
            self._context = None


class Window:
    """Shows one body on the display, in Gymnasium's viewer, which lists its mouse and key actions.

    Args:
      model: The body of the task.

    Raises:
      RenderError: There is no display.
    """

    def __init__(self, model: mujoco.MjModel):
        check_display()
        # This import loads GLFW, which only windows need.
        from gymnasium.envs.mujoco.mujoco_rendering import WindowViewer

        self._model, self._data = model, mujoco.MjData(model)
        self._viewer = WindowViewer(model, self._data)
        self._viewer.cam = _view(model)

    def show(self, pose: Pose) -> None:
        """Draws a pose."""
        pose.apply(self._model, self._data)
        if pose.marker is not None:
            self._viewer.add_marker(
                type=mujoco.mjtGeom.mjGEOM_SPHERE,
                pos=pose.marker,
                rgba=MARKER_COLOUR,
                size=np.full(3, MARKER_RADIUS * self._model.stat.extent),
            )
        self._viewer.render()

    def close(self) -> None:
        """Closes the window."""
        self._viewer.close()


def check_display() -> None:
    """Raises RenderError if no window can be opened; Gymnasium's viewer would end the process."""
    import glfw

    with warnings.catch_warnings(action="ignore"):
        usable = glfw.init() and glfw.get_primary_monitor()
    if not usable:
        raise RenderError(
            f"no window can be opened (DISPLAY={os.environ.get('DISPLAY', '')!r}); without a "
            "display use render_mode='rgb_array'"
        )


def wanted_backend() -> str:
    """Returns MUJOCO_GL if that is set, else what this machine has."""
    return os.environ.get("MUJOCO_GL", "").lower() or (
        "egl" if ctypes.util.find_library("EGL") else "osmesa"
    )


def _view(model: mujoco.MjModel) -> mujoco.MjvCamera:
    view = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, view)
    track = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA.value, "track")
    if track >= 0:
        view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED.value, track
    return view


def _make_contexts(model: mujoco.MjModel, height: int, width: int) -> tuple[Any, mujoco.MjrContext]:
    """Returns an OpenGL context and MuJoCo's drawing context in it."""
    backend = wanted_backend()
    if backend not in BACKENDS:
        raise RenderError(
            f"MUJOCO_GL={backend!r} is not supported; set it to one of {', '.join(BACKENDS)}"
        )
    try:
        gl = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
        gl.make_current()
        context = mujoco.MjrContext(model, FONT)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
        mujoco.mjr_resizeOffscreen(width, height, context)
    except Exception as error:  # missing or broken drivers and bindings raise many types
        raise RenderError(
            f"cannot draw: {backend} fails ({_line(error)}); on Debian and Ubuntu install "
            "libegl1 and libegl-mesa0 for MUJOCO_GL=egl, or libosmesa6 for MUJOCO_GL=osmesa"
        ) from error
    return gl, context


def _line(error: Exception) -> str:
    """Returns the type of an error and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
