"""MAML on GoalAnt, goals in front of the ant (EPG, Figure 18). Variants: `laptop` (default) and
`paper`.

A test with config.task.range="out_of_distribution" has goals behind it. EPG states one and ten
gradient steps on 8192 env steps each, and no other setting; these are as in `maml_half_cheetah`,
but for 80 iterations and the default deviation of policies in `laptop`.
Task and life of `laptop` are those of `goal_ant:laptop_right_half`.
"""

from epg_tf.baselines.maml_settings import AdaptationConfig, MAMLExperiment, OuterConfig
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

VARIANTS = {
    "laptop": MAMLExperiment(
        task=TaskConfig("goal_ant", 5, 100, "training", "coarse"),
        adaptation=AdaptationConfig(env_steps=2048),
        outer=OuterConfig(iterations=80),
    ),
    "paper": MAMLExperiment(
        task=TaskConfig("goal_ant", 5, 1000, "training"),
        adaptation=AdaptationConfig(env_steps=8192),
        outer=OuterConfig(iterations=500),
    ),
}

get_config = config_of(VARIANTS)
