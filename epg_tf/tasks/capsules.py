"""Randomises bodies whose links are capsules: mass, friction, radius, gravity (EPG, Appendix A).

The paper does not give the ranges. Those here are of the authors' code; inertia follows the radius
here, which it does not in their code.
"""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.bodies import State
from epg_tf.tasks.planar import PlanarBody
from epg_tf.tasks.quantities import FACTOR, Quantity, Task

SCALE = (0.5, 2.0)  # times the body's own mass, friction, radius
LARGER = (2.0, 3.0)  # out of distribution
GRAVITY = (-20.0, -2.0)  # m/s^2
LOW_GRAVITY = (-2.0, -1.0)  # m/s^2, out of distribution


def body_quantities(links: int) -> tuple[Quantity, ...]:
    """Returns the randomised quantities of a body with `links` links; the floor has a friction."""
    own, floor_first = "times the link's own", "times the geom's own, floor first"
    return (
        Quantity("mass", own, SCALE, LARGER, size=links, possible=FACTOR),
        Quantity("friction", floor_first, SCALE, LARGER, size=links + 1, possible=FACTOR),
        Quantity("radius", own, SCALE, LARGER, size=links, possible=FACTOR),
        Quantity("gravity", "m/s^2", GRAVITY, LOW_GRAVITY, nominal=-9.81, possible=(-100.0, 100.0)),
    )


class RandomCapsules(PlanarBody):
    """Rewards running forward with an unknown body, whose quantities are `body_quantities`.

    Geom 0 of its model is the floor, geom i > 0 the only geom of body i, a capsule.
    """

    expanded = (
        "body_mass",
        "body_inertia",
        "geom_friction",
        "geom_size",
        "geom_rbound",
        "opt.gravity",
    )

    def fields(self, task: Task) -> Mapping[str, Array]:
        """Returns the model fields of a task."""
        model = self.model
        size = model.geom_size.copy()
        size[1:, 0] *= task["radius"]
        mass = np.concatenate([[1.0], task["mass"]])
        bound = model.geom_rbound.copy()
        bound[1:] = size[1:, 0] + size[1:, 1]
        return {
            "body_mass": model.body_mass * mass,
            "body_inertia": model.body_inertia * _inertia_factors(model, size) * mass[:, None],
            "geom_friction": model.geom_friction * task["friction"][:, None],
            "geom_size": size,
            "geom_rbound": bound,
            "opt.gravity": np.array([0.0, 0.0, task["gravity"]]),
        }

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns forward velocity (m/s)."""
        del action
        return self.velocity(before, after)


def _inertia_factors(model: mujoco.MjModel, size: Array) -> Array:
    """Returns the factors [nbody, 3] of the principal inertias for new sizes and equal masses."""
    factors = np.ones((model.nbody, 3))
    for link in range(1, model.nbody):
        turn, capsule = np.zeros(9), np.zeros(9)
        mujoco.mju_quat2Mat(turn, model.body_iquat[link])
        mujoco.mju_quat2Mat(capsule, model.geom_quat[link])
        along = np.abs(turn.reshape(3, 3).T @ capsule.reshape(3, 3)[:, 2]) > 0.5
        ratio = capsule_inertia(size[link]) / capsule_inertia(model.geom_size[link])
        factors[link] = ratio[along.astype(int)]
    return factors


def capsule_inertia(size: Array) -> Array:
    """Returns (across, along), the moments of inertia of a capsule of mass 1.

    Args:
      size: (radius, half length, ...) in m.
    """
    radius, half = size[0], size[1]
    cylinder, sphere = np.pi * radius**2 * 2 * half, 4.0 / 3.0 * np.pi * radius**3
    cylinder, sphere = cylinder / (cylinder + sphere), sphere / (cylinder + sphere)
    along = cylinder * radius**2 / 2 + sphere * 2 * radius**2 / 5
    across = cylinder * (radius**2 / 4 + half**2 / 3) + sphere * (
        2 * radius**2 / 5 + half**2 + 3 * half * radius / 4
    )
    return np.array([across, along])
