"""Declares what a setting can be, and the base of all settings: they are read from nested mappings,
checked and described by their types alone.

A group of settings is a frozen dataclass. A field states its type with its bounds, its default and
its meaning, and nothing else in the package repeats them:

    sigma: Positive = setting(0.01, "standard deviation of the noise on phi")

Choices are a `Literal`. A field of several numbers is a tuple of the types below. Files in
`configs/` and launch flags speak of a setting as `config.GROUP.FIELD`, or `config.FIELD`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Iterator, Mapping, Set
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, get_args, get_origin

from epg_tf.core import old_settings
from epg_tf.core.errors import ConfigError

LARGEST = 10_000_000  # no setting needs to exceed it


class Range(NamedTuple):
    """Bounds of a number.

    Attributes:
      low: Lowest value.
      high: Highest value.
      open: Whether the number must be above `low`.
    """

    low: float
    high: float = LARGEST
    open: bool = False


Count = Annotated[int, Range(1)]
AtLeastTwo = Annotated[int, Range(2)]
Natural = Annotated[int, Range(0)]
Threads = Annotated[int, Range(0, 1024)]
Number = Annotated[float, Range(-LARGEST)]
Positive = Annotated[float, Range(0, open=True)]
NonNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]
PositiveShare = Annotated[float, Range(0, 1, open=True)]

_NEEDED = {
    int: "a whole number without a point",
    float: "a number",
    bool: "True or False",
    str: "text",
}

Value = TypeVar("Value")


def setting(default: Value, meaning: str) -> Value:
    """Declares a field.

    Args:
      default: Its default.
      meaning: Paper's letter, meaning and unit.
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning})


class Description(NamedTuple):
    """What is known of one setting.

    Attributes:
      name: "config.GROUP.FIELD", or "config.FIELD" of a field outside the groups.
      type: E.g. "int" or "tuple of 2 int values".
      default: In the type of the field.
      bounds: E.g. "at least 1" or "'mean' or 'sum'"; empty where there are none.
      meaning: What `setting` states.
    """

    name: str
    type: str
    default: Any
    bounds: str
    meaning: str


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings, or a group of them: fields and groups, each with a default.

    `from_mapping` checks all that it reads; use `check` where settings are built by hand.
    """

    @classmethod
    def from_mapping(cls, mapping: Any) -> Self:
        """Returns settings read from nested mappings; missing fields take their defaults.

        An int is accepted for a float, and a list for a tuple.

        Args:
          mapping: Values by the names of fields.

        Raises:
          ConfigError: A name is unknown, a value has the wrong type or is out of bounds, or
            settings do not fit together.
        """
        made: Self = _group(cls, mapping, "config")
        for conflict in _conflicts(made):
            raise ConfigError(conflict)
        return made

    def check(self) -> None:
        """Checks types, bounds and what must fit together; errors as of `from_mapping`."""
        self.from_mapping(self.to_mapping())

    def conflicts(self) -> Iterator[str]:
        """Yields a line for all that does not fit together, apart from what its groups yield."""
        return iter(())

    def to_mapping(self) -> dict[str, Any]:
        """Returns the settings as nested dictionaries."""
        return dataclasses.asdict(self)

    @classmethod
    def describe(cls, name: str = "config") -> list[Description]:
        """Returns a description of every field, in the order of the code.

        Args:
          name: What the names of the fields begin with.
        """
        described: Any = cls
        hints, found = _hints(described), []
        for field in dataclasses.fields(cls):
            hint, inner = hints[field.name], f"{name}.{field.name}"
            if _is_group(hint):
                found += hint.describe(inner)
            else:
                words = _type_words(hint), field.default, _bounds(hint), field.metadata["meaning"]
                found.append(Description(inner, *words))
        return found


def flat(settings: Mapping[str, Any], prefix: str = "config") -> Iterator[tuple[str, Any]]:
    """Yields "config.GROUP.FIELD" and value of each setting in nested mappings."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}.{name}")
        else:
            yield f"{prefix}.{name}", value


def changes(
    before: Mapping[str, Any], now: Mapping[str, Any], ignored: Set[str] = frozenset()
) -> Iterator[tuple[str, Any, Any]]:
    """Yields name, old and new value of settings that differ.

    Args:
      ignored: Names "config.GROUP.FIELD" of settings that may differ.
    """
    old = dict(flat(before))
    for name, value in flat(now):
        if old[name] != value and name not in ignored:
            yield name, old[name], value


def _conflicts(settings: Settings) -> Iterator[str]:
    for field in dataclasses.fields(settings):
        if isinstance(group := getattr(settings, field.name), Settings):
            yield from _conflicts(group)
    yield from settings.conflicts()


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """Returns the type of each field, with its bounds."""
    return typing.get_type_hints(kind, include_extras=True)


def _is_group(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Settings)


def _parts(hint: Any) -> tuple[Any, Range | None]:
    """Returns the type of a hint and its bounds."""
    if get_origin(hint) is Annotated:
        return get_args(hint)
    return hint, None


def _item_hints(hint: Any) -> tuple[Any, int | None]:
    """Returns the hint of the items of a tuple, and their number; None for any."""
    items = get_args(hint)
    return items[0], None if items[-1] is ... else len(items)


def _group(kind: type, values: Any, name: str) -> Any:
    """Returns a group read from a mapping; refuses unknown names."""
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{name}={_short(values)} is not a group of settings; set its fields, e.g. "
            f"{name}.FIELD=VALUE"
        )
    hints, found = _hints(kind), {}
    for key, value in values.items():
        shown = key if str(key).isprintable() else _short(key)  # a message is one line
        inner = f"{name}.{shown}"
        if key not in hints:
            remark = old_settings.remark(inner.removeprefix("config."))
            raise ConfigError(
                f"{inner} is not a setting{remark and ', ' + remark}; {name} has {sorted(hints)}"
            )
        found[key] = _value(hints[key], value, inner)
    return kind(**found)


def _value(hint: Any, value: Any, name: str) -> Any:
    """Returns a value in the type of its field, or raises ConfigError."""
    if _is_group(hint):
        return _group(hint, value, name)
    (kind, bounds), refused = _parts(hint), f"{name}={_short(value)} "
    if get_origin(kind) is tuple:
        item, size = _item_hints(kind)
        if not isinstance(value, (tuple, list)) or size not in (None, len(value)):
            raise ConfigError(f"{refused}must be {_needed(hint)}")
        return tuple(_value(item, entry, f"{name}[{i}]") for i, entry in enumerate(value))
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise ConfigError(f"{refused}is unknown; choose one of {sorted(choices)}")
        return value
    allowed = (int, float) if kind is float else (kind,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{refused}must be {_needed(hint)}")
    if bounds and (demand := _demand(bounds, value)):
        raise ConfigError(refused + demand)
    return kind(value)


def _demand(bounds: Range, value: float) -> str:
    """Returns what a number must be to be within bounds; empty where it is."""
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if value < bounds.low or (bounds.open and value == bounds.low):
        return f"must be {'above' if bounds.open else 'at least'} {bounds.low:g}"
    if value <= bounds.high:
        return ""
    if bounds.high == LARGEST:
        return f"is too large; set it to at most {LARGEST:g}"
    return f"must be at most {bounds.high:g}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}..."


def _needed(hint: Any) -> str:
    """Returns what a value must be, in words."""
    kind, _ = _parts(hint)
    if get_origin(kind) is tuple:
        item, size = _item_hints(kind)
        return f"{size or 'several'} values in brackets, each {_needed(item)}"
    return _NEEDED[type(get_args(kind)[0]) if get_origin(kind) is Literal else kind]


def _type_words(hint: Any) -> str:
    kind, _ = _parts(hint)
    if get_origin(kind) is tuple:
        item, size = _item_hints(kind)
        return f"tuple of {f'{size} ' if size else ''}{_type_words(item)} values"
    if get_origin(kind) is Literal:
        return type(get_args(kind)[0]).__name__
    return str(kind.__name__)


def _bounds(hint: Any) -> str:
    kind, bounds = _parts(hint)
    if get_origin(kind) is tuple:
        return _bounds(_item_hints(kind)[0])
    if get_origin(kind) is Literal:
        return " or ".join(repr(value) for value in sorted(get_args(kind)))
    words = []
    if bounds and bounds.low != -LARGEST:
        words.append(f"{'above' if bounds.open else 'at least'} {bounds.low:g}")
    if bounds and bounds.high != LARGEST:
        words.append(f"at most {bounds.high:g}")
    return ", ".join(words)
