"""RandomHopper, reward-free (EPG, Figure 5). Variants: `laptop` (default) and `paper`.

    Table 1:  update period M 64, updates 128, life U 8192 env steps (printed as 8196)

Not in the paper, taken from the authors' code: frame_skip 2, limit 1000, ranges. PPO as a baseline is tuned by
launch.tune_baseline, 32 lives a setting.
"""

import dataclasses

from ml_collections import ConfigDict

from configs import scales
from epg_tf.config import InnerConfig, LossConfig, TaskConfig

# The paper's layers but a shorter buffer: the smaller loss of the other laptop configs has not been tried here.
_VARIANTS = {
    "laptop": dataclasses.replace(
        scales.laptop(TaskConfig(family="random_hopper", frame_skip=4, episode_limit=250), updates=128),
        loss=LossConfig(buffer_steps=128),
        inner=InnerConfig(updates=128, update_period=32, minibatch=32, learning_rate=1e-3)),
    "paper": scales.paper(TaskConfig(family="random_hopper", frame_skip=2, episode_limit=1000), update_period=64,
                          updates=128),
}


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant."""
    return scales.chosen(_VARIANTS, variant, "random_hopper.py")
