"""TurnedMotors: our own family, PointGoal with motors turned by an unknown angle, reward declared.

A life is 1024 env steps, 40 episodes. The goal is observed, so a loss can find out the angle
without the reward, too: from actions and the velocities that follow (examples/unknown_tasks.py).
The baselines' groups are of epg-tf tune (results/records); PPO with EPG's M has what did best there
of settings with that M.
"""

import dataclasses

from epg_tf.epg import presets
from epg_tf.epg.baseline_settings import PPOConfig, ReinforceConfig, SACConfig, TD3Config
from epg_tf.losses.settings import SurrogateConfig
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

VARIANTS = {
    "laptop": dataclasses.replace(
        presets.teaching(TaskConfig("turned_motors", 4, 25), reward=True),
        surrogate=SurrogateConfig(
            discount=0.9, gae_lambda=1.0, baseline_learning_rate=1e-3, baseline_epochs=4
        ),
        ppo=PPOConfig(
            update_period=128,
            minibatch=16,
            epochs=32,
            learning_rate=1e-4,
            log_std=0.0,
            gae_lambda=0.8,
        ),
        reinforce=ReinforceConfig(update_period=32, learning_rate=3e-3, discount=0.9),
        sac=SACConfig(learning_rate=1e-2, batch=128, target_entropy=-0.5, discount=0.95, tau=0.02),
        td3=TD3Config(
            learning_rate=3e-3,
            batch=32,
            updates_per_step=2,
            random_steps=200,
            exploration=0.05,
            target_policy_noise=0.4,
        ),
    )
}

get_config = config_of(VARIANTS)
