"""DirectionalHopper, reward declared (EPG, Figure 8). Variants: `laptop` (default), `night` (the
paper's body and life, evolved in coarse physics), `paper`, `paper_v1`.

    Table 1:  update period M 64, updates 128, life U 8192 env steps (printed as 8196)

`paper_v1` is the paper's first version (Figures 7 and 8), which also randomizes the body:

    section 4.1:  update period M 128, updates 128 (as RandomHopper), life U 16384 env steps

Not in the paper, taken from the authors' code: frame_skip 2, limit 1000. `laptop` begins as a
policy gradient (docs/lessons.md); its baselines' groups are of epg-tf tune
(results/records), which found nothing better than the defaults for PPO and REINFORCE. PPO and
REINFORCE of `night` are tuned, too; its SAC and TD3 are those of all nights (`presets.night`).
"""

import dataclasses

from epg_tf.epg import presets
from epg_tf.epg.baseline_settings import PPOConfig, ReinforceConfig
from epg_tf.epg.settings import Experiment
from epg_tf.losses.settings import SurrogateConfig
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig


def _laptop() -> Experiment:
    """Returns `presets.teaching` with the life of the scale `laptop` and smaller steps of policies
    and of phi.

    With rate 5e-2, 32 lives and final episodes as the fitness, two losses ended far apart; see
    docs/lessons.md.
    """
    task = TaskConfig("directional_hopper", frame_skip=4, episode_limit=250, physics="coarse")
    usual = presets.teaching(task, reward=True)
    return dataclasses.replace(
        usual,
        inner=dataclasses.replace(usual.inner, updates=128, learning_rate=3e-3),
        sac=presets.WINNING_SAC,
        td3=presets.WINNING_TD3,
        evolution=dataclasses.replace(
            usual.evolution,
            epochs=100,
            learning_rate=2e-2,
            final_learning_rate=2e-3,
            learning_rate_epochs=100,
            validation_period=10,
        ),
    )


_PAPER = TaskConfig(family="directional_hopper", frame_skip=2, episode_limit=1000)
VARIANTS = {
    "laptop": _laptop(),
    "night": dataclasses.replace(
        presets.night(_PAPER, update_period=64, updates=128, reward=True),
        surrogate=SurrogateConfig(baseline_learning_rate=3e-4, baseline_epochs=16),
        ppo=PPOConfig(
            update_period=256,
            minibatch=32,
            epochs=16,
            learning_rate=1e-3,
            log_std=-1.0,
            discount=0.99,
            gae_lambda=0.95,
        ),
        reinforce=ReinforceConfig(
            update_period=128, minibatch=16, epochs=4, learning_rate=3e-4, log_std=0.0
        ),
    ),
    "paper": presets.paper(_PAPER, update_period=64, updates=128, reward=True),
    "paper_v1": presets.paper_v1(
        dataclasses.replace(_PAPER, range="mass=0.5:2,friction=0.5:2,radius=0.5:2,gravity=-20:-2"),
        updates=128,
        reward=True,
    ),
}

get_config = config_of(VARIANTS)
