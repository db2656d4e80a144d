"""Checks families of Gymnasium's environments that users wrote."""

from __future__ import annotations

import collections
import contextlib

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.tasks.checks import reraise_as_config_error
from epg_tf.tasks.gymnasium_family import (
    DEFAULT_LIMIT,
    GymnasiumFamily,
    OneTaskFamily,
    registered,
)
from epg_tf.tasks.gymnasium_probe import probe
from epg_tf.tasks.gymnasium_simulation import GymnasiumSimulation
from epg_tf.tasks.quantities import Task
from epg_tf.tasks.settings import TaskConfig

_HOOKS = ("configure", "reset_options")
_REMEDY = "correct it, see docs/own_family.md"
_REGISTERED = "_has_registered_limit"  # of a class: its limit is not for subclasses
_STEPS = 5  # env steps of the episodes that are compared
# Environment -> how it was registered when it was probed, and whether it reports success. A process
# makes a family many times, and the environment may be slow.
_PROBED: dict[str, tuple[EnvSpec, bool]] = {}


def prepare_gymnasium_family(kind: type[GymnasiumFamily]) -> None:
    """Checks what can be known before a family is made, at its registration.

    A family that sets no `default_episode_limit` gets the one that its environment is registered
    with.

    Raises:
      ConfigError: It has no `env_id`, Gymnasium has no such environment, or no method uses its
        quantities.
    """
    named = f"task family {kind.name!r}"
    if not isinstance(getattr(kind, "env_id", None), str):
        raise ConfigError(f'{named} has no env_id; give it one, e.g. env_id = "Pendulum-v1"')
    spec = registered(kind.env_id, f"{named}: env_id={kind.env_id!r}")
    if kind.quantities and all(
        getattr(kind, hook) is getattr(GymnasiumFamily, hook) for hook in _HOOKS
    ):
        names = ", ".join(quantity.name for quantity in kind.quantities)
        raise ConfigError(
            f"{named} ignores its quantities ({names}), so all its tasks would be the same; define "
            "configure(environment, task) or reset_options(task), see docs/own_family.md"
        )
    own = [vars(base) for base in kind.__mro__[: kind.__mro__.index(GymnasiumFamily)]]
    if not any("default_episode_limit" in names and _REGISTERED not in names for names in own):
        kind.default_episode_limit = spec.max_episode_steps or DEFAULT_LIMIT
        setattr(kind, _REGISTERED, True)


class _WatchedTask(collections.UserDict[str, Array]):
    """A task that knows which of its quantities were read.

    Attributes:
      read: Their names.
    """

    def __init__(self, task: Task):
        super().__init__(task)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Array:
        self.read.add(name)
        return super().__getitem__(name)


def make_checked_environment(env_id: str, config: TaskConfig) -> OneTaskFamily:
    """Makes the family of an environment as it is registered, and starts an episode in it.

    Raises:
      ConfigError: There is no such environment, or it does not follow Gymnasium's interface.
    """
    family = OneTaskFamily(env_id, config.frame_skip, config.episode_limit, config.range)
    spec = gymnasium.spec(env_id.partition("?")[0])
    if env_id not in _PROBED or _PROBED[env_id][0] is not spec:
        probe(family, {})
        _PROBED[env_id] = spec, family.goal_reaching
    family.goal_reaching = _PROBED[env_id][1]
    return family


def make_checked_gymnasium_family(
    kind: type[GymnasiumFamily], config: TaskConfig
) -> GymnasiumFamily:
    """Makes a family, calls its methods, and starts episodes in two of its tasks.

    Raises:
      ConfigError: A method raises, returns a wrong type or reads none of a quantity, or an episode
        depends on the task that the environment had before.
    """
    with reraise_as_config_error(kind.name, "making it", _REMEDY):
        family = kind(config.frame_skip, config.episode_limit, config.range)
    generator = np.random.default_rng(0)
    earlier, task = family.sample_task(generator), family.sample_task(generator)
    _check_methods(family, task)
    probe(family, task)
    _check_repeats(family, earlier, task)
    return family


def _check_methods(family: GymnasiumFamily, task: Task) -> None:
    """Checks what the methods return, and that they read every quantity."""
    watched = _WatchedTask(task)
    with contextlib.closing(family.make()) as environment:
        with reraise_as_config_error(family.name, "configure()", _REMEDY):
            family.configure(environment, watched)
        with reraise_as_config_error(family.name, "reset_options()", _REMEDY):
            options = family.reset_options(watched)
    if not isinstance(options, dict):
        raise ConfigError(
            f"config.task.family={family.name!r}: reset_options() returns {options!r:.50}; it must "
            "be a dict"
        )
    ignored = [name for name in task if name not in watched.read]
    if ignored:
        raise ConfigError(
            f"config.task.family={family.name!r}: neither configure() nor reset_options() reads "
            f"task[{ignored[0]!r}]; use it there, or remove that quantity"
        )


def _check_repeats(family: GymnasiumFamily, one: Task, other: Task) -> None:
    """Checks that an episode is the same after another task as in a new environment."""
    used, fresh = GymnasiumSimulation(family, 1), GymnasiumSimulation(family, 1)
    first, second, third = (_episode(used, task) for task in (one, other, one))
    if (first, second) != (third, _episode(fresh, other)):
        raise ConfigError(
            f"config.task.family={family.name!r}: an episode depends on the task that the "
            "environment had before; let configure() set every attribute to a value of its task "
            "alone, and the environment draw all random numbers from its seed"
        )


def _episode(simulation: GymnasiumSimulation, task: Task) -> list[bytes]:
    """Returns the first observations and rewards of an episode, as bytes.

    Actions are large, mostly at the bounds, so that limits of the environment matter.
    """
    generator = np.random.default_rng(1)
    simulation.set_tasks([task])
    found = [simulation.reset(np.array([0]), [generator]).tobytes()]
    for _ in range(_STEPS):
        action = 10.0 * generator.standard_normal((1, simulation.family.action_size))
        result = simulation.step(simulation.family.environment_action(action))
        found += [result.observation.tobytes(), result.reward.tobytes()]
        if result.terminated[0] or result.truncated[0]:
            break
    return found
