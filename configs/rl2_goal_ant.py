"""RL² in GoalAnt (EPG, Figure 18). Variants: `laptop` (default) and `paper`.

Both also exist with the suffix `_right_half`, whose goals are in front of the ant. Tasks are those
of the config goal_ant, the other settings those of rl2_half_cheetah.
"""

from ml_collections import ConfigDict

from epg_tf.core import scales
from epg_tf.core.experiment import TaskConfig

_RANGES = {"": "bearing=-3.14159265:3.14159265", "_right_half": "training"}
VARIANTS = {
    **{
        f"laptop{name}": scales.laptop_rl2(TaskConfig("goal_ant", 5, 100, task_range, "coarse"))
        for name, task_range in _RANGES.items()
    },
    **{
        f"paper{name}": scales.paper_rl2(TaskConfig("goal_ant", 5, 1000, task_range))
        for name, task_range in _RANGES.items()
    },
}


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant."""
    return scales.chosen(VARIANTS, variant, "rl2_goal_ant")
