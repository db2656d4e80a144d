"""RandomHopper: hop forward with unknown gravity, friction, masses and limb thickness (EPG, Appendix A).

The body is Gymnasium's Hopper. Ranges, reward and end are those of the authors' code, which the paper leaves open:
forward velocity alone is rewarded, and an episode ends when the torso is low or tilted.
"""

from __future__ import annotations

import pathlib

import gymnasium
import mujoco
import numpy as np

from epg_tf.tasks.base import State, Task, TaskFamily

MODEL_FILE = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "hopper.xml"
SCALE_RANGE = (0.5, 2.0)  # times the body's own mass, friction, radius
GRAVITY_RANGE = (-20.0, -2.0)  # m/s^2
START_NOISE = 0.005  # m, rad, m/s, rad/s; Gymnasium's reset noise
MINIMUM_HEIGHT = 0.7  # m, of the torso
MAXIMUM_TILT = 0.5  # rad, of the torso
MAXIMUM_SPEED = 10.0  # m/s, rad/s; observed velocities are clipped to it, as in Gymnasium


class RandomHopper(TaskFamily):
    """Reward: forward velocity (m/s) per env step."""

    name = "random_hopper"
    observation_size = 11
    expanded = ("body_mass", "body_inertia", "geom_friction", "geom_size", "geom_rbound", "opt.gravity")

    def __init__(self, frame_skip: int, episode_limit: int, randomize: bool):
        super().__init__(mujoco.MjModel.from_xml_path(str(MODEL_FILE)), frame_skip, episode_limit, randomize)
        self._limbs = self.model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE

    def sample_task(self, generator: np.random.Generator) -> Task:
        """Draws a factor for each body's mass and each geom's friction and radius, and gravity."""
        model = self.model
        mass = generator.uniform(*SCALE_RANGE, model.nbody)
        friction = generator.uniform(*SCALE_RANGE, model.ngeom)
        radius = np.where(self._limbs, generator.uniform(*SCALE_RANGE, model.ngeom), 1.0)
        gravity = np.array([0.0, 0.0, generator.uniform(*GRAVITY_RANGE)])
        if not self.randomize:
            mass, friction, radius = np.ones(model.nbody), np.ones(model.ngeom), np.ones(model.ngeom)
            gravity = model.opt.gravity.copy()
        size = model.geom_size.copy()
        size[:, 0] *= radius
        return {
            "body_mass": model.body_mass * mass,
            "body_inertia": self._inertia(size, mass),
            "geom_friction": model.geom_friction * friction[:, None],
            "geom_size": size,
            "geom_rbound": np.where(self._limbs, size[:, 0] + size[:, 1], model.geom_rbound),
            "opt.gravity": gravity,
        }

    def _inertia(self, size: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """Returns [nbody, 3] inertia of bodies made of one capsule each, of new thickness and mass."""
        inertia = self.model.body_inertia.copy()
        for geom in np.flatnonzero(self._limbs):
            body, (old, new) = self.model.geom_bodyid[geom], (self.model.geom_size[geom], size[geom])
            thickness = _capsule_inertia(new) / _capsule_inertia(old)
            inertia[body] *= thickness[self._axis_order(body, geom)] * mass[body]
        return inertia

    def _axis_order(self, body: int, geom: int) -> np.ndarray:
        """Returns, per principal axis of the body, 0 where it lies across the capsule and 1 where it lies along it."""
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, self.model.body_iquat[body])
        axes = turn.reshape(3, 3)
        mujoco.mju_quat2Mat(turn := np.zeros(9), self.model.geom_quat[geom])
        along = np.abs(axes.T @ turn.reshape(3, 3)[:, 2])
        return (along > 0.5).astype(int)

    def start(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws the upright pose with a little noise."""
        qpos = self.model.qpos0 + generator.uniform(-START_NOISE, START_NOISE, self.model.nq)
        return qpos, generator.uniform(-START_NOISE, START_NOISE, self.model.nv), np.zeros(0)

    def observe(self, state: State) -> np.ndarray:
        """Returns qpos without the forward position (m, rad), then clipped qvel (m/s, rad/s)."""
        return np.concatenate([state.qpos[:, 1:], np.clip(state.qvel, -MAXIMUM_SPEED, MAXIMUM_SPEED)], axis=1)

    def reward(self, before: State, after: State, action: np.ndarray) -> np.ndarray:
        """Returns forward velocity (m/s) averaged over the env step."""
        del action
        return (after.qpos[:, 0] - before.qpos[:, 0]) / self.seconds_per_step

    def terminated(self, state: State) -> np.ndarray:
        """Returns True where the torso is lower than 0.7 m or tilted by 0.5 rad or more."""
        return (state.qpos[:, 1] <= MINIMUM_HEIGHT) | (np.abs(state.qpos[:, 2]) >= MAXIMUM_TILT)


def _capsule_inertia(size: np.ndarray) -> np.ndarray:
    """Returns (across, along) moments of a capsule of mass 1: radius size[0], half length size[1], in m."""
    radius, half = size[0], size[1]
    cylinder, sphere = np.pi * radius**2 * 2 * half, 4.0 / 3.0 * np.pi * radius**3
    cylinder, sphere = cylinder / (cylinder + sphere), sphere / (cylinder + sphere)
    along = cylinder * radius**2 / 2 + sphere * 2 * radius**2 / 5
    across = cylinder * (radius**2 / 4 + half**2 / 3) + sphere * (2 * radius**2 / 5 + half**2 + 3 * half * radius / 4)
    return np.array([across, along])
