"""Defines Gymnasium's Walker2d, and the paper's RandomWalker with an unknown body.

The paper gives the reward and the randomised quantities of RandomWalker. Ranges are those of
RandomHopper, the termination is Gymnasium's.
"""

from __future__ import annotations

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import GYMNASIUM_MODELS, CoarsePhysics, State
from epg_tf.tasks.capsules import RandomCapsules, body_quantities
from epg_tf.tasks.planar import PlanarWalker

MINIMUM_HEIGHT = 0.8  # m, of the torso
MAXIMUM_HEIGHT = 2.0  # m
MAXIMUM_TILT = 1.0  # rad, of the torso
LINKS = 7


class Walker2d(PlanarWalker):
    """Rewards forward velocity (m/s), health and little effort: Gymnasium's Walker2d-v5."""

    name = "walker2d"
    observation_size = 17
    model_file = GYMNASIUM_MODELS / "walker2d_v5.xml"
    # Of losses that evolved with 4 some fall in exact physics.
    coarse = CoarsePhysics(timestep_factor=2.0)

    def terminated(self, state: State) -> Array:
        """Returns True where the torso is below 0.8 m, above 2 m, or tilted by 1 rad or more."""
        height, tilt = state.qpos[:, 1], state.qpos[:, 2]
        return ~(
            (height > MINIMUM_HEIGHT) & (height < MAXIMUM_HEIGHT) & (np.abs(tilt) < MAXIMUM_TILT)
        )


class RandomWalker(RandomCapsules, Walker2d):
    """Rewards walking forward with an unknown body (EPG, Appendix A, Figure 6).

    Gravity, friction, masses and limb thickness are random.
    """

    name = "random_walker"
    quantities = body_quantities(LINKS)
