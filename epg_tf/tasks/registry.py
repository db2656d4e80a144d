"""Finds task families by name, registers those of users, and makes simulations of them."""

from __future__ import annotations

import dataclasses
import sys
from typing import TypeVar

import gymnasium
from gymnasium.envs.registration import EnvSpec

from epg_tf.core.errors import ConfigError
from epg_tf.core.settings import LARGEST
from epg_tf.core.types import Array
from epg_tf.tasks import units
from epg_tf.tasks.ant import Ant, ForwardBackwardAnt, GoalAnt, GoalAntNoReset
from epg_tf.tasks.base import Simulation, TaskFamily
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.checks import make_checked_family
from epg_tf.tasks.fetch import FetchReach, FetchTarget
from epg_tf.tasks.gymnasium_checks import (
    make_checked_environment,
    make_checked_gymnasium_family,
    prepare_gymnasium_family,
)
from epg_tf.tasks.gymnasium_family import (
    PREFIX,
    GymnasiumFamily,
    registered_limit,
)
from epg_tf.tasks.gymnasium_simulation import GymnasiumSimulation
from epg_tf.tasks.half_cheetah import DirectionalHalfCheetah, HalfCheetah
from epg_tf.tasks.hidden_goal import HiddenGoal
from epg_tf.tasks.hopper import DirectionalHopper, Hopper, RandomHopper
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.reacher import RandomReacher, Reacher
from epg_tf.tasks.settings import TaskConfig
from epg_tf.tasks.turned_motors import TurnedMotors
from epg_tf.tasks.walker2d import RandomWalker, Walker2d

Family = TypeVar("Family", bound=TaskFamily)

FAMILIES: dict[str, type[TaskFamily]] = {
    family.name: family
    for family in (
        PointGoal,
        HiddenGoal,
        TurnedMotors,
        Hopper,
        RandomHopper,
        DirectionalHopper,
        Walker2d,
        RandomWalker,
        HalfCheetah,
        DirectionalHalfCheetah,
        Reacher,
        RandomReacher,
        Ant,
        GoalAnt,
        ForwardBackwardAnt,
        GoalAntNoReset,
        FetchReach,
        FetchTarget,
    )
}

_LONG = 1000  # env steps; no measurement reaches this limit
_UNITS: dict[TaskConfig, tuple[object, tuple[Array, Array] | None]] = {}
"""What was registered when the units were measured, and they; by the family's settings."""
# Before any file of a user was loaded, if this module was imported before that.
_IDS_OF_PACKAGES = frozenset(gymnasium.registry)


def register_family(family: type[Family]) -> type[Family]:
    """Registers a user's own family by its name; usable as a class decorator.

    Raises:
      ConfigError: It has no name, it is no subclass of BodyFamily or GymnasiumFamily, another class
        already has that name, or it does not use its quantities.
    """
    name = getattr(family, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f'task family {family.__name__} has no name; give it one, name = "..."')
    if not issubclass(family, (BodyFamily, GymnasiumFamily)):
        raise ConfigError(
            f"task family {family.name!r} must be a subclass of BodyFamily or GymnasiumFamily"
        )
    if issubclass(family, GymnasiumFamily):
        prepare_gymnasium_family(family)
    known = FAMILIES.setdefault(family.name, family)
    if _origin(known) != _origin(family):
        raise ConfigError(f"a task family {family.name!r} already exists; give yours another name")
    FAMILIES[family.name] = family
    return family


def _origin(family: type[TaskFamily]) -> tuple[str, str]:
    """Returns file and name of a class; the same file may be loaded as several modules."""
    module = sys.modules.get(family.__module__)
    return getattr(module, "__file__", None) or family.__module__, family.__qualname__


def is_packaged(name: str) -> bool:
    """Returns whether a family of that name is known without a file of the user."""
    if name.startswith(PREFIX):
        return name.removeprefix(PREFIX).partition("?")[0] in _IDS_OF_PACKAGES
    known = FAMILIES.get(name)
    return bool(known and known.__module__.startswith("epg_tf."))


def is_importable(name: str) -> bool:
    """Returns whether any process that imports this package knows the family of that name."""
    if name.startswith(PREFIX):
        spec = _registered(name)
        return spec is not None and str(spec.entry_point).startswith("gymnasium.")
    return _is_own(name)


def _registered(name: str) -> EnvSpec | None:
    """Returns how the environment of "gymnasium:ID" is registered, if it is."""
    return gymnasium.registry.get(name.removeprefix(PREFIX).partition("?")[0])


def is_registered(name: str) -> bool:
    """Returns whether a family or environment of that name is known, or names a module to import,
    which `make_family` refuses.
    """
    if not name.startswith(PREFIX):
        return name in FAMILIES
    return ":" in name.removeprefix(PREFIX) or _registered(name) is not None


def make_family(config: TaskConfig) -> TaskFamily:
    """Returns the family that `config` names.

    Raises:
      ConfigError: No family has that name, its settings do not fit it, or a user's own family has a
        mistake.
    """
    family = _make_exact_family(config)
    if isinstance(family, (BodyFamily, GymnasiumFamily)) and not _is_own(config.family):
        family.observation_units = _observation_units(config)
    if config.physics == "coarse":
        family.use_coarse_physics()
    return family


def _is_own(name: str) -> bool:
    """Returns whether the package itself has the family; its observations are near 1."""
    return name in FAMILIES and FAMILIES[name].__module__.startswith("epg_tf.")


def _observation_units(config: TaskConfig) -> tuple[Array, Array] | None:
    """Returns the units that tasks of training have in exact physics, measured once a process."""
    nominal = dataclasses.replace(config, range="training", physics="exact", episode_limit=_LONG)
    known = FAMILIES.get(config.family) or _registered(config.family)
    measured = _UNITS.get(nominal)
    if measured is None or measured[0] is not known:  # a family may be registered anew
        family = _make_exact_family(nominal)
        measured = known, units.measured_units(simulate(family, units.POPULATION))
        _UNITS[nominal] = measured
    return measured[1]


def _make_exact_family(config: TaskConfig) -> TaskFamily:
    if config.family.startswith(PREFIX):
        return make_checked_environment(config.family.removeprefix(PREFIX), config)
    if config.family not in FAMILIES:
        raise ConfigError(
            f"config.task.family={config.family!r} is not a task family; choose one of "
            f"{sorted(FAMILIES)} or 'gymnasium:ID', or load the file that registers yours"
        )
    kind = FAMILIES[config.family]
    if issubclass(kind, GymnasiumFamily):
        return make_checked_gymnasium_family(kind, config)
    if issubclass(kind, BodyFamily) and not kind.__module__.startswith("epg_tf."):
        return make_checked_family(kind, config)
    return kind(config.frame_skip, config.episode_limit, config.range)


def usual_limit(family: str) -> int:
    """Returns the episode limit (env steps) that a family has where none is given.

    Args:
      family: A key of `FAMILIES`, or "gymnasium:ID".

    Raises:
      ConfigError: Gymnasium has no such ID.
    """
    if family.startswith(PREFIX):
        return registered_limit(family.removeprefix(PREFIX))
    return FAMILIES[family].default_episode_limit


def named_environment(name: str) -> TaskFamily:
    """Returns the family that "FAMILY" or "FAMILY@EPISODE_LIMIT" names.

    Its frame skip is the family's default, and so is its episode limit if the name gives none.

    Raises:
      ConfigError: The limit is not a whole number above 0, or no family has that name.
    """
    family, at, limit = name.partition("@")
    if at and not (limit.isdecimal() and 0 < int(limit) <= LARGEST):
        raise ConfigError(
            f"environment {name!r}: the part after @ is the number of env steps in an episode, not "
            f"{limit!r}; write e.g. gymnasium:Pendulum-v1@200"
        )
    if not (family.startswith(PREFIX) or family in FAMILIES):
        raise ConfigError(
            f"environment {name!r}: {family!r} is not a task family; choose one of "
            f"{sorted(FAMILIES)} or 'gymnasium:ID'"
        )
    try:
        frame_skip = 1 if family.startswith(PREFIX) else FAMILIES[family].default_frame_skip
        return make_family(TaskConfig(family, frame_skip, int(limit or usual_limit(family))))
    except ConfigError as error:  # its message names a setting that the caller does not have
        raise ConfigError(str(error).replace("config.task.family=", "environment ")) from error


def simulate(family: TaskFamily, population: int) -> Simulation:
    """Returns P simulations of a family; they run on the calling thread.

    Raises:
      TypeError: The family is neither of a MuJoCo body nor of a Gymnasium environment.
    """
    if isinstance(family, BodyFamily):
        return BodySimulation(family, population)
    if isinstance(family, GymnasiumFamily):
        return GymnasiumSimulation(family, population)
    raise TypeError(f"family {family.name!r} must be a BodyFamily or a GymnasiumFamily")
