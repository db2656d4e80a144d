"""Walker2d: Gymnasium's, and the paper's RandomWalker of unknown body.

The paper names RandomWalker's reward and what is randomised; ranges are those of RandomHopper, ends
are Gymnasium's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import GYMNASIUM_MODELS, State
from epg_tf.tasks.capsules import FIELDS, body_fields, body_quantities
from epg_tf.tasks.planar import PlanarWalker
from epg_tf.tasks.quantities import Task

MINIMUM_HEIGHT = 0.8  # m, of the torso
MAXIMUM_HEIGHT = 2.0  # m
MAXIMUM_TILT = 1.0  # rad, of the torso
LINKS = 7


class Walker2d(PlanarWalker):
    """Gymnasium's Walker2d-v5: forward velocity (m/s), 1 for being healthy, little for effort."""

    name = "walker2d"
    observation_size = 17
    model_file = GYMNASIUM_MODELS / "walker2d_v5.xml"

    def terminated(self, state: State) -> Array:
        """Returns True where the torso is not between 0.8 and 2 m high, or tilted by 1 rad or more."""
        height, tilt = state.qpos[:, 1], state.qpos[:, 2]
        return ~(
            (height > MINIMUM_HEIGHT) & (height < MAXIMUM_HEIGHT) & (np.abs(tilt) < MAXIMUM_TILT)
        )


class RandomWalker(Walker2d):
    """Walk forward with unknown gravity, friction, masses and limb thickness (EPG, Appendix A,
    Figure 6).
    """

    name = "random_walker"
    quantities = body_quantities(LINKS)
    expanded = FIELDS

    def fields(self, task: Task) -> Mapping[str, Array]:
        """Returns the body of a task."""
        return body_fields(self.model, task)

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns forward velocity (m/s)."""
        del action
        return self.velocity(before, after)
