"""Settings of the tasks that agents meet."""

from __future__ import annotations

import dataclasses
from typing import Literal

from epg_tf.core.settings import Count, Settings, setting

Physics = Literal["exact", "coarse"]


@dataclasses.dataclass(frozen=True)
class TaskConfig(Settings):
    """Which MDPs agents live in."""

    family: str = setting("point_goal", "name of a task family, or gymnasium:ID")
    frame_skip: Count = setting(2, "physics steps per env step, of the body's own timestep")
    episode_limit: Count = setting(50, "env steps in an episode, at most")
    range: str = setting(
        "training", "of the tasks: training, out_of_distribution, nominal, or NAME=LOW:HIGH,..."
    )
    physics: Physics = setting(
        "exact",
        "of evolution; exact: integrator and timestep of the body; coarse: faster ones, which the "
        "family declares; validation and tests are in exact physics",
    )
