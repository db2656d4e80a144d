"""RL² in DirectionalHalfCheetah (EPG, Figure 9). Variants: `laptop` (default) and `paper`;
with the suffix `_e_rl2` E-RL², whose trials begin with an episode that only explores.

    MetaGenRL:         PPO for TRPO, LSTM of 64 units, 2 episodes, at most 50 M env steps

`laptop` has the task of directional_half_cheetah:laptop. `paper` trains
for 50.05 M env steps, whole iterations. Not in the papers: frame_skip and episode
limit (Gymnasium's), number of trials, PPO's settings.
"""

import dataclasses

from epg_tf.baselines import rl2_settings
from epg_tf.baselines.rl2_settings import RL2Experiment, TrialConfig
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

VARIANTS = {
    "laptop": RL2Experiment(
        task=TaskConfig(
            "directional_half_cheetah", frame_skip=5, episode_limit=100, physics="coarse"
        ),
        iterations=150,
    ),
    "paper": rl2_settings.paper(
        TaskConfig("directional_half_cheetah", frame_skip=5, episode_limit=1000)
    ),
}
VARIANTS |= {
    f"{name}_e_rl2": dataclasses.replace(made, trial=TrialConfig(exploratory_episodes=1))
    for name, made in VARIANTS.items()
}

get_config = config_of(VARIANTS)
