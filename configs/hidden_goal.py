"""HiddenGoal, reward declared: our own family, in which no fixed policy does well. Variant:
`laptop` (default).

A life is 1024 env steps, 40 episodes. The best possible return is about 10, that of standing still
0 (docs/evolve.md). The baselines' groups are of epg-tf tune (results/records); PPO with EPG's M
has what won there for PPO with that M.
"""

import dataclasses

from epg_tf.epg import presets
from epg_tf.epg.baseline_settings import PPOConfig, ReinforceConfig, SACConfig
from epg_tf.losses.settings import SurrogateConfig
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

VARIANTS = {
    "laptop": dataclasses.replace(
        presets.teaching(TaskConfig("hidden_goal", 4, 25), reward=True),
        surrogate=SurrogateConfig(discount=0.9, baseline_learning_rate=3e-4, baseline_epochs=64),
        ppo=PPOConfig(
            update_period=32,
            minibatch=16,
            epochs=64,
            learning_rate=3e-4,
            log_std=-1.0,
            discount=0.9,
        ),
        reinforce=ReinforceConfig(update_period=32, learning_rate=3e-3, discount=0.9),
        sac=SACConfig(learning_rate=1e-2, batch=128, target_entropy=-0.5, discount=0.95, tau=0.02),
        td3=presets.WINNING_TD3,
    ),
}

get_config = config_of(VARIANTS)
