"""Any Gymnasium environment: --config=gymnasium_env:Pendulum-v1, or another id.

It names nothing but the environment, so epg-tf meta-train chooses the settings. There is one task,
so the loss that evolves may fit this task alone.
"""

from epg_tf.epg.settings import Experiment
from epg_tf.tasks.gymnasium_family import PREFIX, registered_limit
from epg_tf.tasks.settings import TaskConfig


def get_config(env_id: str = "Pendulum-v1") -> Experiment:
    """Returns the settings for one environment.

    Raises:
      ConfigError: Gymnasium knows no such id.
    """
    task = TaskConfig(family=PREFIX + env_id, frame_skip=1, episode_limit=registered_limit(env_id))
    return Experiment(task=task)
