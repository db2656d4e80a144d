"""RandomHopper, reward-free (EPG, Figures 5 and 12). Variants: `laptop` (default), `night`
(the paper's body and life, evolved in coarse physics) and `paper`; the same with the suffix
`_past`, whose lives start from past policies half of the time (Figure 12 B); `night_around`, as
`night`, to begin around a fixed linear policy (--begin_with, docs/lessons.md); `laptop` and `paper`
with the suffix `_channels`, whose loss also sees the time in the life and how new a state is; and
`laptop_v1` and `paper_v1`, the paper's first version; the former has its N = M, deviations by
state, weighted fitness and raw returns, and is else as `laptop`.

    Table 1:                     update period M 64, updates 128, life U 8192 env steps (8196)
    first version, section 4.1:  update period M 128, updates 128, life U 16384 env steps

Not in the paper, taken from the authors' code: frame_skip 2, limit 1000, ranges.
PPO with EPG's M was tuned as a baseline: `laptop` on 64 lives per setting, `paper` on 32, `night`
by epg-tf tune, and so were the other baselines of `laptop` and `night` (results/records; for PPO of
`night` the defaults won); those of the others are defaults.
"""

import dataclasses

from epg_tf.agents.settings import PolicyConfig
from epg_tf.epg import presets
from epg_tf.epg.baseline_settings import PPOConfig, ReinforceConfig
from epg_tf.epg.evolution_settings import PastConfig
from epg_tf.losses.settings import SurrogateConfig
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

_LAPTOP = presets.laptop(
    TaskConfig(family="random_hopper", frame_skip=4, episode_limit=250, physics="coarse"),
    updates=64,
)
_PAPER = TaskConfig(family="random_hopper", frame_skip=2, episode_limit=1000)
_NIGHT = presets.night(_PAPER, update_period=64, updates=128)
VARIANTS = {
    "laptop": dataclasses.replace(
        _LAPTOP,
        surrogate=SurrogateConfig(baseline_learning_rate=1e-3, baseline_epochs=16),
        ppo=PPOConfig(update_period=256, minibatch=128, learning_rate=3e-3, log_std=-0.5),
        sac=presets.WINNING_SAC,
        evolution=dataclasses.replace(_LAPTOP.evolution, fitness="rank_in_pair"),
    ),
    "night": dataclasses.replace(
        _NIGHT,
        surrogate=SurrogateConfig(baseline_learning_rate=3e-4, baseline_epochs=64),
        evolution=dataclasses.replace(_NIGHT.evolution, fitness="rank_in_pair"),
        reinforce=ReinforceConfig(
            update_period=128, minibatch=16, epochs=4, learning_rate=3e-4, log_std=0.0
        ),
    ),
    "paper": presets.paper(_PAPER, update_period=64, updates=128),
}
VARIANTS |= {
    f"{name}_past": dataclasses.replace(made, past=PastConfig(policies=64, share=0.5, per_epoch=4))
    for name, made in VARIANTS.items()
}
VARIANTS["night_around"] = presets.around_policy(VARIANTS["night"], actions=3)
VARIANTS |= {
    f"{name}_channels": dataclasses.replace(
        VARIANTS[name],
        loss=dataclasses.replace(VARIANTS[name].loss, channels=("time_in_life", "novelty")),
    )
    for name in ("laptop", "paper")
}
VARIANTS["laptop_v1"] = dataclasses.replace(
    VARIANTS["laptop"],
    policy=PolicyConfig(state_dependent_std=True),
    loss=dataclasses.replace(_LAPTOP.loss, buffer_steps=32),  # N = M
    evolution=dataclasses.replace(
        VARIANTS["laptop"].evolution, fitness="raw", fitness_from="weighted"
    ),
)
VARIANTS["paper_v1"] = presets.paper_v1(_PAPER, updates=128)

get_config = config_of(VARIANTS)
