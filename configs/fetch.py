"""FetchReach, reward-free (EPG, Figure 11). Variants: `laptop` (default), `night` (the
paper's life, evolved in coarse physics) and `paper`.

    Table 1:  update period M 32, updates 256, life U 8192 env steps

Not in the paper: frame_skip 20, limit 50 (Gymnasium-Robotics'). PPO is not tuned for this task yet.
An env step of the arm is 20 physics steps with contacts, 5 in coarse physics, so the lives of
`laptop` are short.
"""

from ml_collections import ConfigDict

from epg_tf.core import scales
from epg_tf.core.experiment import TaskConfig

_PAPER = TaskConfig(family="fetch", frame_skip=20, episode_limit=50)
VARIANTS = {
    "laptop": scales.laptop(
        TaskConfig(family="fetch", frame_skip=20, episode_limit=25, physics="coarse"), updates=32
    ),
    "night": scales.night(_PAPER, update_period=32, updates=256),
    "paper": scales.paper(_PAPER, update_period=32, updates=256),
}


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant."""
    return scales.chosen(VARIANTS, variant, "fetch")
