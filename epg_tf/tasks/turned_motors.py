"""Defines TurnedMotors, a family that needs learning: PointGoal with motors turned by an unknown
angle.

The goal is observed, but what an action does must be found out. A policy that pushes towards the
goal with one angle pushes away from it with the opposite angle.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import State
from epg_tf.tasks.point_body import ANGLE
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.quantities import Quantity, Task


class TurnedMotors(PointGoal):
    """Rewards the velocity towards a goal (m/s) of a body whose motors are turned.

    PointGoal's reward, the distance, depends more on where an episode starts than on what the agent
    does. The velocity shows in each env step what the action did.
    """

    name = "turned_motors"
    quantities = (
        Quantity(
            "turn",
            "rad, of the motors, anticlockwise",
            (0.0, 2 * np.pi),
            nominal=0.0,
            possible=ANGLE,
        ),
        *PointGoal.quantities,
    )
    expanded = ("body_mass", "body_inertia", "dof_damping")

    def __init__(self, frame_skip: int, episode_limit: int, task_range: str = "training"):
        super().__init__(frame_skip, episode_limit, task_range)
        # Actions have limits; what they do along x and y, with gains and turned, may be more.
        self.model.actuator_ctrllimited[:] = False

    def fields(self, task: Task) -> Mapping[str, Array]:
        """Returns the model fields of a task; gains belong to the motors, so `control` applies
        them.
        """
        fields = super().fields(task)
        return {name: fields[name] for name in self.expanded}

    def control(self, state: State, controls: Array, rows: Array, action: Array) -> None:
        """Turns the pushes of the two motors by the task's angle."""
        angle, push = state.task["turn"][rows], state.task["gain"][rows] * action
        cosine, sine = np.cos(angle), np.sin(angle)
        controls[rows, 0] = cosine * push[:, 0] - sine * push[:, 1]
        controls[rows, 1] = sine * push[:, 0] + cosine * push[:, 1]

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns the mean velocity towards the goal during the env step (m/s)."""
        del action
        return self.approach(before, after)
