"""RL² in GoalAnt (EPG, Figure 18). Variants: `laptop` (default) and `paper`.

Both also exist with the suffix `_right_half`, whose goals are in front of the ant. Tasks are those
of the config goal_ant, the other settings those of rl2_half_cheetah.
"""

from epg_tf.baselines import rl2_settings
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

_RANGES = {"": "bearing=-3.14159265:3.14159265", "_right_half": "training"}
VARIANTS = {
    **{
        f"laptop{name}": RL2Experiment(TaskConfig("goal_ant", 5, 100, task_range, "coarse"), 150)
        for name, task_range in _RANGES.items()
    },
    **{
        f"paper{name}": rl2_settings.paper(TaskConfig("goal_ant", 5, 1000, task_range))
        for name, task_range in _RANGES.items()
    },
}

get_config = config_of(VARIANTS)
