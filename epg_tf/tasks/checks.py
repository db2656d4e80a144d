"""Checks families that users wrote, so that a mistake gives one line before evolution starts."""

from __future__ import annotations

import contextlib
import pathlib
import traceback
from collections.abc import Iterator

import numpy as np

from epg_tf.core.errors import ConfigError
from epg_tf.core.experiment import TaskConfig
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.physics import BodySimulation

_POPULATION = 2
_REMEDY = "correct it, see docs/own_family.md"


@contextlib.contextmanager
def reraise_as_config_error(name: str, doing: str, remedy: str) -> Iterator[None]:
    """Turns every exception that a user's code raises into a `ConfigError` of one line.

    Args:
      name: Name of the family.
      doing: The call that the family's code was in, e.g. "start()".
      remedy: What the user can do.
    """
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"config.task.family={name!r}: {doing} raised {type(error).__name__} at "
            f"{pathlib.Path(where.filename).name}:{where.lineno} ({reason}); {remedy}"
        ) from error


def make_checked_family(kind: type[BodyFamily], config: TaskConfig) -> BodyFamily:
    """Makes a family and calls each of its methods once, with a population of two.

    Raises:
      ConfigError: A method raises or returns a wrong shape or type; the message names the method.
    """
    for attribute in ("model_file", "observation_size"):
        if not hasattr(kind, attribute):
            raise ConfigError(f"config.task.family={kind.name!r} has no {attribute}; {_REMEDY}")
    with _calling(kind, "making it"):
        family = kind(config.frame_skip, config.episode_limit, config.range)
    simulation = _check_start(family)
    _check_outcomes(family, simulation)
    return family


def _check_start(family: BodyFamily) -> BodySimulation:
    """Checks the methods that set tasks and start episodes; returns started simulations."""
    generators = [np.random.default_rng(number) for number in range(_POPULATION)]
    tasks = [family.sample_task(generator) for generator in generators]
    with _calling(family, "fields()"):
        names = sorted(family.fields(tasks[0]))
    _check(family, "the names that fields() returns", names, sorted(family.expanded))
    with _calling(family, "start()"):
        arrays = family.start(generators[0], tasks[0])
        _check(family, "the number of arrays that start() returns", len(arrays), 3)
        shapes = tuple(map(np.shape, arrays))
    wanted_shapes = (family.model.nq,), (family.model.nv,), (family.goal_size,)
    _check(family, "the shapes that start() returns (nq, nv, goal_size)", shapes, wanted_shapes)
    with _calling(family, "simulating it (expanded, sensed, fields())"):
        simulation = BodySimulation(family, _POPULATION)
        simulation.set_tasks(tasks)
    with _calling(family, "starting an episode"):
        observation = simulation.reset(np.arange(_POPULATION), generators)
    wanted = (_POPULATION, family.observation_size)
    _check(family, "the shape that observe() returns", observation.shape, wanted)
    return simulation


def _check_outcomes(family: BodyFamily, simulation: BodySimulation) -> None:
    """Checks the methods that reward and end an env step, then takes one."""
    state, action = simulation.state, np.zeros((_POPULATION, family.action_size))
    for method, arguments in (
        ("reward", (state.rows(np.arange(_POPULATION)), state, action)),
        ("terminated", (state,)),
        ("succeeded", (state,)),
    ):
        with _calling(family, f"{method}()"):
            values = getattr(family, method)(*arguments)
            _check(family, f"the shape that {method}() returns", np.shape(values), (_POPULATION,))
            if method != "reward":
                _check(family, f"the type that {method}() returns", str(values.dtype), "bool")
    with _calling(family, "a step"):
        result = simulation.step(action)
    if result.diverged.any():
        raise ConfigError(
            f"config.task.family={family.name!r}: a first step with zero actions diverges or gives "
            f"observations or rewards that are not finite; {_REMEDY}"
        )


def _calling(
    family: BodyFamily | type[BodyFamily], doing: str
) -> contextlib.AbstractContextManager[None]:
    return reraise_as_config_error(family.name, doing, _REMEDY)


def _check(family: BodyFamily, what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise ConfigError(
            f"config.task.family={family.name!r}: {what}: {found}; they must be {wanted}"
        )
