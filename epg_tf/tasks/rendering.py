"""Draws simulations of MuJoCo bodies: `Camera` to arrays, without a display; `Window` on one.

MuJoCo settles at its first import, from MUJOCO_GL, what `mujoco.Renderer` draws with, and without a
display that is nothing unless the variable was set. So contexts are made here, when they are
needed.
"""

from __future__ import annotations

import ctypes.util
import dataclasses
import importlib
import os
import warnings

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
    """What of one simulation is drawn.

    Attributes:
      qpos: [nq] generalised positions.
      marker: [3] where the goal is (m), or None to mark nothing.
      mocap_pos: [nmocap, 3] (m), or None to leave mocap bodies where the model has them.
      mocap_quat: [nmocap, 4], or None likewise.
    """

    qpos: Array
    marker: Array | None = None
    mocap_pos: Array | None = None
    mocap_quat: Array | None = None

    @staticmethod
    def of(simulation: BodySimulation, row: int) -> Pose:
        """Returns where simulation `row` stands (a copy, to be drawn at any time with
        `simulation.model(row)`).
        """
        state = simulation.state.rows(np.array([row]))
        markers = simulation.family.marker(state)
        mocap = (
            state.sensed[name][0] if name in state.sensed else None
            for name in ("mocap_pos", "mocap_quat")
        )
        return Pose(state.qpos[0], None if markers is None else markers[0], *mocap)

    def put(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Brings `data` to this pose."""
        data.qpos[:] = self.qpos
        if self.mocap_pos is not None:
            data.mocap_pos[:] = self.mocap_pos
        if self.mocap_quat is not None:
            data.mocap_quat[:] = self.mocap_quat
        mujoco.mj_fwdPosition(model, data)


class Camera:
    """Takes pictures of one body, with the model's camera "track" if it has one, else from where
    all of it is seen.

    Use it on the thread that made it. The backend is MUJOCO_GL if that is set, else egl where the
    library is installed, else osmesa; none of them needs a GPU.

    Args:
      model: The body, of the task that it has.
      height: Of pictures, in pixels, >= 1.
      width: Of pictures, in pixels, >= 1.

    Raises:
      RenderError: No OpenGL backend works here.
    """

    def __init__(self, model: mujoco.MjModel, height: int, width: int):
        self._model, self._data = model, mujoco.MjData(model)
        self._view, self._options = _view(model), mujoco.MjvOption()
        self._scene = mujoco.MjvScene(model, maxgeom=model.ngeom + 1000)
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._gl, self._context = _contexts(model, height, width)

    def frame(self, pose: Pose) -> Array:
        """Returns a picture, [height, width, 3] uint8.

        Raises:
          RenderError: The camera is closed.
        """
        if self._context is None:
            raise RenderError("the camera is closed; make another one")
        pose.put(self._model, self._data)
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

    def close(self) -> None:
        """Gives the context back; more calls do nothing."""
        if self._context is not None:
            self._gl.make_current()
            self._context.free()
            self._gl.free()
            self._context = None


class Window:
    """Shows one body on the display, in Gymnasium's viewer (mouse and keys as it lists them).

    Args:
      model: The body, of the task that it has.

    Raises:
      RenderError: There is no display.
    """

    def __init__(self, model: mujoco.MjModel):
        check_display()
        from gymnasium.envs.mujoco.mujoco_rendering import (
            WindowViewer,
        )  # loads GLFW, which windows alone need

        self._model, self._data = model, mujoco.MjData(model)
        self._viewer = WindowViewer(model, self._data)
        self._viewer.cam = _view(model)

    def show(self, pose: Pose) -> None:
        """Draws a pose."""
        pose.put(self._model, self._data)
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
    """Raises RenderError where no window can be opened; Gymnasium's viewer would take the process
    down.
    """
    import glfw

    with warnings.catch_warnings(action="ignore"):
        usable = glfw.init() and glfw.get_primary_monitor()
    if not usable:
        raise RenderError(
            f"no window can be opened (DISPLAY={os.environ.get('DISPLAY', '')!r}); where there is "
            "no "
            "display use render_mode='rgb_array'"
        )


def _view(model: mujoco.MjModel) -> mujoco.MjvCamera:
    view = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, view)
    track = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA.value, "track")
    if track >= 0:
        view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED.value, track
    return view


def _contexts(model: mujoco.MjModel, height: int, width: int) -> tuple[object, mujoco.MjrContext]:
    """Returns OpenGL's context (of a class of MuJoCo's, by backend) and MuJoCo's in it."""
    backend = os.environ.get("MUJOCO_GL", "").lower() or (
        "egl" if ctypes.util.find_library("EGL") else "osmesa"
    )
    if backend not in BACKENDS:
        raise RenderError(
            f"MUJOCO_GL={backend!r} is not understood here; set it to one of {', '.join(BACKENDS)}"
        )
    try:
        gl = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
        gl.make_current()
        context = mujoco.MjrContext(model, FONT)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
        mujoco.mjr_resizeOffscreen(width, height, context)
    except Exception as error:  # whatever drivers and bindings that are missing or broken raise
        raise RenderError(
            f"nothing to draw with: {backend} fails ({_line(error)}); on Debian and Ubuntu install "
            "libegl1 and libegl-mesa0 for MUJOCO_GL=egl, or libosmesa6 for MUJOCO_GL=osmesa"
        ) from error
    return gl, context


def _line(error: Exception) -> str:
    """Returns the type of an error and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
