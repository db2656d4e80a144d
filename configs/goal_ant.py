"""GoalAnt, reward declared (EPG, Figures 10, 15, 18, 19, 22 c). Variants: `laptop` (default),
`night` (the paper's life, evolved in coarse physics) and `paper`.

All also exist with the suffix `_right_half`, `_forward_backward` or `_no_reset`; `laptop` and
`paper` also with `_goal`, where the loss sees the goal (section 4.2), and with `_epg_i` or
`_ppo_i`, which evolve the initial policy with the loss, or alone (Figure 13 c).

    Table 1:  update period M 32, updates 512, life U 16384 env steps

Goals lie in all directions, with `_right_half` only in front of the ant;
config.task.range="out_of_distribution" then means those behind it (Figure 18). Not in the paper:
frame_skip and episode limit (Gymnasium's), distances. PPO of `laptop` is of epg-tf tune-baseline
(results/tuning), with goals in front; `night` and `paper` have defaults.
"""

import dataclasses

from ml_collections import ConfigDict

from epg_tf.core import scales
from epg_tf.core.experiment import TaskConfig
from epg_tf.core.rival_settings import PPOConfig

_TASKS = {
    "": ("goal_ant", "bearing=-3.14159265:3.14159265"),
    "_right_half": ("goal_ant", "training"),
    "_forward_backward": ("forward_backward_ant", "training"),
    "_no_reset": ("goal_ant_no_reset", "bearing=-3.14159265:3.14159265"),
}
_PPO = PPOConfig(
    update_period=32,
    minibatch=32,
    epochs=4,
    learning_rate=1e-3,
    log_std=-1.0,
    discount=0.9,
    gae_lambda=1.0,
)
VARIANTS = {
    **{
        f"laptop{name}": dataclasses.replace(
            scales.laptop(
                TaskConfig(family, 5, 100, task_range, "coarse"), updates=64, reward=True
            ),
            ppo=_PPO,
        )
        for name, (family, task_range) in _TASKS.items()
    },
    **{
        f"night{name}": scales.night(
            TaskConfig(family, 5, 1000, task_range), update_period=32, updates=512, reward=True
        )
        for name, (family, task_range) in _TASKS.items()
    },
    **{
        f"paper{name}": scales.paper(
            TaskConfig(family, 5, 1000, task_range), update_period=32, updates=512, reward=True
        )
        for name, (family, task_range) in _TASKS.items()
    },
}
VARIANTS |= {
    f"{name}_goal": dataclasses.replace(
        VARIANTS[name], loss=dataclasses.replace(VARIANTS[name].loss, channels=("goal",))
    )
    for name in ("laptop", "paper")
}
VARIANTS |= {
    "laptop_epg_i": scales.evolved_start(VARIANTS["laptop"]),
    "laptop_ppo_i": scales.start_alone(VARIANTS["laptop"]),
    **scales.paper_starts(VARIANTS["paper"]),
}


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant."""
    return scales.chosen(VARIANTS, variant, "goal_ant")
