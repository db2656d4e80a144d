"""Defines what the tasks of a family differ in, and the ranges that tasks are drawn from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array

Task = Mapping[str, Array]
"""One MDP of a family: a value for every quantity, e.g. {"mass": [4], "gravity": []}."""

Range = tuple[float, float]
FACTOR = (0.01, 100.0)  # allowed factors of a body's own masses and sizes
_BEYOND = 0.25  # of a range's width: how far outside it `outside` goes


@dataclasses.dataclass(frozen=True)
class Quantity:
    """Describes one uniformly distributed quantity in which tasks differ.

    Attributes:
      name: E.g. "mass".
      unit: Of the values, e.g. "times the body's own" or "m/s^2".
      training: (low, high) of the tasks that losses are evolved on; if both are equal, the quantity
        does not vary in training.
      shifted: (low, high) of the out-of-distribution tasks, separate from `training`; None: as in
        training.
      nominal: Value in the unrandomised body.
      size: Number of values, drawn independently; 0 for a scalar.
      either: Whether a value is low or high with equal probability, rather than uniform between
        them; users can then choose only the values of `training` and `shifted`.
      possible: (low, high) that users must keep to.
    """

    name: str
    unit: str
    training: Range
    shifted: Range | None = None
    nominal: float = 1.0
    size: int = 0
    either: bool = False
    possible: Range = (-math.inf, math.inf)

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of a value, (size,) or ()."""
        return (self.size,) if self.size else ()

    def nominal_value(self) -> Array:
        """Returns the value in the unrandomised body, float64 of `shape`."""
        return np.full(self.shape, self.nominal)

    def draw(self, generator: np.random.Generator, bounds: Range) -> Array:
        """Draws a value within `bounds`, float64 of `shape`."""
        if self.either:
            return np.asarray(bounds)[generator.integers(2, size=self.shape)]
        return np.asarray(generator.uniform(*bounds, size=self.shape))

    def allows(self, value: float) -> bool:
        """Returns whether users may choose a value."""
        if self.either:
            return any(math.isclose(value, one, abs_tol=1e-3) for one in self._choices())
        return math.isfinite(value) and self.possible[0] <= value <= self.possible[1]

    def allowed_values(self) -> str:
        """Describes the values that users may choose."""
        if self.either:
            return "one of " + ", ".join(f"{one:.6g}" for one in self._choices())
        if math.isinf(self.possible[0]):
            return "finite"
        return f"within {self.possible[0]:.4g} and {self.possible[1]:.4g}"

    def fixed(self) -> Quantity:
        """Returns the same quantity with the nominal value in all of training."""
        return dataclasses.replace(self, training=(self.nominal, self.nominal))

    def checked(self, given: object) -> Array:
        """Returns a value that a user gives, as float64 of `shape`.

        Raises:
          ValueError: It has another size, or is not allowed.
        """
        try:
            values = np.broadcast_to(np.asarray(given, np.float64), self.shape).copy()
        except (TypeError, ValueError):
            values = np.full(self.shape, np.nan)
        if not all(map(self.allows, values.ravel())):
            raise ValueError(
                f"task[{self.name!r}]={given!r} must be {self.size or 'one'} number"
                f"{'s' if self.size > 1 else ''}, {self.allowed_values()} ({self.unit})"
            )
        return values

    def _choices(self) -> tuple[float, ...]:
        return (*self.training, *(self.shifted or ()))


def ranges(quantities: Sequence[Quantity], task_range: str) -> dict[str, Range | None]:
    """Returns the range that each quantity is drawn from; None where it has its nominal value.

    Args:
      quantities: Of a family.
      task_range: "training", "out_of_distribution", "nominal" (the unrandomised body), or training
        ranges with some replaced, "NAME=LOW:HIGH,NAME=LOW:HIGH". A quantity that has one of two
        values takes LOW or HIGH.

    Raises:
      ConfigError: `task_range` has none of these forms, or does not fit the quantities.
    """
    if task_range == "nominal":
        return dict.fromkeys(quantity.name for quantity in quantities)
    training: dict[str, Range | None] = {
        quantity.name: quantity.training for quantity in quantities
    }
    if task_range == "training":
        return training
    if task_range == "out_of_distribution":
        shifted = {
            quantity.name: quantity.shifted
            for quantity in quantities
            if quantity.shifted is not None
        }
        if not shifted:
            raise ConfigError(
                "config.task.range='out_of_distribution' needs a family whose tasks differ; this "
                "one has no such range"
            )
        return {**training, **shifted}
    return {**training, **_parse_ranges(task_range, quantities)}


def outside(quantities: Sequence[Quantity]) -> dict[str, str]:
    """Returns ranges of tasks that training never draws: those that the family itself has, else a
    quarter of each range above and below it, as far as that is possible; positive ones stay so.

    Args:
      quantities: Of a family.

    Returns:
      Words for such tasks -> a range, as in `ranges`; nothing where no range can be left.
    """
    if any(quantity.shifted is not None for quantity in quantities):
        return {"outside its range": "out_of_distribution"}
    above, below = [], []
    for each in quantities:
        low, high = each.training
        if each.either or low == high:
            continue
        step = _BEYOND * (high - low)
        highest = min(high + step, each.possible[1], math.inf if high > 0.0 else high / 2)
        lowest = max(low - step, each.possible[0], -math.inf if low < 0.0 else low / 2)
        above += [f"{each.name}={high!r}:{highest!r}"] if highest > high else []
        below += [f"{each.name}={lowest!r}:{low!r}"] if lowest < low else []
    found = {"just above its range": ",".join(above), "just below its range": ",".join(below)}
    return {words: task_range for words, task_range in found.items() if task_range}


def _parse_ranges(task_range: str, quantities: Sequence[Quantity]) -> dict[str, Range]:
    """Reads "NAME=LOW:HIGH,NAME=LOW:HIGH"."""
    known = {quantity.name: quantity for quantity in quantities}
    named: dict[str, Range] = {}
    for part in task_range.split(","):
        name, bounds = _parse_range(part.strip(), task_range, known)
        if name in named:
            raise ConfigError(
                f"config.task.range={task_range!r} names {name!r} twice; name it once"
            )
        named[name] = bounds
    return named


def _parse_range(part: str, whole: str, known: Mapping[str, Quantity]) -> tuple[str, Range]:
    """Reads "NAME=LOW:HIGH"; `whole` is the setting that errors show."""
    name, _, numbers = (word.strip() for word in part.partition("="))
    low, _, high = numbers.partition(":")
    try:
        quantity, bounds = known[name], (float(low), float(high))
    except (KeyError, ValueError):
        names = (
            f"NAME=LOW:HIGH with NAME among {sorted(known)}"
            if known
            else "nothing else, because the family has only one task"
        )
        raise ConfigError(
            f"config.task.range={whole!r}: {part!r} is not understood; write 'training', "
            f"'out_of_distribution', 'nominal', or {names}"
        ) from None
    if bounds[0] > bounds[1] or not all(map(quantity.allows, bounds)):
        raise ConfigError(
            f"config.task.range={whole!r}: {part!r} is impossible; LOW must not be above HIGH, "
            f"and both must be {quantity.allowed_values()} ({quantity.unit})"
        )
    return name, bounds
