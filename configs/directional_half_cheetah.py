"""DirectionalHalfCheetah, reward declared (EPG, Figure 9). Variants: `laptop` (default) and `paper`.

    Table 1:  update period M 32, updates 256, life U 8192 env steps (printed as 8196)

Not in the paper: frame_skip and episode limit (Gymnasium's). PPO as a
baseline is tuned by launch.tune_baseline for `laptop`, on 64 lives a setting.
"""

import dataclasses

from ml_collections import ConfigDict

from configs import scales
from epg_tf.config import SurrogateConfig, TaskConfig

_VARIANTS = {
    "laptop": dataclasses.replace(
        scales.laptop(TaskConfig(family="directional_half_cheetah", frame_skip=5, episode_limit=100), updates=64,
                      reward=True),
        surrogate=SurrogateConfig(baseline_learning_rate=3e-3, baseline_passes=4)),
    "paper": scales.paper(TaskConfig(family="directional_half_cheetah", frame_skip=5, episode_limit=1000),
                          update_period=32, updates=256, reward=True),
}


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant."""
    return scales.chosen(_VARIANTS, variant, "directional_half_cheetah.py")
