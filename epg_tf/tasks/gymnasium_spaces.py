"""Decides which observations and actions of Gymnasium's environments agents can learn with."""

from __future__ import annotations

import math

from gymnasium import spaces

from epg_tf.core.errors import ConfigError
from epg_tf.core.files import one_line
from epg_tf.core.types import Array

LARGEST_OBSERVATION = 4096  # numbers; more are a picture, for which there is no network here
_SMALL = 64  # numbers; a table of more is a picture
Leaf = spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete


def observed_box(named: str, space: spaces.Space) -> spaces.Box:
    """Returns the space of observations as agents see them.

    Args:
      named: How messages name the environment.
      space: Of its observations.

    Returns:
      `space` itself if it is a Box, else the Box into which gymnasium.spaces.flatten turns it.

    Raises:
      ConfigError: Agents cannot learn from such observations.
    """
    parts = _leaves(space)
    for part in parts:
        if not isinstance(part, Leaf):
            raise ConfigError(
                f"{named} has observations {one_line(space)}; {type(part).__name__} cannot be "
                "flattened: register a version of it with a gymnasium.ObservationWrapper whose "
                "observation_space is a Box"
            )
        if len(part.shape or ()) > 1 and math.prod(part.shape or ()) > _SMALL:
            raise ConfigError(
                f"{named} has observations {one_line(part)}, of {len(part.shape or ())} axes as "
                "pictures have; register a version of it with a wrapper that reduces them to at "
                f"most {LARGEST_OBSERVATION} numbers that matter, or with "
                "gymnasium.wrappers.FlattenObservation if every number is meant"
            )
    box = space if isinstance(space, spaces.Box) else spaces.flatten_space(space)
    size = math.prod(box.shape or ())
    if not isinstance(box, spaces.Box) or not 1 <= size <= LARGEST_OBSERVATION:
        raise ConfigError(
            f"{named} has observations {one_line(space)} of {size} numbers; register a version of "
            f"it with a wrapper that returns 1 to {LARGEST_OBSERVATION} numbers"
        )
    return box


def _leaves(space: spaces.Space) -> list[spaces.Space]:
    """Returns the spaces that a Dict or Tuple consists of, else `space` alone."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return [leaf for part in inner for leaf in _leaves(part)]
    return [space]


def taken_actions(named: str, space: spaces.Space) -> Leaf:
    """Returns the space of actions.

    Args:
      named: How messages name the environment.
      space: Of its actions.

    Raises:
      ConfigError: It is neither a Box nor made of choices, or there is nothing to choose.
    """
    if not isinstance(space, Leaf):
        raise ConfigError(
            f"{named} has actions {one_line(space)}; only Box, Discrete, MultiDiscrete and "
            f"MultiBinary are supported: register a version of it with {_wrapper(space)}"
        )
    if not isinstance(space, spaces.Box) and max(choices(space)[0], default=0) < 2:
        raise ConfigError(f"{named} has actions {space}, of which there is only one; offer two")
    return space


def choices(
    space: spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete,
) -> tuple[tuple[int, ...], int | Array]:
    """Returns how many choices each part of an action has, and the numbers of the first ones."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),), int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(space.nvec.ravel().tolist()), space.start.ravel()
    return (2,) * math.prod(space.shape), 0


def _wrapper(space: spaces.Space) -> str:
    """Returns the wrapper that makes actions of `space` a Discrete or a Box."""
    if all(isinstance(leaf, spaces.Box) for leaf in _leaves(space)):
        return (
            "gymnasium.wrappers.TransformAction(env, lambda row: gymnasium.spaces.unflatten("
            "env.action_space, row), gymnasium.spaces.flatten_space(env.action_space))"
        )
    return "a gymnasium.ActionWrapper whose action_space is one Box or one Discrete"
