"""Defines Gymnasium's Ant and the paper's GoalAnt, whose goal is visible only in the reward.

The paper does not give two numbers. Here goals are 5 to 10 m away and reached within 0.5 m.
"""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import GYMNASIUM_MODELS, BodyFamily, CoarsePhysics, State
from epg_tf.tasks.quantities import Quantity, Task

START_NOISE = 0.1  # positions: half the range (m, rad); velocities: standard deviation (m/s, rad/s)
HEALTHY_HEIGHT = (0.2, 1.0)  # m, of the torso's centre
HEALTHY_REWARD = 1.0  # per env step
CONTROL_COST = 0.5  # times the squared action
TORSO = 1  # body number
GOAL_RADIUS = 0.5  # m, distance at which a goal is reached
RIGHT = (-np.pi / 2, np.pi / 2)  # rad, the half of the bearings with x > 0
LEFT = (np.pi / 2, 3 * np.pi / 2)  # the other half, out of distribution
ANGLE = (-2 * np.pi, 2 * np.pi)  # rad, what users may choose; angles in degrees are outside
GOAL_DISTANCE = (5.0, 10.0)  # m
NEAR_GOAL_DISTANCE = (2.0, 4.0)  # m, reachable within one life


class Ant(BodyFamily):
    """Rewards forward velocity (m/s), health and little effort: Ant-v5 without contact forces."""

    name = "ant"
    default_frame_skip = 5
    observation_size = 27
    turning = ((13, 14, 1.0), (1, 4, 0.5), (2, 3, 0.5))  # velocity; w and z, x and y of quaternion
    model_file = GYMNASIUM_MODELS / "ant.xml"
    coarse = CoarsePhysics()  # with a longer timestep it falls over sooner
    sensed: tuple[str, ...] = ("xpos",)

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the standing pose with noise; as in Gymnasium, its quaternion is not normalised."""
        del task
        qpos = self.model.qpos0 + generator.uniform(-START_NOISE, START_NOISE, self.model.nq)
        return qpos, START_NOISE * generator.standard_normal(self.model.nv), np.zeros(0)

    def observe(self, state: State) -> Array:
        """Returns qpos without x and y (m, quaternion, rad), then qvel (m/s, rad/s)."""
        return np.concatenate([state.qpos[:, 2:], state.qvel], axis=1)

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns forward velocity + healthy reward - control cost.

        As in Gymnasium, positions belong to the state before the last physics step.
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
        """Returns the position of the torso."""
        return state.qpos[:, :2].copy()


class GoalAnt(Ant):
    """Rewards walking to a goal that is not observed (EPG, Appendix A, Figures 10, 15 and 18).

    The initial heading is random. In training, goals are on the right half of the plane (x > 0),
    out of distribution on the left half.
    """

    name = "goal_ant"
    goal_reaching = True
    quantities = (
        Quantity(
            "bearing", "rad, of the goal, 0 along +x", RIGHT, LEFT, nominal=0.0, possible=ANGLE
        ),
        Quantity("distance", "m, of the goal", GOAL_DISTANCE, nominal=10.0, possible=(0.0, 1000.0)),
        Quantity("rotation", "rad, initial heading", (-np.pi, np.pi), nominal=0.0, possible=ANGLE),
    )
    sensed = ()

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the start of Ant and rotates it by the task's rotation about the origin."""
        qpos, qvel, goal = super().start(generator, task)
        turn = task["rotation"]
        cosine, sine = np.cos(turn), np.sin(turn)
        flat = np.array([[cosine, -sine], [sine, cosine]])
        qpos[:2] = flat @ qpos[:2]
        qvel[:2] = flat @ qvel[:2]  # a free joint's angular velocity is in the body's own frame
        mujoco.mju_mulQuat(
            qpos[3:7], np.array([np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2)]), qpos[3:7].copy()
        )
        mujoco.mju_normalize4(qpos[3:7])
        return qpos, qvel, goal

    def to_goal(self, state: State) -> Array:
        """Returns goal - torso (m) on the ground, [P, 2]."""
        bearing = state.task["bearing"]
        goal = state.task["distance"][:, None] * np.stack(
            [np.cos(bearing), np.sin(bearing)], axis=1
        )
        return goal - state.qpos[:, :2]

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns the torso's velocity along the direction to the goal before the step (m/s)."""
        del action
        to_goal = self.to_goal(before)
        moved = (after.qpos[:, :2] - before.qpos[:, :2]) / self.seconds_per_step
        distance = np.sqrt(np.square(to_goal).sum(axis=1))
        return (moved * to_goal).sum(axis=1) / np.maximum(distance, 1e-9)

    def succeeded(self, state: State) -> Array:
        """Returns True within 0.5 m of the goal."""
        return np.square(self.to_goal(state)).sum(axis=1) < GOAL_RADIUS**2

    def marker(self, state: State) -> Array:
        """Returns the goal, at height 0."""
        return np.pad(state.qpos[:, :2] + self.to_goal(state), ((0, 0), (0, 1)))


class ForwardBackwardAnt(GoalAnt):
    """Rewards walking to a goal along +x or -x (EPG, Figure 22 c).

    Out of distribution, goals are along -y or +y.
    """

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
    """Rewards walking to a goal; episodes continue in the same state (EPG, Appendix B, Figure 19).

    An episode terminates only at the goal, not when the ant falls over. Goals are near enough to be
    reached in one life.
    """

    name = "goal_ant_no_reset"
    continues = True
    quantities = (
        GoalAnt.quantities[0],
        dataclasses.replace(GoalAnt.quantities[1], training=NEAR_GOAL_DISTANCE, nominal=4.0),
        GoalAnt.quantities[2],
    )

    def terminated(self, state: State) -> Array:
        """Returns True where the goal is reached."""
        return self.succeeded(state)
