"""PointGoal: push a planar body of unknown mass, damping and motor gains to a goal. Our own family, made to be quick.

Walls are the joints' limits, so the body stops there and nothing else is in contact. A goal that stood still for a
whole life would be invisible: the running normalisation subtracts what does not vary. So every episode draws its own.
"""

from __future__ import annotations

import pathlib

import mujoco
import numpy as np

from epg_tf.tasks.base import State, Task, TaskFamily

MODEL_FILE = pathlib.Path(__file__).parent / "assets" / "point.xml"
MASS_RANGE = (0.5, 2.0)  # times 1 kg
DAMPING_RANGE = (0.5, 2.0)  # times 5 N s/m
GAIN_RANGE = (0.5, 2.0)  # times 10 N per unit of action, each axis on its own
ARENA = 1.0  # m, half its side


class PointGoal(TaskFamily):
    """Reward -distance to the goal (m) per env step; episodes end at the time limit only."""

    name = "point_goal"
    observation_size = 6
    goal_size = 2
    expanded = ("body_mass", "body_inertia", "dof_damping", "actuator_gear")

    def __init__(self, frame_skip: int, episode_limit: int, randomize: bool):
        super().__init__(mujoco.MjModel.from_xml_path(str(MODEL_FILE)), frame_skip, episode_limit, randomize)

    def sample_task(self, generator: np.random.Generator) -> Task:
        """Draws mass, damping and one gain per motor, each uniform in its range."""
        mass, damping = generator.uniform(*MASS_RANGE), generator.uniform(*DAMPING_RANGE)
        gains = generator.uniform(*GAIN_RANGE, self.model.nu)
        if not self.randomize:
            mass, damping, gains = 1.0, 1.0, np.ones(self.model.nu)
        return {
            "body_mass": self.model.body_mass * mass,
            "body_inertia": self.model.body_inertia * mass,
            "dof_damping": self.model.dof_damping * damping,
            "actuator_gear": self.model.actuator_gear * gains[:, None],
        }

    def start(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws body and goal uniformly in the arena; the body rests."""
        places = generator.uniform(-ARENA, ARENA, (2, 2))
        return places[0], np.zeros(2), places[1]

    def observe(self, state: State) -> np.ndarray:
        """Returns goal - position (m), position (m), velocity (m/s)."""
        return np.concatenate([state.goal - state.qpos, state.qpos, state.qvel], axis=1)

    def reward(self, before: State, after: State, action: np.ndarray) -> np.ndarray:
        """Returns minus the distance to the goal (m)."""
        del before, action
        return -np.sqrt(np.square(after.goal - after.qpos).sum(axis=1))

    def terminated(self, state: State) -> np.ndarray:
        """Returns False: reaching the goal ends nothing, staying there is the task."""
        return np.zeros(len(state.qpos), bool)
