"""Is the config file that the folder of a run means: the settings of that run.

It is loaded by its path, as all config files are.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from epg_tf.runs.config_files import run_settings


def get_config(folder: str) -> ConfigDict:
    """Returns the settings of the run in `folder`.

    Raises:
      ConfigError: Its config.json does not hold usable settings.
    """
    return ConfigDict(run_settings(folder).to_mapping())
