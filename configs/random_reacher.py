"""RandomReacher, reward-free (EPG, Figure 7). Variants: `laptop` (default) and `paper`.

    Table 1:  update period M 128, updates 512, life U 65536 env steps

Not in the paper: frame_skip and episode limit (Gymnasium's), ranges. PPO's settings are those tuned for RandomHopper.
"""

from ml_collections import ConfigDict

from configs import scales
from epg_tf.config import TaskConfig

_VARIANTS = {
    "laptop": scales.laptop(TaskConfig(family="random_reacher", frame_skip=2, episode_limit=50), updates=128),
    "paper": scales.paper(TaskConfig(family="random_reacher", frame_skip=2, episode_limit=50), update_period=128,
                          updates=512),
}


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant."""
    return scales.chosen(_VARIANTS, variant, "random_reacher.py")
