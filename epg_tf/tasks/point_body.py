"""Defines the planar body that PointGoal, HiddenGoal and TurnedMotors push to a goal.

Mass, damping and motor gains are random. Walls are the joints' limits, so nothing is in contact.
"""

from __future__ import annotations

import abc
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
ANGLE = (-2 * np.pi, 2 * np.pi)  # rad, what users may choose; angles in degrees are outside


class PointBody(BodyFamily):
    """Describes tasks in which the planar body is to be at a goal.

    Episodes end only at the time limit.
    """

    goal_reaching = True
    default_frame_skip = 4
    default_episode_limit = 25
    model_file = pathlib.Path(__file__).parent / "assets" / "point.xml"
    quantities: tuple[Quantity, ...] = (
        Quantity("mass", "times 1 kg", SCALE, LARGER, possible=FACTOR),
        Quantity("damping", "times 5 N s/m", SCALE, LARGER, possible=FACTOR),
        Quantity("gain", "times 10 N per unit of action", SCALE, SMALLER, size=2, possible=FACTOR),
    )
    expanded: tuple[str, ...] = ("body_mass", "body_inertia", "dof_damping", "actuator_gear")

    def fields(self, task: Task) -> Mapping[str, Array]:
        """Returns the model fields of a task; each motor has its own gain."""
        return {
            "body_mass": self.model.body_mass * task["mass"],
            "body_inertia": self.model.body_inertia * task["mass"],
            "dof_damping": self.model.dof_damping * task["damping"],
            "actuator_gear": self.model.actuator_gear * task["gain"][:, None],
        }

    @abc.abstractmethod
    def to_goal(self, state: State) -> Array:
        """Returns goal - position (m), [P, 2]."""

    def distance(self, state: State) -> Array:
        """Returns the distance to the goal (m), [P]."""
        distance: Array = np.sqrt(np.square(self.to_goal(state)).sum(axis=1))
        return distance

    def approach(self, before: State, after: State) -> Array:
        """Returns the mean velocity towards the goal during an env step (m/s), [P].

        It is the distance before minus the distance after, divided by the seconds of the step. So
        the return of an episode depends only on where it starts and ends.
        """
        return (self.distance(before) - self.distance(after)) / self.seconds_per_step

    def succeeded(self, state: State) -> Array:
        """Returns True within 0.1 m of the goal; the episode continues there."""
        return np.square(self.to_goal(state)).sum(axis=1) < GOAL_RADIUS**2

    def place(self, state: State) -> Array:
        """Returns the body's position."""
        return state.qpos.copy()

    def marker(self, state: State) -> Array:
        """Returns the goal, at the body's height."""
        return np.pad(state.qpos + self.to_goal(state), ((0, 0), (0, 1)))
