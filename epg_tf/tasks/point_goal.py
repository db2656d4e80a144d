"""Defines PointGoal, a fast family of this package: push a planar body to a goal.

Every episode draws a goal, because the running normalisation would subtract a goal that is constant
during a life.
"""

from __future__ import annotations

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import State
from epg_tf.tasks.point_body import ARENA, PointBody
from epg_tf.tasks.quantities import Task


class PointGoal(PointBody):
    """Rewards a small distance of a pushed body to a goal (m) in every env step.

    Episodes end only at the time limit.
    """

    name = "point_goal"
    observation_size = 6
    goal_size = 2

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws body and goal uniformly in the arena; the body starts at rest."""
        del task
        places = generator.uniform(-ARENA, ARENA, (2, 2))
        return places[0], np.zeros(2), places[1]

    def to_goal(self, state: State) -> Array:
        """Returns goal - position (m), [P, 2]."""
        return state.goal - state.qpos

    def observe(self, state: State) -> Array:
        """Returns goal - position (m), position (m), velocity (m/s)."""
        return np.concatenate([self.to_goal(state), state.qpos, state.qvel], axis=1)

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns minus the distance to the goal (m)."""
        del before, action
        return -self.distance(after)

    def marker(self, state: State) -> Array:
        """Returns the goal, at the body's height."""
        return np.pad(state.goal, ((0, 0), (0, 1)))
