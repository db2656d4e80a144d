"""Finds task families by name, takes in those of users, and simulates them."""

from __future__ import annotations

from epg_tf.config import ConfigError, TaskConfig
from epg_tf.tasks.ant import Ant, ForwardBackwardAnt, GoalAnt, GoalAntNoReset
from epg_tf.tasks.base import Simulation, TaskFamily
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.fetch import FetchReach
from epg_tf.tasks.gymnasium_family import PREFIX, GymnasiumFamily, GymnasiumSimulation
from epg_tf.tasks.half_cheetah import DirectionalHalfCheetah, HalfCheetah
from epg_tf.tasks.hopper import DirectionalHopper, Hopper, RandomHopper
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.reacher import RandomReacher, Reacher
from epg_tf.tasks.walker2d import RandomWalker, Walker2d

FAMILIES: dict[str, type[BodyFamily]] = {
    family.name: family for family in (
        PointGoal,
        Hopper, RandomHopper, DirectionalHopper,
        Walker2d, RandomWalker,
        HalfCheetah, DirectionalHalfCheetah,
        Reacher, RandomReacher,
        Ant, GoalAnt, ForwardBackwardAnt, GoalAntNoReset,
        FetchReach)}


def register_family(family: type[BodyFamily]) -> type[BodyFamily]:
    """Makes a family of one's own known by its name; usable as a class decorator.

    Raises:
      ConfigError: Another class has that name already.
    """
    known = FAMILIES.setdefault(family.name, family)
    if (known.__module__, known.__qualname__) != (family.__module__, family.__qualname__):
        raise ConfigError(f"there is a task family {family.name!r} already; give yours another name")
    FAMILIES[family.name] = family
    return family


def make_family(config: TaskConfig) -> TaskFamily:
    """Returns the family that `config` names.

    Raises:
      ConfigError: No family has that name, or its settings do not fit it.
    """
    if config.family.startswith(PREFIX):
        return GymnasiumFamily(config.family.removeprefix(PREFIX), config.frame_skip, config.episode_limit,
                               config.range)
    if config.family not in FAMILIES:
        raise ConfigError(f"config.task.family={config.family!r} is not a task family; choose one of "
                          f"{sorted(FAMILIES)} or 'gymnasium:ID', or name the --config that registers yours")
    return FAMILIES[config.family](config.frame_skip, config.episode_limit, config.range)


def simulate(family: TaskFamily, population: int) -> Simulation:
    """Returns P simulations of a family, on the calling thread."""
    if isinstance(family, GymnasiumFamily):
        return GymnasiumSimulation(family, population)
    return BodySimulation(family, population)
