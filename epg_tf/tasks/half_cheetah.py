"""HalfCheetah: Gymnasium's, and DirectionalHalfCheetah of unknown direction."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import GYMNASIUM_MODELS, State
from epg_tf.tasks.capsules import LARGER, SCALE
from epg_tf.tasks.planar import PlanarBody
from epg_tf.tasks.quantities import FACTOR, Quantity, Task

START_NOISE = 0.1  # m, rad: half a range; m/s, rad/s: a deviation
CONTROL_COST = 0.1  # times the squared action
DIRECTIONAL_COST = 0.05  # the same, of DirectionalHalfCheetah


class HalfCheetah(PlanarBody):
    """Gymnasium's HalfCheetah-v5: forward velocity (m/s) less effort; never ends."""

    name = "half_cheetah"
    default_frame_skip = 5
    observation_size = 17
    model_file = GYMNASIUM_MODELS / "half_cheetah.xml"
    control_cost = CONTROL_COST

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the standing pose with noise."""
        del task
        qpos = self.model.qpos0 + generator.uniform(-START_NOISE, START_NOISE, self.model.nq)
        return qpos, START_NOISE * generator.standard_normal(self.model.nv), np.zeros(0)

    def observe(self, state: State) -> Array:
        """Returns qpos without the forward position (m, rad), then qvel (m/s, rad/s)."""
        return np.concatenate([state.qpos[:, 1:], state.qvel], axis=1)

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns velocity - effort."""
        return self.velocity(before, after) - self.control_cost * np.square(action).sum(axis=1)


class DirectionalHalfCheetah(HalfCheetah):
    """Run forward or backward, as only the reward tells (EPG, Appendix A, Figure 9).

    Reward and end are those of the MAML code (cbfinn/maml_rl) that the paper took it from, but the
    forward position, which that code also observes, is not observed. The body is Gymnasium's own;
    out of distribution it is a heavier one that grips more.
    """

    name = "directional_half_cheetah"
    quantities = (
        Quantity("direction", "forward 1 or backward -1", (-1.0, 1.0), either=True),
        Quantity("mass", "times 14 kg", SCALE, LARGER, possible=FACTOR).fixed(),
        Quantity("friction", "times the geoms' own", SCALE, LARGER, possible=FACTOR).fixed(),
    )
    expanded = ("body_mass", "body_inertia", "geom_friction")
    control_cost = DIRECTIONAL_COST

    def fields(self, task: Task) -> Mapping[str, Array]:
        """Returns the body of a task: one factor on all masses, one on all frictions."""
        return {
            "body_mass": self.model.body_mass * task["mass"],
            "body_inertia": self.model.body_inertia * task["mass"],
            "geom_friction": self.model.geom_friction * task["friction"],
        }

    def velocity(self, before: State, after: State) -> Array:
        """Returns velocity in the wanted direction (m/s), [P]."""
        return after.task["direction"] * super().velocity(before, after)
