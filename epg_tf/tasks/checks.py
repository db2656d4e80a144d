"""Checks families that users wrote, so that a mistake gives one line before evolution starts."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.bodies import BodyFamily, State
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.settings import TaskConfig

_POPULATION = 2
_MOST_PHYSICS_STEPS = 100  # in an env step of a check, so that it takes no minutes
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
    except (Exception, SystemExit, GeneratorExit) as error:  # sys.exit(0) would say nothing
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"config.task.family={name!r}: {doing} raised {type(error).__name__} at "
            f"{_origin(error)}{f' ({reason})' if reason else ''}; {remedy}"
        ) from error


def _origin(error: BaseException) -> str:
    """Returns "FILE:LINE" of the innermost code of the user, else of the innermost."""
    frames = traceback.extract_tb(error.__traceback__)
    library = str(pathlib.Path(contextlib.__file__).parent)
    others = str(pathlib.Path(__file__).parents[1]), library, "<frozen "  # e.g. <frozen os>
    own = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename and not frame.filename.startswith(others)
    ]
    where = (own or frames)[-1]
    return f"{pathlib.Path(where.filename).name}:{where.lineno}"


def check_sizes(family: TaskFamily, remedy: str) -> None:
    """Checks that there is something to observe and to do.

    Args:
      family: Of a user.
      remedy: What the user can do where there is nothing.

    Raises:
      ConfigError: There are no observations or actions, bounds leave a component no choice, or
        parts of an action do not add up.
    """
    named = f"config.task.family={family.name!r}"
    for what, size in (("observations", family.observation_size), ("actions", family.action_size)):
        if size < 1:
            raise ConfigError(f"{named} has no {what}, so an agent cannot learn; {remedy}")
    if sum(family.spec.choices) != family.action_size:
        raise ConfigError(
            f"{named}: action_parts={family.action_parts} do not add up to action_size="
            f"{family.action_size}; correct one of them"
        )
    for number, (low, high) in enumerate(zip(*family.action_bounds, strict=True)):
        if not low < high:
            raise ConfigError(
                f"{named}: component {number} of its actions is within {low:g} and {high:g}, which "
                "leaves no choice; widen the bounds, or leave that component out"
            )


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
    check_sizes(family, "add actuators to the model, <actuator><motor joint='NAME'/></actuator>")
    physics_steps = family.physics_steps
    family.physics_steps = min(physics_steps, _MOST_PHYSICS_STEPS)
    simulation = _check_start(family)
    _check_outcomes(family, simulation)
    _check_rows(family, simulation)
    _check_written_rows(family, simulation)
    family.physics_steps = physics_steps
    _watch_calls(family)
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


def _check_rows(family: BodyFamily, simulation: BodySimulation) -> None:
    """Checks that what a row gets depends on that row alone, and that no method writes to a state
    that it is to read.
    """
    everyone = np.arange(_POPULATION)
    low, high = (
        np.where(np.isfinite(bound), bound, usual)
        for bound, usual in zip(family.action_bounds, (-1.0, 1.0), strict=True)
    )
    action = np.random.default_rng(0).uniform(low, high, (_POPULATION, family.action_size))
    before = _read_only(simulation.state.rows(everyone))
    with _calling(family, "a step"):
        simulation.step(action)
    after = _read_only(simulation.state.rows(everyone))
    for method, arguments in (
        ("observe", (after,)),
        ("reward", (before, after, action)),
        ("terminated", (after,)),
        ("succeeded", (after,)),
    ):
        with _calling(family, f"{method}() of a state that it may only read"):
            together = getattr(family, method)(*arguments)
        for row in everyone:
            alone = [
                part[row : row + 1]
                if isinstance(part, np.ndarray)
                else _read_only(part.rows(everyone[row : row + 1]))
                for part in arguments
            ]
            with _calling(family, f"{method}() of a single simulation"):
                value = getattr(family, method)(*alone)
            if not np.allclose(value[0], together[row], rtol=1e-5, atol=1e-8, equal_nan=True):
                raise ConfigError(
                    f"config.task.family={family.name!r}: what {method}() returns for a simulation "
                    f"depends on the others (by {_distance(value[0], together[row]):.3g}); "
                    "reduce over the axes after the first alone, e.g. .mean(axis=1)"
                )


def _check_written_rows(family: BodyFamily, simulation: BodySimulation) -> None:
    """Checks that `control` and `settle` write to the rows that they are given, and to each of them
    what depends on that row alone.
    """
    everyone = np.arange(_POPULATION)
    action = np.random.default_rng(1).uniform(-1.0, 1.0, (_POPULATION, family.action_size))
    state = simulation.state.rows(everyone)
    # The step before has settled the positions already; now there is something to write.
    state.qpos[:] += np.random.default_rng(2).uniform(-0.1, 0.1, state.qpos.shape)
    for method in ("control", "settle") if family.settles else ("control",):
        start = _written(family, "", state.rows(everyone), everyone, action)
        together = _written(family, method, state.rows(everyone), everyone, action)
        for row in everyone:
            own = action[row : row + 1]
            among = _written(family, method, state.rows(everyone), everyone[row : row + 1], own)
            alone = _written(family, method, state.rows(everyone[row : row + 1]), everyone[:1], own)
            others = everyone != row
            for name, values in together.items():
                if not np.array_equal(among[name][others], start[name][others], equal_nan=True):
                    raise ConfigError(
                        f"config.task.family={family.name!r}: {method}() writes {name} of "
                        "simulations that are not in rows; write to [rows] alone"
                    )
                for value in (among[name][row], alone[name][0]):
                    if not np.allclose(value, values[row], rtol=1e-5, atol=1e-8, equal_nan=True):
                        raise ConfigError(
                            f"config.task.family={family.name!r}: what {method}() writes to {name} "
                            "of a simulation depends on the others (by "
                            f"{_distance(value, values[row]):.3g}); reduce over the axes after the "
                            "first alone, e.g. .mean(axis=1)"
                        )


def _written(
    family: BodyFamily, method: str, state: State, rows: Array, action: Array
) -> dict[str, Array]:
    """Returns by name what `method` ("": nothing) may write, after it wrote to a copied state."""
    controls = np.zeros((len(state.qpos), family.model.nu))
    with _calling(family, f"{method}() of some simulations"):
        if method == "control":
            family.control(state, controls, rows, action)
        elif method == "settle":
            family.settle(state, rows)
    return {"controls": controls, "qpos": state.qpos, "qvel": state.qvel, **state.sensed}


def _distance(one: Array, other: Array) -> float:
    """Returns the largest difference of two arrays of numbers or truth values."""
    return float(np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64)).max())


def _read_only(state: State) -> State:
    """Makes the arrays of a copied state read-only; returns the state."""
    for values in (state.qpos, state.qvel, state.goal, *state.task.values()):
        values.setflags(write=False)
    for values in state.sensed.values():
        values.setflags(write=False)
    return state


def _watch_calls(family: BodyFamily) -> None:
    """Makes every later call of the family's methods check what it returns, as lives go on."""

    def watch(method: str, size: Callable[[State], tuple[int, ...]] | None) -> None:
        call = getattr(family, method)

        @functools.wraps(call)
        def watched(*arguments: Any) -> Any:
            with _calling(family, f"{method}()"):
                values = call(*arguments)
            if size is not None and np.shape(values) != (wanted := size(arguments[0])):
                code = call.__code__
                raise ConfigError(
                    f"config.task.family={family.name!r}: {method}() of "
                    f"{pathlib.Path(code.co_filename).name}:{code.co_firstlineno} returned shape "
                    f"{np.shape(values)} during a life; it must be {wanted}"
                )
            return values

        setattr(family, method, watched)

    for method in ("fields", "start", "control", "settle"):
        watch(method, None)
    watch("observe", lambda state: (len(state.qpos), family.observation_size))
    for method in ("reward", "terminated", "succeeded"):
        watch(method, lambda state: (len(state.qpos),))


def _calling(
    family: BodyFamily | type[BodyFamily], doing: str
) -> contextlib.AbstractContextManager[None]:
    return reraise_as_config_error(family.name, doing, _REMEDY)


def _check(family: BodyFamily, what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise ConfigError(
            f"config.task.family={family.name!r}: {what}: {found}; they must be {wanted}"
        )
