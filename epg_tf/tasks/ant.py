"""Ant: Gymnasium's, and the paper's GoalAnt, sent to a place that only the reward tells.

Where the paper is silent: goals are 5 to 10 m away, and a goal is reached within 0.5 m of it.
"""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import GYMNASIUM_MODELS, BodyFamily, State
from epg_tf.tasks.quantities import Quantity, Task

START_NOISE = 0.1  # m, rad: half a range; m/s, rad/s: a deviation
HEALTHY_HEIGHT = (0.2, 1.0)  # m, of the torso's centre
HEALTHY_REWARD = 1.0  # per env step
CONTROL_COST = 0.5  # times the squared action
TORSO = 1  # body number
NEAR = 0.5  # m, from the goal, counts as reached
RIGHT = (-np.pi / 2, np.pi / 2)  # rad, half of the bearings
LEFT = (np.pi / 2, 3 * np.pi / 2)  # the other half, out of distribution
TURN = (-2 * np.pi, 2 * np.pi)  # rad; degrees would be beyond
FAR = (5.0, 10.0)  # m
WITHIN_A_LIFE = (2.0, 4.0)  # m


class Ant(BodyFamily):
    """Gymnasium's Ant-v5 without contact forces: forward velocity (m/s), 1 for being healthy, less
    effort.
    """

    name = "ant"
    default_frame_skip = 5
    observation_size = 27
    model_file = GYMNASIUM_MODELS / "ant.xml"
    sensed = ("xpos",)

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the standing pose with noise; its quaternion is not of length 1, nor is
        Gymnasium's.
        """
        del task
        qpos = self.model.qpos0 + generator.uniform(-START_NOISE, START_NOISE, self.model.nq)
        return qpos, START_NOISE * generator.standard_normal(self.model.nv), np.zeros(0)

    def observe(self, state: State) -> Array:
        """Returns qpos without the place on the ground (m, quaternion, rad), then qvel (m/s,
        rad/s).
        """
        return np.concatenate([state.qpos[:, 2:], state.qvel], axis=1)

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns velocity + health - effort; velocity as Gymnasium's, up to the last physics step
        but one.
        """
        forward = after.sensed["xpos"][:, TORSO, 0] - before.sensed["xpos"][:, TORSO, 0]
        healthy = np.where(self.terminated(after), 0.0, HEALTHY_REWARD)
        return (
            forward / self.seconds_per_step + healthy - CONTROL_COST * np.square(action).sum(axis=1)
        )

    def terminated(self, state: State) -> Array:
        """Returns True where the torso is lower than 0.2 m or higher than 1 m."""
        low, high = HEALTHY_HEIGHT
        return ~((state.qpos[:, 2] >= low) & (state.qpos[:, 2] <= high))

    def place(self, state: State) -> Array:
        """Returns where the torso is."""
        return state.qpos[:, :2].copy()


class GoalAnt(Ant):
    """Walk to a goal that is not observed, from an unknown heading (EPG, Appendix A, Figures 10, 15
    and 18).

    In training, goals are on the right half of the plane (x > 0), out of distribution on the left.
    """

    name = "goal_ant"
    goal_reaching = True
    quantities = (
        Quantity(
            "bearing", "rad, of the goal, 0 along +x", RIGHT, LEFT, nominal=0.0, possible=TURN
        ),
        Quantity("distance", "m, of the goal", FAR, nominal=10.0, possible=(0.0, 1000.0)),
        Quantity("rotation", "rad, initial heading", (-np.pi, np.pi), nominal=0.0, possible=TURN),
    )
    sensed = ()

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws Ant's start and turns all of it by the task's rotation about the origin."""
        qpos, qvel, goal = super().start(generator, task)
        turn = task["rotation"]
        cosine, sine = np.cos(turn), np.sin(turn)
        flat = np.array([[cosine, -sine], [sine, cosine]])
        qpos[:2], qvel[:2] = (
            flat @ qpos[:2],
            flat @ qvel[:2],
        )  # the free joint's angular velocity is the body's own
        mujoco.mju_mulQuat(
            qpos[3:7], np.array([np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2)]), qpos[3:7].copy()
        )
        mujoco.mju_normalize4(qpos[3:7])
        return qpos, qvel, goal

    def way(self, state: State) -> Array:
        """Returns goal - torso (m) on the ground, [P, 2]."""
        bearing = state.task["bearing"]
        goal = state.task["distance"][:, None] * np.stack(
            [np.cos(bearing), np.sin(bearing)], axis=1
        )
        return goal - state.qpos[:, :2]

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns the torso's velocity towards where the goal was before the step (m/s)."""
        del action
        way = self.way(before)
        moved = (after.qpos[:, :2] - before.qpos[:, :2]) / self.seconds_per_step
        return (moved * way).sum(axis=1) / np.maximum(np.sqrt(np.square(way).sum(axis=1)), 1e-9)

    def succeeded(self, state: State) -> Array:
        """Returns True within 0.5 m of the goal."""
        return np.square(self.way(state)).sum(axis=1) < NEAR**2

    def marker(self, state: State) -> Array:
        """Returns the goal, on the ground."""
        return np.pad(state.qpos[:, :2] + self.way(state), ((0, 0), (0, 1)))


class ForwardBackwardAnt(GoalAnt):
    """GoalAnt with goals along +x or -x (EPG, Figure 22 c); out of distribution, along -y or +y."""

    name = "forward_backward_ant"
    quantities = (
        dataclasses.replace(
            GoalAnt.quantities[0],
            training=(0.0, np.pi),
            shifted=(-np.pi / 2, np.pi / 2),
            either=True,
        ),
        *GoalAnt.quantities[1:],
    )


class GoalAntNoReset(GoalAnt):
    """GoalAnt that goes on where it stands until it reaches the goal (EPG, Appendix B, Figure 19).

    Nothing else ends an episode for good, falling over neither. Goals are near enough to be reached
    in a life.
    """

    name = "goal_ant_no_reset"
    continues = True
    quantities = (
        GoalAnt.quantities[0],
        dataclasses.replace(GoalAnt.quantities[1], training=WITHIN_A_LIFE, nominal=4.0),
        GoalAnt.quantities[2],
    )

    def terminated(self, state: State) -> Array:
        """Returns True where the goal is reached."""
        return self.succeeded(state)
