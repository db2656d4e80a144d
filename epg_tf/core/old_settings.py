"""Translates what earlier versions wrote: settings that have other names now, and settings that are
gone.

Only what reads files calls `renamed` and `renamed_channels`; in a config or flag an old name is an
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epg_tf.core.errors import ConfigError

_NAMES_NOW = {  # "GROUP.FIELD"
    "policy.log_deviation": "log_std",
    "surrogate.baseline_passes": "baseline_epochs",
}
# Settings of methods that this version no longer has, with the value that switched each off. A
# group leaves with all its fields.
_SWITCHED_OFF = {
    "evolution.segments": 1,
    "evolution.tasks": 0,
    "evolution.diagnosis_period": 0,
    "loss.reduction": "mean",
    "adaptation.first_order": False,
    "distillation.rounds": 0,
    "past.states": 0,
    "validation.patience": 0,
    "baseline.objective_learning_rate": 0.0,
}
# Groups that are gone, and the field that switched each off. (EPG still has another `past`.)
_GONE_GROUPS = {"distillation": "rounds", "past": "states"}
_CHANNELS_NOW = {"policy_log_deviation": "policy_log_std"}


def renamed(settings: Any) -> Any:
    """Returns the settings of a file of any version under today's names.

    Args:
      settings: Nested mappings as a file holds them. What is not of this form, and names that no
        version had, are returned as they are, for the reader of settings to refuse.

    Raises:
      ConfigError: The settings use a method that this version no longer has.
    """
    if not isinstance(settings, Mapping):
        return settings
    found = {}
    for group, fields in settings.items():
        named = _renamed_group(group, fields) if isinstance(fields, Mapping) else fields
        if named is fields or _GONE_GROUPS.get(group) not in fields:
            found[group] = named
    return found


def _renamed_group(group: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in fields.items():
        path = f"{group}.{name}"
        if path in _SWITCHED_OFF:
            if value != _SWITCHED_OFF[path]:
                raise ConfigError(
                    f"config.{path}={value!r}: this version of epg_tf cannot do that; use the "
                    "version that wrote the file"
                )
            continue
        now = _NAMES_NOW.get(path, name)
        found[name if now in fields else now] = value
    return found


def renamed_channels(channels: Any) -> Any:
    """Returns the list `channels` of a loss.json of any version under today's names.

    What is not a list of mappings is returned as it is, for the reader of the file to refuse.
    """
    if not isinstance(channels, list):
        return channels
    return [_renamed_channel(channel) for channel in channels]


def _renamed_channel(channel: Any) -> Any:
    name = channel.get("name") if isinstance(channel, Mapping) else None
    if not isinstance(name, str) or name not in _CHANNELS_NOW:
        return channel
    return {**channel, "name": _CHANNELS_NOW[name]}


def remark(path: str) -> str:
    """Returns what became of an old setting, e.g. "it is called log_std now"; empty for others.

    Args:
      path: "GROUP.FIELD", or "GROUP".
    """
    if path in _NAMES_NOW:
        return f"it is called {_NAMES_NOW[path]} now"
    gone = path in _SWITCHED_OFF or path.split(".")[0] == "distillation"
    return "this version no longer has it" if gone else ""
