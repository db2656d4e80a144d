"""TurnedMotors: our own family, PointGoal with motors turned by an unknown angle. Variants:
`laptop` (default), reward declared, and `unrewarded`.

A life is 1024 env steps, 40 episodes. The goal is observed, so a loss can find out the angle
without the reward: from actions and the velocities that follow.
"""

from ml_collections import ConfigDict

from epg_tf.core import scales
from epg_tf.core.experiment import TaskConfig

_TASK = TaskConfig("turned_motors", 4, 25)
VARIANTS = {
    "laptop": scales.teaching(_TASK, reward=True),
    "unrewarded": scales.teaching(_TASK, reward=False),
}


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant."""
    return scales.chosen(VARIANTS, variant, "turned_motors")
