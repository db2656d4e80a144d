"""What the tasks of a family differ in: named quantities, the ranges they are drawn from, and how
users name others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array

Task = Mapping[str, Array]
"""What distinguishes one MDP of a family: a value for every quantity, e.g. {"mass": [4], "gravity": []}."""

Range = tuple[float, float]
FACTOR = (0.01, 100.0)  # what a body's own masses and sizes may be multiplied with


@dataclasses.dataclass(frozen=True)
class Quantity:
    """One thing in which tasks differ, uniformly distributed.

    Attributes:
      name: E.g. "mass".
      unit: Of the values, e.g. "times the body's own" or "m/s^2".
      training: (low, high) of the tasks that losses are evolved on; equal numbers: it does not vary
        there.
      shifted: (low, high) of the out-of-distribution tasks, apart from `training`; None: as in
        training.
      nominal: Value in the unrandomised body.
      size: How many values are drawn, each on its own; 0 for one plain number.
      either: Whether it is one of low and high with equal chance, rather than anything between;
        users can choose among the values of `training` and `shifted`, and no others.
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

    def draw(self, generator: np.random.Generator | None, bounds: Range | None) -> Array:
        """Draws a value, [size] or [] float64, within `bounds`; the nominal one if that is None."""
        shape = (self.size,) if self.size else ()
        if bounds is None:
            return np.full(shape, self.nominal)
        if self.either:
            return np.asarray(bounds)[generator.integers(2, size=shape)]
        return np.asarray(generator.uniform(*bounds, size=shape))

    def allows(self, value: float) -> bool:
        """Returns whether users may ask for a value."""
        if self.either:
            return any(
                math.isclose(value, one, abs_tol=1e-3)
                for one in (*self.training, *(self.shifted or ()))
            )
        return math.isfinite(value) and self.possible[0] <= value <= self.possible[1]

    def choice(self) -> str:
        """Says what users may ask for."""
        if self.either:
            return "one of " + ", ".join(
                f"{one:.6g}" for one in (*self.training, *(self.shifted or ()))
            )
        return (
            "finite"
            if math.isinf(self.possible[0])
            else f"within {self.possible[0]:.4g} and {self.possible[1]:.4g}"
        )

    def fixed(self) -> Quantity:
        """Returns the same quantity, but nominal in training."""
        return dataclasses.replace(self, training=(self.nominal, self.nominal))

    def value(self, given: object) -> Array:
        """Returns a value that somebody gives, as float64 of the right shape.

        Raises:
          ValueError: It has another size, or is impossible.
        """
        shape = (self.size,) if self.size else ()
        try:
            values = np.broadcast_to(np.asarray(given, np.float64), shape).copy()
        except (TypeError, ValueError):
            values = np.full(shape, np.nan)
        if not all(map(self.allows, values.ravel())):
            raise ValueError(
                f"task[{self.name!r}]={given!r} must be {self.size or 'one'} number"
                f"{'s' if self.size > 1 else ''}, {self.choice()} ({self.unit})"
            )
        return values


def ranges(quantities: Sequence[Quantity], task_range: str) -> dict[str, Range | None]:
    """Returns where each quantity is drawn from.

    Args:
      quantities: Of a family.
      task_range: "training", "out_of_distribution", "nominal" (the unrandomised body), or training
        ranges with some replaced, "NAME=LOW:HIGH,NAME=LOW:HIGH"; for quantities that are one of two
        values, those are LOW and HIGH.

    Raises:
      ConfigError: `task_range` means nothing here.
    """
    if task_range == "nominal":
        return {quantity.name: None for quantity in quantities}
    found: dict[str, Range | None] = {quantity.name: quantity.training for quantity in quantities}
    if task_range == "out_of_distribution":
        shifted = {
            quantity.name: quantity.shifted
            for quantity in quantities
            if quantity.shifted is not None
        }
        if not shifted:
            raise ConfigError(
                "config.task.range='out_of_distribution' needs a family whose tasks differ; this "
                "one has "
                "no such range"
            )
        return {**found, **shifted}
    if task_range != "training":
        known, named = {quantity.name: quantity for quantity in quantities}, set()
        for part in task_range.split(","):
            name, bounds = _parsed(part.strip(), task_range, known)
            if name in named:
                raise ConfigError(
                    f"config.task.range={task_range!r} names {name!r} twice; name it once"
                )
            named.add(name)
            found[name] = bounds
    return found


def _parsed(part: str, whole: str, known: Mapping[str, Quantity]) -> tuple[str, Range]:
    """Reads "NAME=LOW:HIGH"."""
    name, _, numbers = (word.strip() for word in part.partition("="))
    low, _, high = numbers.partition(":")
    try:
        bounds = float(low), float(high)
    except ValueError:
        bounds = None
    if name not in known or bounds is None:
        names = (
            f"NAME=LOW:HIGH with NAME among {sorted(known)}"
            if known
            else "nothing else, for there is one task"
        )
        raise ConfigError(
            f"config.task.range={whole!r}: {part!r} is not understood; write 'training', "
            f"'out_of_distribution', 'nominal', or {names}"
        )
    if bounds[0] > bounds[1] or not all(map(known[name].allows, bounds)):
        raise ConfigError(
            f"config.task.range={whole!r}: {part!r} is impossible; LOW must not be above HIGH, "
            "and both "
            f"be {known[name].choice()} ({known[name].unit})"
        )
    return name, bounds
