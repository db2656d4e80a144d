"""FetchReach, reward-free (EPG, Figure 11). Variants: `laptop` (default), `night` (the
paper's life, evolved in coarse physics), `paper`, and `target`, which is `night` with one target a
life, which only the loss is told.

    Table 1:  update period M 32, updates 256, life U 8192 env steps

Not in the paper: frame_skip 20, limit 50 (Gymnasium-Robotics'). An env step of the arm is 20
physics steps with contacts, 5 in coarse physics, so lives of evolution are short: 32 updates in
`laptop`, 12 to 48 in `night`. In `night` the loss is small, policies are held within limits and
observations are not centred (docs/lessons.md), the policy's standard deviation starts small, and
ten final episodes have ten targets. PPO of `night` is of the first two rounds of epg-tf
tune (results/records), with observations as the loss has them; elsewhere it has defaults.
REINFORCE of `night` was searched, too; its defaults won. SAC and TD3 of `night` won searches, too,
and are those of all nights (`presets.night`).
"""

import dataclasses

from epg_tf.agents.settings import PolicyConfig
from epg_tf.epg import presets
from epg_tf.epg.baseline_settings import PPOConfig
from epg_tf.epg.settings import Experiment
from epg_tf.losses.settings import SurrogateConfig
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

_PAPER = TaskConfig(family="fetch", frame_skip=20, episode_limit=50)


def _night() -> Experiment:
    """Returns the scale `night` with a small loss, short lives and observations about zero."""
    usual = presets.night(_PAPER, update_period=32, updates=256)
    return dataclasses.replace(
        usual,
        policy=PolicyConfig(log_std=-1.5),
        loss=presets.valley(usual.loss, actions=4, log_std_limits=(-2.5, -1.5)),
        inner=dataclasses.replace(
            usual.inner, minibatch=8, final_episodes=10, centred_observations=False
        ),
        surrogate=SurrogateConfig(baseline_learning_rate=3e-4, baseline_epochs=16),
        ppo=PPOConfig(
            update_period=32,
            minibatch=16,
            epochs=64,
            learning_rate=3e-4,
            log_std=-1.0,
            discount=0.9,
            gae_lambda=0.95,
        ),
        evolution=dataclasses.replace(
            usual.evolution,
            epochs=200,
            sigma=0.05,
            final_sigma=0.01,
            fitness="rank_in_pair",
            shortest_life=12,
            longest_life=48,
            learning_rate=3e-2,
            final_learning_rate=3e-3,
            learning_rate_epochs=100,
            validation_period=50,
            validation_lives=16,
        ),
    )


def _target() -> Experiment:
    """Returns `night` with a target for each life, which the loss is told."""
    usual = _night()
    return dataclasses.replace(
        usual,
        task=dataclasses.replace(usual.task, family="fetch_target"),
        loss=dataclasses.replace(usual.loss, channels=("goal",)),
        inner=dataclasses.replace(usual.inner, final_episodes=3),
    )


VARIANTS = {
    "laptop": presets.laptop(
        TaskConfig(family="fetch", frame_skip=20, episode_limit=25, physics="coarse"), updates=32
    ),
    "night": _night(),
    "target": _target(),
    "paper": presets.paper(_PAPER, update_period=32, updates=256),
}

get_config = config_of(VARIANTS)
