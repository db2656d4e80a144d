"""Defines Gymnasium's Hopper and the paper's RandomHopper and DirectionalHopper.

The paper does not give the rewards and terminations of its families; they are those of the authors'
code. The reward is velocity only, without a healthy reward or a control cost.
"""

from __future__ import annotations

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import GYMNASIUM_MODELS, CoarsePhysics, State
from epg_tf.tasks.capsules import RandomCapsules, body_quantities
from epg_tf.tasks.planar import PlanarWalker
from epg_tf.tasks.quantities import Quantity

MINIMUM_HEIGHT = 0.7  # m, of the torso
MAXIMUM_STATE = 100.0  # m, rad, m/s, rad/s; of a healthy body
HEALTHY_TILT = 0.2  # rad, of the torso, in Gymnasium's task
MAXIMUM_TILT = 0.5  # rad, of the torso, in RandomHopper
LINKS = 4


class Hopper(PlanarWalker):
    """Rewards forward velocity (m/s), health and little effort: Gymnasium's Hopper-v5."""

    name = "hopper"
    observation_size = 11
    default_frame_skip = 4
    default_episode_limit = 1000
    model_file = GYMNASIUM_MODELS / "hopper.xml"
    coarse = CoarsePhysics(timestep_factor=4.0)

    def terminated(self, state: State) -> Array:
        """Returns True where the torso is low or tilted, or a joint or velocity is out of range."""
        return _fallen(state) | (np.abs(state.qpos[:, 2]) >= HEALTHY_TILT)


class RandomHopper(RandomCapsules, Hopper):
    """Rewards hopping forward with an unknown body (EPG, Appendix A, Figures 4 and 5).

    Gravity, friction, masses and limb thickness are random.
    """

    name = "random_hopper"
    quantities = body_quantities(LINKS)

    def terminated(self, state: State) -> Array:
        """Returns True where the torso is lower than 0.7 m or tilted by 0.5 rad or more, or a joint
        or velocity is out of range.
        """
        return _fallen(state) | (np.abs(state.qpos[:, 2]) >= MAXIMUM_TILT)


class DirectionalHopper(RandomHopper):
    """Rewards hopping forward or backward (EPG, Appendix A, Figure 8).

    Only the reward shows the direction. The body is Gymnasium's; the first version of the paper
    also randomises it, see `quantities.ranges`. Out of distribution it is a heavier one.
    """

    name = "directional_hopper"
    quantities = (
        Quantity("direction", "forward 1 or backward -1", (-1.0, 1.0), either=True),
        *(quantity.fixed() for quantity in body_quantities(LINKS)),
    )

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns velocity in the wanted direction (m/s)."""
        return after.task["direction"] * super().reward(before, after, action)

    def terminated(self, state: State) -> Array:
        """Returns True where the torso is lower than 0.7 m, or a joint or velocity is out of
        range.
        """
        return _fallen(state)


def _fallen(state: State) -> Array:
    """Returns True where the torso is low, or a joint or velocity is out of range."""
    extent = np.maximum(np.abs(state.qpos[:, 2:]).max(axis=1), np.abs(state.qvel).max(axis=1))
    return ~((state.qpos[:, 1] > MINIMUM_HEIGHT) & (extent < MAXIMUM_STATE))
