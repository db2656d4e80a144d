"""Is the config file that launch flags load: the settings of whatever config a name means.

Flags load it by its path, and can change any setting, also those that the config does not name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from epg_tf.runs.config_files import load_settings, system_of


def get_config(name: str) -> ConfigDict:
    """Returns all settings of the config `name`, to be checked when flags have changed them.

    Raises:
      ConfigError: There is no such config, or it gives no settings.
      RecordError: It is the folder of a run whose settings cannot be read.
    """
    settings = load_settings(name)
    return ConfigDict(_over(system_of(settings)().to_mapping(), settings))


def _over(defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns nested defaults with the settings in their place."""
    merged = dict(defaults)
    for name, value in settings.items():
        group: Any = merged.get(name)
        nested = isinstance(value, Mapping) and isinstance(group, Mapping)
        merged[name] = _over(group, value) if nested else value
    return merged
