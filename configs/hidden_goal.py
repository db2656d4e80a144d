"""HiddenGoal, reward declared: our own family, in which no fixed policy does well. Variant:
`laptop`.

A life is 1024 env steps, 40 episodes. The best possible return is about 10, that of standing still
0 (docs/tasks.md).
"""

from ml_collections import ConfigDict

from epg_tf.core import scales
from epg_tf.core.experiment import TaskConfig

VARIANTS = {"laptop": scales.teaching(TaskConfig("hidden_goal", 4, 25), reward=True)}


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant."""
    return scales.chosen(VARIANTS, variant, "hidden_goal")
