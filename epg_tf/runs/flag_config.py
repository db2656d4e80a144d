"""Is the config file that launch flags load: the settings of whatever config a name means.

Flags load it by its path, and can change any setting, also those that the config does not name.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from epg_tf.runs.config_files import load_experiment


def get_config(name: str) -> ConfigDict:
    """Returns all settings of the config `name`.

    Raises:
      ConfigError: There is no such config, or its settings are unusable.
      RecordError: It is the folder of a run whose settings cannot be read.
    """
    return ConfigDict(load_experiment(name).to_mapping())
