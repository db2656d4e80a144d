"""Randomises bodies whose every link is one capsule: masses, friction, thickness and gravity (EPG,
Appendix A).

The paper leaves the ranges open; those here are of the authors' code, with inertia following
thickness, which theirs does not.
"""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.quantities import FACTOR, Quantity, Task

SCALE = (0.5, 2.0)  # times the body's own mass, friction, radius
LARGER = (2.0, 3.0)  # out of distribution
GRAVITY = (-20.0, -2.0)  # m/s^2
MOON = (-2.0, -1.0)  # m/s^2, out of distribution

FIELDS = ("body_mass", "body_inertia", "geom_friction", "geom_size", "geom_rbound", "opt.gravity")


def body_quantities(links: int) -> tuple[Quantity, ...]:
    """Lists what is randomised in a body of so many links (and a floor, which has a friction of its
    own).
    """
    return (
        Quantity("mass", "times the link's own", SCALE, LARGER, size=links, possible=FACTOR),
        Quantity(
            "friction",
            "times the geom's own, floor first",
            SCALE,
            LARGER,
            size=links + 1,
            possible=FACTOR,
        ),
        Quantity("radius", "times the link's own", SCALE, LARGER, size=links, possible=FACTOR),
        Quantity("gravity", "m/s^2", GRAVITY, MOON, nominal=-9.81, possible=(-100.0, 100.0)),
    )


def body_fields(model: mujoco.MjModel, task: Task) -> Mapping[str, Array]:
    """Returns the model fields `FIELDS` of a task.

    Args:
      model: Unrandomised body: geom 0 is the floor, geom i > 0 a capsule and all there is of body
      i.
      task: Values of `body_quantities`.
    """
    size = model.geom_size.copy()
    size[1:, 0] *= task["radius"]
    mass = np.concatenate([[1.0], task["mass"]])
    bound = model.geom_rbound.copy()
    bound[1:] = size[1:, 0] + size[1:, 1]
    return {
        "body_mass": model.body_mass * mass,
        "body_inertia": model.body_inertia * _thickness(model, size) * mass[:, None],
        "geom_friction": model.geom_friction * task["friction"][:, None],
        "geom_size": size,
        "geom_rbound": bound,
        "opt.gravity": np.array([0.0, 0.0, task["gravity"]]),
    }


def _thickness(model: mujoco.MjModel, size: Array) -> Array:
    """Returns [nbody, 3]: by what the principal inertias of a link grow with its new size, its mass
    unchanged.
    """
    factors = np.ones((model.nbody, 3))
    for link in range(1, model.nbody):
        turn, capsule = np.zeros(9), np.zeros(9)
        mujoco.mju_quat2Mat(turn, model.body_iquat[link])
        mujoco.mju_quat2Mat(capsule, model.geom_quat[link])
        along = np.abs(turn.reshape(3, 3).T @ capsule.reshape(3, 3)[:, 2]) > 0.5
        factors[link] = (capsule_inertia(size[link]) / capsule_inertia(model.geom_size[link]))[
            along.astype(int)
        ]
    return factors


def capsule_inertia(size: Array) -> Array:
    """Returns (across, along) moments of a capsule of mass 1: radius size[0], half length size[1],
    in m.
    """
    radius, half = size[0], size[1]
    cylinder, sphere = np.pi * radius**2 * 2 * half, 4.0 / 3.0 * np.pi * radius**3
    cylinder, sphere = cylinder / (cylinder + sphere), sphere / (cylinder + sphere)
    along = cylinder * radius**2 / 2 + sphere * 2 * radius**2 / 5
    across = cylinder * (radius**2 / 4 + half**2 / 3) + sphere * (
        2 * radius**2 / 5 + half**2 + 3 * half * radius / 4
    )
    return np.array([across, along])
