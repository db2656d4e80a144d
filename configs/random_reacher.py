"""RandomReacher, reward-free (EPG, Figure 7). Variants: `laptop` (default), `night`
(the paper's life, evolved in coarse physics), `paper` and `paper_v1`.

    Table 1, and first version, 4.1:  update period M 128, updates 512, life U 65536 env steps

Not in the paper: frame_skip and episode limit (Gymnasium's), ranges. In `laptop` and `night` the
policy's standard deviation starts small, because with 1 the arm shakes too much to reach a target;
an update has four minibatches in `laptop` and 16 in `night`, because fewer gradient steps are too
few to learn where the target is; and a life has 20 or 10 final episodes, each with its own target.
PPO with EPG's M was tuned as a baseline for `laptop`, on 64 lives per setting; its rate of `night`
and the other baselines of both are of epg-tf tune (results/records), which found nothing better
than the defaults for `reinforce` of `laptop`. The loss of `night` is small, and sees
products of pairs of components of the observation; observations are not centred; lives of evolution
have 24 to 96 updates. A fresh loss folds the arm; the pretrained one began around a fixed policy
that sees these products (--begin_with, docs/lessons.md).
"""

import dataclasses

from epg_tf.agents.settings import PolicyConfig
from epg_tf.epg import presets
from epg_tf.epg.baseline_settings import PPOConfig, ReinforceConfig, SACConfig, TD3Config
from epg_tf.epg.settings import ComputeConfig
from epg_tf.losses.settings import SurrogateConfig
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

_TASK = TaskConfig(family="random_reacher", frame_skip=2, episode_limit=50)
_POLICY = PolicyConfig(log_std=-2.0)
_LAPTOP = presets.laptop(dataclasses.replace(_TASK, physics="coarse"), updates=64)
_NIGHT = presets.night(_TASK, update_period=128, updates=512)
_NIGHT_LOSS = presets.valley(_NIGHT.loss, actions=2, log_std_limits=(-2.5, -2.0))
_TD3 = TD3Config(
    learning_rate=3e-3,
    batch=32,
    updates_per_step=2,
    random_steps=200,
    exploration=0.05,
    target_policy_noise=0.4,
)
VARIANTS = {
    "laptop": dataclasses.replace(
        _LAPTOP,
        policy=_POLICY,
        inner=dataclasses.replace(
            _LAPTOP.inner, minibatch=8, learning_rate=5e-3, final_episodes=20
        ),
        evolution=dataclasses.replace(
            _LAPTOP.evolution,
            epochs=150,
            lives=64,
            noise_vectors=64,
            learning_rate=4e-2,
            final_learning_rate=1e-2,
            learning_rate_epochs=150,
            validation_period=10,
        ),
        surrogate=SurrogateConfig(baseline_learning_rate=3e-3, baseline_epochs=4),
        ppo=PPOConfig(
            update_period=512,
            minibatch=32,
            epochs=32,
            learning_rate=1e-3,
            log_std=0.0,
            discount=0.95,
            gae_lambda=0.9,
        ),
        td3=_TD3,
        sac=SACConfig(
            learning_rate=1e-2,
            random_steps=100,
            target_entropy=-1.0,
            temperature=0.1,
            discount=0.95,
            tau=0.01,
        ),
        compute=ComputeConfig(shard_lives=32),
    ),
    "night": dataclasses.replace(
        _NIGHT,
        policy=_POLICY,
        loss=dataclasses.replace(_NIGHT_LOSS, channels=("observation_pairs",)),
        inner=dataclasses.replace(
            _NIGHT.inner,
            minibatch=8,
            learning_rate=5e-3,
            final_episodes=10,
            centred_observations=False,
        ),
        evolution=dataclasses.replace(
            _NIGHT.evolution,
            epochs=80,
            lives=128,
            noise_vectors=128,
            sigma=0.03,
            final_sigma=0.01,
            shortest_life=24,
            longest_life=96,
            learning_rate=1e-2,
            final_learning_rate=2e-3,
            learning_rate_epochs=80,
            validation_period=40,
            validation_lives=16,
        ),
        surrogate=dataclasses.replace(_NIGHT.surrogate, baseline_learning_rate=3e-4),
        ppo=PPOConfig(
            update_period=256,
            minibatch=8,
            epochs=4,
            learning_rate=3e-3,
            log_std=0.0,
            discount=0.9,
            gae_lambda=0.9,
        ),
        reinforce=ReinforceConfig(
            update_period=64,
            minibatch=64,
            epochs=1,
            learning_rate=3e-4,
            log_std=-1.5,
            discount=0.95,
        ),
        td3=_TD3,
    ),
    "paper": presets.paper(_TASK, update_period=128, updates=512),
    "paper_v1": presets.paper_v1(_TASK, updates=512),
}

get_config = config_of(VARIANTS)
