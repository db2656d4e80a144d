"""Holds registered families compiled once, and small families that no registered one resembles."""

from __future__ import annotations

import copy
import functools

import numpy as np

from epg_tf.tasks.bodies import BodyFamily, State
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.registry import FAMILIES


@functools.cache
def _compiled(name: str, task_range: str) -> BodyFamily:
    return FAMILIES[name](2, 1000, task_range)


def shared_family(name: str, episode_limit: int = 1000, task_range: str = "training") -> BodyFamily:
    """Returns a family with frame skip 2; all of one name and range share a compiled model.

    Tests may change its attributes, which are its own, but not the model.
    """
    family = copy.copy(_compiled(name, task_range))
    family.episode_limit = episode_limit
    return family


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


class Choices(PointGoal):
    """The body is pushed along one axis or the other."""

    name = "choices"
    discrete_actions = True


class Wanderer(PointGoal):
    """Continues after a time limit; terminates at the right wall, where its reward is NaN."""

    name = "wanderer"
    continues = True

    def terminated(self, state: State) -> np.ndarray:
        """Returns True beyond x = 0.9."""
        return state.qpos[:, 0] > 0.9

    def reward(self, before: State, after: State, action: np.ndarray) -> np.ndarray:
        """Returns 1, or NaN beyond x = 0.99."""
        return np.where(after.qpos[:, 0] > 0.99, np.nan, 1.0)
