"""Gymnasium's own tasks, one MDP each (MetaGenRL's are among them). Variants: the bodies,
`half_cheetah` by default.

    --config=one_task:hopper

Episodes are shorter than Gymnasium's 1000 env steps, so that a laptop can compute them soon.
"""

from epg_tf.epg import presets
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig

_FRAME_SKIP_AND_LIMIT = {
    "half_cheetah": (5, 100),
    "hopper": (4, 250),
    "walker2d": (4, 250),
    "ant": (5, 100),
    "reacher": (2, 50),
}
VARIANTS = {
    family: presets.laptop(TaskConfig(family, *numbers, physics="coarse"), updates=64)
    for family, numbers in _FRAME_SKIP_AND_LIMIT.items()
}

get_config = config_of(VARIANTS)
