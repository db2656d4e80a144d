"""Defines PointGoal, a fast family of this package: push a planar body to a goal.

Mass, damping and motor gains are random. Walls are the joints' limits, so nothing is in contact.
Every episode draws a goal, because the running normalisation would subtract a goal that is constant
during a life.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import BodyFamily, State
from epg_tf.tasks.quantities import FACTOR, Quantity, Task

SCALE = (0.5, 2.0)
LARGER = (2.0, 3.0)  # out of distribution
SMALLER = (0.3, 0.5)
ARENA = 1.0  # m, half its side
GOAL_RADIUS = 0.1  # m, distance at which the goal is reached


class PointGoal(BodyFamily):
    """Rewards a small distance of a pushed body to a goal (m) in every env step.

    Episodes end only at the time limit.
    """

    name = "point_goal"
    observation_size = 6
    goal_size = 2
    goal_reaching = True
    default_frame_skip = 4
    default_episode_limit = 25
    model_file = pathlib.Path(__file__).parent / "assets" / "point.xml"
    quantities = (
        Quantity("mass", "times 1 kg", SCALE, LARGER, possible=FACTOR),
        Quantity("damping", "times 5 N s/m", SCALE, LARGER, possible=FACTOR),
        Quantity("gain", "times 10 N per unit of action", SCALE, SMALLER, size=2, possible=FACTOR),
    )
    expanded = ("body_mass", "body_inertia", "dof_damping", "actuator_gear")

    def fields(self, task: Task) -> Mapping[str, Array]:
        """Returns the model fields of a task; each motor has its own gain."""
        return {
            "body_mass": self.model.body_mass * task["mass"],
            "body_inertia": self.model.body_inertia * task["mass"],
            "dof_damping": self.model.dof_damping * task["damping"],
            "actuator_gear": self.model.actuator_gear * task["gain"][:, None],
        }

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws body and goal uniformly in the arena; the body starts at rest."""
        del task
        places = generator.uniform(-ARENA, ARENA, (2, 2))
        return places[0], np.zeros(2), places[1]

    def observe(self, state: State) -> Array:
        """Returns goal - position (m), position (m), velocity (m/s)."""
        return np.concatenate([state.goal - state.qpos, state.qpos, state.qvel], axis=1)

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns minus the distance to the goal (m)."""
        del before, action
        return -np.sqrt(np.square(after.goal - after.qpos).sum(axis=1))

    def succeeded(self, state: State) -> Array:
        """Returns True within 0.1 m of the goal; the episode continues there."""
        return np.square(state.goal - state.qpos).sum(axis=1) < GOAL_RADIUS**2

    def place(self, state: State) -> Array:
        """Returns the body's position."""
        return state.qpos.copy()

    def marker(self, state: State) -> Array:
        """Returns the goal, at the body's height."""
        return np.pad(state.goal, ((0, 0), (0, 1)))
