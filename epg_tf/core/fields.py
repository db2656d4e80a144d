"""Declares what a setting can be, reads settings from nested mappings, and describes them.

A group of settings is a frozen dataclass. A field states its type, bounds, meaning and default, and
nothing else in the package repeats them:

    sigma: Annotated[Positive, means("standard deviation of the noise on phi")] = 0.01

Choices are a `Literal`. A field of several numbers is a tuple of the types below.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.inspect import (
    BoolType,
    DataclassType,
    FloatType,
    IntType,
    LiteralType,
    Metadata,
    StrType,
    TupleType,
    Type,
    VarTupleType,
    type_info,
)

from epg_tf.core import old_settings
from epg_tf.core.errors import ConfigError

LARGEST = 10_000_000  # no setting needs to exceed it

Count = Annotated[int, Meta(ge=1, le=LARGEST)]
AtLeastTwo = Annotated[int, Meta(ge=2, le=LARGEST)]
Natural = Annotated[int, Meta(ge=0, le=LARGEST)]
Threads = Annotated[int, Meta(ge=0, le=1024)]
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Positive = Annotated[float, Meta(gt=0, le=LARGEST)]
NonNegative = Annotated[float, Meta(ge=0, le=LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
PositiveShare = Annotated[float, Meta(gt=0, le=1)]

Settings = TypeVar("Settings")

_TYPE_NAMES: dict[type[Type], str] = {
    BoolType: "bool",
    FloatType: "float",
    IntType: "int",
    StrType: "str",
}


def means(text: str) -> Meta:
    """Returns the meaning of a field, for its `Annotated`: paper's letter, meaning and unit."""
    return Meta(description=text)


@dataclasses.dataclass(frozen=True)
class Description:
    """What is known of one setting.

    Attributes:
      name: "config.GROUP.FIELD", or "config.FIELD" of a field outside the groups.
      type: E.g. "int" or "tuple of 2 int values".
      default: In the type of the field.
      bounds: E.g. "at least 1" or "'mean' or 'sum'"; empty where there are none.
      meaning: What `means` states.
    """

    name: str
    type: str
    default: Any
    bounds: str
    meaning: str


def read(kind: type[Settings], mapping: Any) -> Settings:
    """Returns settings read from nested mappings; missing fields take their defaults.

    An int is accepted for a float, and a list for a tuple.

    Args:
      kind: A dataclass of fields and groups.
      mapping: Values by the names of fields.

    Raises:
      ConfigError: A name is unknown, or a value has the wrong type or is out of bounds.
    """
    described: type = kind  # what the cache takes
    group = _group(described)
    values = _known_values(group, mapping, "config")
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_refusal(group, values, str(error))) from error


def describe(kind: type) -> list[Description]:
    """Returns a description of every field of a dataclass of settings, in the order of the code."""
    return list(_descriptions(_group(kind), "config"))


@functools.cache  # msgspec takes 10 ms to describe an experiment
def _group(kind: type) -> DataclassType:
    info = type_info(kind)
    assert isinstance(info, DataclassType), kind
    return info


def _without_meaning(info: Type) -> Type:
    return info.type if isinstance(info, Metadata) else info


def _known_values(group: DataclassType, values: Any, name: str) -> dict[str, Any]:
    """Returns nested mappings as dictionaries; refuses unknown names, which msgspec ignores."""
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{name}={_short(values)} is not a group of settings; set its fields, e.g. "
            f"{name}.FIELD=VALUE"
        )
    fields = {field.name: _without_meaning(field.type) for field in group.fields}
    found: dict[str, Any] = {}
    for key, value in values.items():
        shown = key if str(key).isprintable() else _short(key)  # a message is one line
        info, inner = fields.get(key), f"{name}.{shown}"
        if info is None:
            remark = old_settings.remark(inner.removeprefix("config."))
            raise ConfigError(
                f"{inner} is not a setting of {group.cls.__name__}{remark and ', ' + remark}; "
                f"{name} has {sorted(fields)}"
            )
        if isinstance(info, DataclassType):
            found[key] = _known_values(info, value, inner)
        else:  # float(): msgspec refuses NumPy's float64, which is a float
            found[key] = float(value) if isinstance(value, float) else value
    return found


def _refusal(group: DataclassType, values: dict[str, Any], message: str) -> str:
    """Returns one line on the value that msgspec refused; its message ends with "at `$.a.b[1]`"."""
    name = "config"
    info: Type = group
    value: Any = values
    for field, index in re.findall(r"\.(\w+)|\[(\d+)\]", message.rpartition("`$")[2]):
        info = _inner(info, field, index)
        value = value[field or int(index)]
        name += f".{field}" if field else f"[{index}]"
    return f"{name}={_short(value)} {_demand(info, value)}"


def _inner(info: Type, field: str, index: str) -> Type:
    if isinstance(info, DataclassType):
        return _without_meaning(next(f.type for f in info.fields if f.name == field))
    if isinstance(info, TupleType):
        return _without_meaning(info.item_types[int(index)])
    assert isinstance(info, VarTupleType), info
    return _without_meaning(info.item_type)


def _demand(info: Type, value: Any) -> str:
    """Returns what a refused value must be."""
    if isinstance(info, LiteralType):
        return f"is unknown; choose one of {list(info.values)}"
    if isinstance(info, (TupleType, VarTupleType)):
        return f"must be a {_type_name(info)}"
    whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(info, FloatType) and (whole or isinstance(value, float)):
        return _bound(info, value)
    if isinstance(info, IntType) and whole:
        return _bound(info, value)
    return f"must be of type {_type_name(info)}, not {type(value).__name__}"


def _bound(info: IntType | FloatType, value: int | float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if info.gt is not None and value <= info.gt:
        return f"must be above {info.gt:g}"
    if info.ge is not None and value < info.ge:
        return f"must be at least {info.ge:g}"
    if info.le == LARGEST:
        return f"is too large; set it to at most {LARGEST:g}"
    return f"must be at most {info.le:g}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}..."


def _type_name(info: Type) -> str:
    if isinstance(info, TupleType):
        return f"tuple of {len(info.item_types)} {_type_name(info.item_types[0])} values"
    if isinstance(info, VarTupleType):
        return f"tuple of {_type_name(info.item_type)} values"
    info = _without_meaning(info)
    if isinstance(info, LiteralType):
        return type(info.values[0]).__name__
    return _TYPE_NAMES[type(info)]


def _descriptions(group: DataclassType, name: str) -> Iterator[Description]:
    for field in group.fields:
        info, inner = _without_meaning(field.type), f"{name}.{field.name}"
        if isinstance(info, DataclassType):
            yield from _descriptions(info, inner)
        else:
            schema = field.type.extra_json_schema if isinstance(field.type, Metadata) else None
            meaning = (schema or {}).get("description", "")
            yield Description(inner, _type_name(info), field.default, _bounds(info), meaning)


def _bounds(info: Type) -> str:
    if isinstance(info, TupleType):
        return _bounds(_without_meaning(info.item_types[0]))
    if isinstance(info, VarTupleType):
        return _bounds(_without_meaning(info.item_type))
    if isinstance(info, LiteralType):
        return " or ".join(repr(value) for value in info.values)
    if not isinstance(info, (IntType, FloatType)):
        return ""
    bounds = [
        f"{words} {limit:g}"
        for words, limit in (("above", info.gt), ("at least", info.ge), ("at most", info.le))
        if limit is not None and abs(limit) != LARGEST
    ]
    return ", ".join(bounds)
