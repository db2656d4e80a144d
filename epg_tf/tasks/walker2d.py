"""Walker2d: Gymnasium's, and the paper's RandomWalker of unknown body.

The paper names RandomWalker's reward and what is randomised; ranges are those of RandomHopper, ends are Gymnasium's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epg_tf.tasks.bodies import GYMNASIUM_MODELS, BodyFamily, State
from epg_tf.tasks.capsules import FIELDS, body_fields, body_quantities
from epg_tf.tasks.quantities import Task

START_NOISE = 0.005  # m, rad, m/s, rad/s
MINIMUM_HEIGHT = 0.8  # m, of the torso
MAXIMUM_HEIGHT = 2.0  # m
MAXIMUM_TILT = 1.0  # rad, of the torso
MAXIMUM_SPEED = 10.0  # m/s, rad/s; observed velocities are clipped to it
HEALTHY_REWARD = 1.0  # per env step
CONTROL_COST = 1e-3  # times the squared action
LINKS = 7


class Walker2d(BodyFamily):
    """Gymnasium's Walker2d-v5: forward velocity (m/s), 1 for being healthy, little for effort."""

    name = "walker2d"
    observation_size = 17
    model_file = GYMNASIUM_MODELS / "walker2d_v5.xml"

    def start(self, generator: np.random.Generator, task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws the upright pose with a little noise."""
        del task
        qpos = self.model.qpos0 + generator.uniform(-START_NOISE, START_NOISE, self.model.nq)
        return qpos, generator.uniform(-START_NOISE, START_NOISE, self.model.nv), np.zeros(0)

    def observe(self, state: State) -> np.ndarray:
        """Returns qpos without the forward position (m, rad), then clipped qvel (m/s, rad/s)."""
        return np.concatenate([state.qpos[:, 1:], np.clip(state.qvel, -MAXIMUM_SPEED, MAXIMUM_SPEED)], axis=1)

    def velocity(self, before: State, after: State) -> np.ndarray:
        """Returns forward velocity (m/s) averaged over the env step, [P]."""
        return (after.qpos[:, 0] - before.qpos[:, 0]) / self.seconds_per_step

    def reward(self, before: State, after: State, action: np.ndarray) -> np.ndarray:
        """Returns velocity + health - effort."""
        healthy = np.where(self.terminated(after), 0.0, HEALTHY_REWARD)
        return self.velocity(before, after) + healthy - CONTROL_COST * np.square(action).sum(axis=1)

    def terminated(self, state: State) -> np.ndarray:
        """Returns True where the torso is not between 0.8 and 2 m high, or tilted by 1 rad or more."""
        height, tilt = state.qpos[:, 1], state.qpos[:, 2]
        return ~((height > MINIMUM_HEIGHT) & (height < MAXIMUM_HEIGHT) & (np.abs(tilt) < MAXIMUM_TILT))


class RandomWalker(Walker2d):
    """Walk forward with unknown gravity, friction, masses and limb thickness (EPG, Appendix A, Figure 6)."""

    name = "random_walker"
    quantities = body_quantities(LINKS)
    expanded = FIELDS

    def fields(self, task: Task) -> Mapping[str, np.ndarray]:
        """Returns the body of a task."""
        return body_fields(self.model, task)

    def reward(self, before: State, after: State, action: np.ndarray) -> np.ndarray:
        """Returns forward velocity (m/s)."""
        del action
        return self.velocity(before, after)
