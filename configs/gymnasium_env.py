"""Any Gymnasium environment on a laptop: --config=gymnasium_env:Pendulum-v1, or another
id.

There is one task, so the loss that evolves may fit this task alone. PPO's settings are not tuned;
epg-tf tune tunes them.
"""

from ml_collections import ConfigDict

from epg_tf.epg import presets
from epg_tf.tasks.gymnasium_family import PREFIX, registered_limit
from epg_tf.tasks.settings import TaskConfig


def get_config(env_id: str = "Pendulum-v1") -> ConfigDict:
    """Returns the settings for one environment.

    Raises:
      ConfigError: Gymnasium knows no such id.
    """
    task = TaskConfig(family=PREFIX + env_id, frame_skip=1, episode_limit=registered_limit(env_id))
    return ConfigDict(presets.laptop(task, updates=64).to_mapping())
