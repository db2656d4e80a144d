"""MAML on DirectionalHalfCheetah (EPG, Figure 9). Variants: `laptop` (default) and `paper`.

EPG states one gradient step, and no other setting of its MAML. Task, life and policy are those of
`directional_half_cheetah`; 20 tasks and the step size 0.1 are those of public implementations.
`laptop` meta-trains in coarse physics, as evolution there; step size 0.3 was not better than 0.1
(docs/claims.md).
"""

import dataclasses

from epg_tf.agents.settings import PolicyConfig
from epg_tf.baselines.maml_settings import AdaptationConfig, MAMLExperiment, OuterConfig
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

_PAPER = MAMLExperiment(
    task=TaskConfig(family="directional_half_cheetah", frame_skip=5, episode_limit=1000),
    adaptation=AdaptationConfig(env_steps=8192),
    outer=OuterConfig(iterations=500),
)
VARIANTS = {
    "laptop": dataclasses.replace(
        _PAPER,
        task=TaskConfig("directional_half_cheetah", 5, 100, physics="coarse"),
        policy=PolicyConfig(log_std=-1.0),
        adaptation=AdaptationConfig(env_steps=2048),
        outer=OuterConfig(iterations=100),
    ),
    "paper": _PAPER,
}

get_config = config_of(VARIANTS)
