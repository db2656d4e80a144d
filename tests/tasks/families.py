"""Holds small families that do what no registered one does."""

from __future__ import annotations

import numpy as np

from epg_tf.tasks.bodies import State
from epg_tf.tasks.point_goal import PointGoal


class Compass(PointGoal):
    """A body that is pushed along one of four directions."""

    name = "compass"
    discrete_actions = True

    def __init__(self, frame_skip: int, episode_limit: int, task_range: str = "training"):
        super().__init__(frame_skip, episode_limit, task_range)
        self.action_size = 4
        self.action_bounds = np.zeros(4), np.ones(4)

    def control(
        self, state: State, controls: np.ndarray, rows: np.ndarray, action: np.ndarray
    ) -> None:
        """Pushes right, left, up or down."""
        controls[rows] = action @ np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


class Wanderer(PointGoal):
    """Walks on where time was up; ends, for good, at the right wall, where its reward is not a
    number.
    """

    name = "wanderer"
    continues = True

    def terminated(self, state: State) -> np.ndarray:
        """Returns True beyond x = 0.9."""
        return state.qpos[:, 0] > 0.9

    def reward(self, before: State, after: State, action: np.ndarray) -> np.ndarray:
        """Returns 1, or nothing sensible beyond x = 0.99."""
        return np.where(after.qpos[:, 0] > 0.99, np.nan, 1.0)
