"""Defines HiddenGoal, a family that needs learning: only the reward shows where the goal is.

The goal lies in a direction that is the same during a life. On average over directions, the
distance to the goal is smallest at the arena's centre, near which episodes start. So no fixed
policy gets more than 0.01 per episode; one that stands still gets 0.
"""

from __future__ import annotations

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import State
from epg_tf.tasks.point_body import ANGLE, PointBody
from epg_tf.tasks.quantities import Quantity, Task

START = 0.05  # m, half the side of the square in which episodes start
GOAL_DISTANCE = 0.8  # m, from the arena's centre


class HiddenGoal(PointBody):
    """Rewards the velocity of a pushed body towards a goal (m/s) that is never observed.

    Episodes end only at the time limit.
    """

    name = "hidden_goal"
    observation_size = 4
    quantities = (
        Quantity(
            "direction",
            "rad, of the goal from the centre, 0 along +x",
            (-np.pi, np.pi),
            nominal=0.0,
            possible=ANGLE,
        ),
        *PointBody.quantities,
    )

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the body near the arena's centre, at rest."""
        del task
        return generator.uniform(-START, START, 2), np.zeros(2), np.zeros(0)

    def to_goal(self, state: State) -> Array:
        """Returns goal - position (m), [P, 2]."""
        angle = state.task["direction"]
        return GOAL_DISTANCE * np.stack([np.cos(angle), np.sin(angle)], axis=1) - state.qpos

    def observe(self, state: State) -> Array:
        """Returns position (m) and velocity (m/s)."""
        return np.concatenate([state.qpos, state.qvel], axis=1)

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns the mean velocity towards the goal during the env step (m/s)."""
        del action
        return self.approach(before, after)
