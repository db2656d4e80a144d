"""Tries out families that users wrote, so that a mistake shows in one line before anything is
evolved.
"""

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


@contextlib.contextmanager
def blame(name: str, doing: str, remedy: str) -> Iterator[None]:
    """Turns whatever somebody else's code raises into a `ConfigError` of one line.

    Args:
      name: The family's.
      doing: What was asked of it.
      remedy: What to do.
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


def made_and_checked(kind: type[BodyFamily], config: TaskConfig) -> BodyFamily:
    """Makes a family and asks everything of it once, on a population of two.

    Raises:
      ConfigError: It raises, or an answer has the wrong shape or type; the message says which.
    """
    remedy = "mend it, see docs/own_family.md"
    for attribute in ("model_file", "observation_size"):
        if not hasattr(kind, attribute):
            raise ConfigError(f"config.task.family={kind.name!r} has no {attribute}; {remedy}")
    with blame(kind.name, "making it", remedy):
        family = kind(config.frame_skip, config.episode_limit, config.range)
    generators = [np.random.default_rng(number) for number in range(_POPULATION)]
    tasks = [family.sample_task(generator) for generator in generators]
    with blame(kind.name, "fields()", remedy):
        _check(
            family,
            "the names that fields() returns",
            sorted(family.fields(tasks[0])),
            sorted(family.expanded),
        )
    with blame(kind.name, "start()", remedy):
        parts = family.start(generators[0], tasks[0])
        _check(family, "the number of arrays that start() returns", len(parts), 3)
        sizes = (family.model.nq,), (family.model.nv,), (family.goal_size,)
        _check(
            family,
            "the shapes that start() returns (nq, nv, goal_size)",
            tuple(map(np.shape, parts)),
            sizes,
        )
    with blame(kind.name, "simulating it (expanded, sensed, fields())", remedy):
        simulation = BodySimulation(family, _POPULATION)
        simulation.set_tasks(tasks)
    with blame(kind.name, "starting an episode", remedy):
        _check(
            family,
            "the shape that observe() returns",
            simulation.reset(np.arange(_POPULATION), generators).shape,
            (_POPULATION, family.observation_size),
        )
    _check_answers(family, simulation, remedy)
    return family


def _check_answers(family: BodyFamily, simulation: BodySimulation, remedy: str) -> None:
    state, action = simulation.state, np.zeros((_POPULATION, family.action_size))
    for method, arguments in (
        ("reward", (state.rows(np.arange(_POPULATION)), state, action)),
        ("terminated", (state,)),
        ("succeeded", (state,)),
    ):
        with blame(family.name, f"{method}()", remedy):
            answer = getattr(family, method)(*arguments)
            _check(family, f"the shape that {method}() returns", np.shape(answer), (_POPULATION,))
            if method != "reward":
                _check(family, f"the type that {method}() returns", str(answer.dtype), "bool")
    with blame(family.name, "a step", remedy):
        result = simulation.step(action)
    if result.diverged.any():
        raise ConfigError(
            f"config.task.family={family.name!r}: a first step without action gives observations "
            "or "
            f"rewards that are not finite, or explodes; {remedy}"
        )


def _check(family: BodyFamily, what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise ConfigError(
            f"config.task.family={family.name!r}: {what}: {found}; they must be {wanted}"
        )
