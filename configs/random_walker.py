"""RandomWalker, reward-free (EPG, Figure 6). Variants: `laptop` (default), `night`
(the paper's life, evolved in coarse physics) and `paper`; `night_around`, as `night`, to begin
around a fixed linear policy (--begin_with, docs/lessons.md); `laptop` and `paper` also with the
suffix `_epg_i` or `_ppo_i`, which evolve the initial policy with the loss, or alone (Figure 13 a).

    Table 1:  update period M 128, updates 256, life U 32768 env steps

Not in the paper: frame_skip and episode limit (Gymnasium's), ranges (as RandomHopper's). In `night`
the noise on phi and the policy's standard deviation are small, means and deviations are held within
limits (docs/lessons.md), and lives of evolution have 48 updates; validation and tests have the
paper's. Its run ends half-way through the schedule of its step size.
PPO of `laptop` and all baselines of `night` are of epg-tf tune (results/records); others have
defaults.
"""

import dataclasses

from epg_tf.agents.settings import PolicyConfig
from epg_tf.epg import presets
from epg_tf.epg.baseline_settings import PPOConfig, ReinforceConfig
from epg_tf.epg.settings import Experiment
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

_PAPER = TaskConfig(family="random_walker", frame_skip=4, episode_limit=1000)


def _night() -> Experiment:
    """Returns the scale `night` with little noise, shorter lives and means within limits."""
    usual = presets.night(_PAPER, update_period=128, updates=256)
    return dataclasses.replace(
        usual,
        policy=PolicyConfig(log_std=-1.5),
        loss=dataclasses.replace(usual.loss, mean_limit=1.0, log_std_limits=(-2.5, -1.0)),
        inner=dataclasses.replace(usual.inner, minibatch=64, learning_rate=5e-3),
        evolution=dataclasses.replace(
            usual.evolution,
            epochs=150,
            sigma=0.03,
            longest_life=48,
            learning_rate=2e-2,
            validation_period=50,
            validation_lives=16,
        ),
        ppo=PPOConfig(
            update_period=128,
            minibatch=16,
            epochs=32,
            learning_rate=1e-4,
            log_std=0.0,
            discount=0.99,
            gae_lambda=0.8,
        ),
        reinforce=ReinforceConfig(
            update_period=64,
            minibatch=64,
            epochs=1,
            learning_rate=3e-4,
            log_std=-1.5,
            discount=0.95,
        ),
    )


VARIANTS = {
    "laptop": dataclasses.replace(
        presets.laptop(
            TaskConfig(family="random_walker", frame_skip=4, episode_limit=250, physics="coarse"),
            updates=64,
        ),
        ppo=PPOConfig(
            update_period=64,
            minibatch=64,
            epochs=16,
            learning_rate=3e-4,
            log_std=0.0,
            discount=0.95,
            gae_lambda=0.8,
        ),
    ),
    "night": _night(),
    "paper": presets.paper(_PAPER, update_period=128, updates=256),
}
VARIANTS["night_around"] = presets.around_policy(VARIANTS["night"], actions=6)
VARIANTS |= {
    **presets.evolved_starts(VARIANTS["laptop"], "laptop"),
    **presets.evolved_starts(VARIANTS["paper"], "paper"),
}

get_config = config_of(VARIANTS)
