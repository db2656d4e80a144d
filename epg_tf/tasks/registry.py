"""Finds task families by name."""

from __future__ import annotations

from epg_tf.config import ConfigError, TaskConfig
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.random_hopper import RandomHopper

FAMILIES: dict[str, type[TaskFamily]] = {family.name: family for family in (PointGoal, RandomHopper)}


def make_family(config: TaskConfig) -> TaskFamily:
    """Returns the family that `config` names.

    Raises:
      ConfigError: No family has that name.
    """
    if config.family not in FAMILIES:
        raise ConfigError(f"config.task.family={config.family!r} is not a task family; choose one of "
                          f"{sorted(FAMILIES)}")
    return FAMILIES[config.family](config.frame_skip, config.episode_limit, config.randomize)
