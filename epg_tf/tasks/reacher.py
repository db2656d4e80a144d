"""Defines Gymnasium's Reacher, and the paper's RandomReacher with links of unknown length."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import GYMNASIUM_MODELS, BodyFamily, CoarsePhysics, State
from epg_tf.tasks.capsules import capsule_inertia
from epg_tf.tasks.quantities import FACTOR, Quantity, Task

START_NOISE = 0.1  # rad
START_SPEED_NOISE = 0.005  # rad/s
TARGET_RADIUS = 0.2  # m, radius of the disc of targets in Gymnasium's task
REACHED_DISTANCE = 0.02  # m, distance at which the target is reached: the two spheres nearly touch
LINK = 0.1  # m, each of the two
TIP = 0.01  # m, from the second link's end to the fingertip's centre
LENGTH = (0.5, 1.5)  # times the link's own length
LONGER = (1.6, 2.0)  # out of distribution
JOINTS = 2  # of the arm; the joints of the target follow


class Reacher(BodyFamily):
    """Rewards minus the distance of fingertip and target (m) and effort: Gymnasium's Reacher-v5.

    Episodes end only at the time limit.
    """

    name = "reacher"
    default_frame_skip = 2
    default_episode_limit = 50
    observation_size = 10
    goal_reaching = True
    model_file = GYMNASIUM_MODELS / "reacher.xml"
    coarse = CoarsePhysics(timestep_factor=2.0)
    sensed: tuple[str, ...] = ("xpos",)

    def reach(self, task: Task) -> float:
        """Returns the radius (m) of the disc in which targets are drawn."""
        del task
        return TARGET_RADIUS

    def __init__(self, frame_skip: int, episode_limit: int, task_range: str = "training"):
        super().__init__(frame_skip, episode_limit, task_range)
        self.set_view(center=(0.0, 0.0, 0.0), extent=0.35, azimuth=90.0, elevation=-90.0)

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the outstretched arm with noise, and the target uniformly over the disc.

        The target is part of qpos.
        """
        model = self.model
        qpos = model.qpos0 + generator.uniform(-START_NOISE, START_NOISE, model.nq)
        qvel = generator.uniform(-START_SPEED_NOISE, START_SPEED_NOISE, model.nv)
        radius = self.reach(task) * np.sqrt(generator.uniform())
        angle = generator.uniform(-np.pi, np.pi)
        qpos[JOINTS:] = radius * np.cos(angle), radius * np.sin(angle)
        qvel[JOINTS:] = 0.0
        return qpos, qvel, np.zeros(0)

    def offset(self, state: State) -> Array:
        """Returns fingertip - target (m), [P, 3].

        As in Gymnasium, positions belong to the state before the last physics step.
        """
        fingertip, target = self.model.body("fingertip").id, self.model.body("target").id
        return state.sensed["xpos"][:, fingertip] - state.sensed["xpos"][:, target]

    def distance(self, state: State) -> Array:
        """Returns the distance from fingertip to target (m), [P]."""
        return state.once("distance", self._distance)

    def _distance(self, state: State) -> Array:
        distance: Array = np.sqrt(np.square(self._offset(state)).sum(axis=1))
        return distance

    def _offset(self, state: State) -> Array:
        return state.once("offset", self.offset)

    def observe(self, state: State) -> Array:
        """Returns the observation.

        It has cosines and sines of the joints, the target (m), joint velocities (rad/s), and
        fingertip - target (m).
        """
        angles, target = state.qpos[:, :JOINTS], state.qpos[:, JOINTS:]
        speeds, offset = state.qvel[:, :JOINTS], self._offset(state)[:, :2]
        return np.concatenate([np.cos(angles), np.sin(angles), target, speeds, offset], axis=1)

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns -distance - control cost."""
        del before
        return -self.distance(after) - np.square(action).sum(axis=1)

    def succeeded(self, state: State) -> Array:
        """Returns True within 0.02 m of the target; the episode continues there."""
        return self.distance(state) < REACHED_DISTANCE


class RandomReacher(Reacher):
    """Rewards reaching a target with links of unknown length (EPG, Appendix A, Figure 7).

    Every episode draws a target, which is observed, within the reach of the outstretched arm. An
    arm with two different lengths cannot reach a disc around its root; the radius of the disc is
    the difference of the lengths. Links keep thickness and density, so a longer link is heavier.
    But the joints' armature of 1 kg m^2 dominates the inertia, so tasks differ mainly in geometry.
    """

    name = "random_reacher"
    quantities = (
        Quantity("length", "times the link's own (0.1 m)", LENGTH, LONGER, size=2, possible=FACTOR),
    )
    expanded = (
        "body_pos",
        "body_ipos",
        "body_mass",
        "body_inertia",
        "geom_pos",
        "geom_size",
        "jnt_range",
    )
    sensed = ()

    def reach(self, task: Task) -> float:
        """Returns the largest distance (m) of the fingertip's centre from the root of the arm."""
        return LINK * task["length"].sum() + TIP

    def fields(self, task: Task) -> Mapping[str, Array]:
        """Returns the model fields of a task, as MuJoCo derives them from the links' capsules.

        The limits of the target's joints include all targets.
        """
        model, length, reach = self.model, LINK * task["length"], self.reach(task)
        fields = {name: getattr(model, name).copy() for name in self.expanded}
        fields["body_pos"][model.body("body1").id, 0] = length[0]
        fields["body_pos"][model.body("fingertip").id, 0] = length[1] + TIP
        widest = max(reach, model.jnt_range[JOINTS, 1])
        fields["jnt_range"][JOINTS:] = -widest, widest
        for link in range(JOINTS):
            body, geom = model.body(f"body{link}").id, model.geom(f"link{link}").id
            old = model.geom_size[geom]
            new = np.array([old[0], length[link] / 2, 0.0])
            # The volume of a capsule is 2 pi radius^2 (half length + 2/3 radius).
            mass = (new[1] + new[0] * 2 / 3) / (old[1] + old[0] * 2 / 3)
            across, along = mass * capsule_inertia(new) / capsule_inertia(old)
            fields["body_ipos"][body, 0] = fields["geom_pos"][geom, 0] = new[1]
            fields["body_mass"][body] *= mass
            fields["body_inertia"][body] *= across, across, along
            fields["geom_size"][geom] = new
        return fields

    def offset(self, state: State) -> Array:
        """Returns fingertip - target (m) in the plane, [P, 2], in the given state."""
        length = LINK * state.task["length"]
        first, second = state.qpos[:, 0], state.qpos[:, 0] + state.qpos[:, 1]
        near, far = length[:, 0], length[:, 1] + TIP
        fingertip = np.stack(
            [
                near * np.cos(first) + far * np.cos(second),
                near * np.sin(first) + far * np.sin(second),
            ],
            axis=1,
        )
        return fingertip - state.qpos[:, JOINTS:]

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns minus the distance (m)."""
        del before, action
        return -self.distance(after)
