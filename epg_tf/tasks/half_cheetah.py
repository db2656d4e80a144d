"""Defines Gymnasium's HalfCheetah, and DirectionalHalfCheetah with an unknown direction."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import GYMNASIUM_MODELS, CoarsePhysics, State
from epg_tf.tasks.capsules import LARGER, SCALE
from epg_tf.tasks.planar import PlanarBody
from epg_tf.tasks.quantities import FACTOR, Quantity, Task

START_NOISE = 0.1  # positions: half the range (m, rad); velocities: standard deviation (m/s, rad/s)
CONTROL_COST = 0.1  # times the squared action
DIRECTIONAL_COST = 0.05  # the same, of DirectionalHalfCheetah


class HalfCheetah(PlanarBody):
    """Rewards forward velocity (m/s) and little effort: Gymnasium's HalfCheetah-v5.

    Episodes end only at the time limit.
    """

    name = "half_cheetah"
    default_frame_skip = 5
    observation_size = 17
    model_file = GYMNASIUM_MODELS / "half_cheetah.xml"
    # With 5 the joints' stiff springs diverge; with 2.5 trained agents run a quarter slower.
    coarse = CoarsePhysics(timestep_factor=1.7)
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
        """Returns forward velocity - control cost."""
        return self.velocity(before, after) - self.control_cost * np.square(action).sum(axis=1)


class DirectionalHalfCheetah(HalfCheetah):
    """Rewards running forward or backward (EPG, Appendix A, Figure 9).

    Only the reward shows the direction. Reward and termination are those of the MAML code
    (cbfinn/maml_rl), which the paper used, but the forward position, which that code observes, is
    not observed. The body is Gymnasium's; out of distribution it has more mass and friction.
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
        """Returns the model fields of a task: one factor for all masses, one for all frictions."""
        return {
            "body_mass": self.model.body_mass * task["mass"],
            "body_inertia": self.model.body_inertia * task["mass"],
            "geom_friction": self.model.geom_friction * task["friction"],
        }

    def velocity(self, before: State, after: State) -> Array:
        """Returns velocity in the wanted direction (m/s), [P]."""
        return after.task["direction"] * super().velocity(before, after)
