"""RL² in DirectionalHalfCheetah (EPG, Figure 9). Variants: `laptop` (default) and `paper`.

    MetaGenRL:         PPO for TRPO, LSTM of 64 units, 2 episodes, at most 50 M env steps

`laptop` has the task of directional_half_cheetah:laptop. Not in the papers: frame_skip and episode
limit (Gymnasium's), number of trials, PPO's settings. E-RL² is
config.trial.exploratory_episodes=1.
"""

from ml_collections import ConfigDict

from epg_tf.core import scales
from epg_tf.core.experiment import TaskConfig

VARIANTS = {
    "laptop": scales.laptop_rl2(
        TaskConfig("directional_half_cheetah", frame_skip=5, episode_limit=100, physics="coarse")
    ),
    "paper": scales.paper_rl2(
        TaskConfig("directional_half_cheetah", frame_skip=5, episode_limit=1000)
    ),
}


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant."""
    return scales.chosen(VARIANTS, variant, "rl2_half_cheetah")
