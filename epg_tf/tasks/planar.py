"""Defines what bodies that run in a plane share: Gymnasium's Hopper, Walker2d and HalfCheetah."""

from __future__ import annotations

import abc

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import BodyFamily, State
from epg_tf.tasks.quantities import Task

START_NOISE = 0.005  # m, rad, m/s, rad/s
MAXIMUM_SPEED = 10.0  # m/s, rad/s; observed velocities are clipped to it
HEALTHY_REWARD = 1.0  # per env step
CONTROL_COST = 1e-3  # times the squared action


class PlanarBody(BodyFamily):
    """Describes a body whose first position is its distance forward (m)."""

    def velocity(self, before: State, after: State) -> Array:
        """Returns forward velocity (m/s) averaged over the env step, [P]."""
        return (after.qpos[:, 0] - before.qpos[:, 0]) / self.seconds_per_step


class PlanarWalker(PlanarBody):
    """Rewards forward velocity (m/s), 1 for being healthy, minus a small control cost."""

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the upright pose with a little noise."""
        del task
        qpos = self.model.qpos0 + generator.uniform(-START_NOISE, START_NOISE, self.model.nq)
        return qpos, generator.uniform(-START_NOISE, START_NOISE, self.model.nv), np.zeros(0)

    def observe(self, state: State) -> Array:
        """Returns qpos without the forward position (m, rad), then clipped qvel (m/s, rad/s)."""
        qvel = np.minimum(np.maximum(state.qvel, -MAXIMUM_SPEED), MAXIMUM_SPEED)
        return np.concatenate([state.qpos[:, 1:], qvel], axis=1)

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns forward velocity (m/s) + healthy reward - control cost."""
        healthy = np.where(self.terminated(after), 0.0, HEALTHY_REWARD)
        return self.velocity(before, after) + healthy - CONTROL_COST * np.square(action).sum(axis=1)

    @abc.abstractmethod
    def terminated(self, state: State) -> Array:
        """Returns [P] bool: True where the body is not healthy."""
