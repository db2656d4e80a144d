"""Two families whose motors must be found out, for a loss that identifies them and sees no reward.

    epg-tf meta-train --config=examples/unknown_motors.py:pendulum --run_dir=runs/pendulum
    epg-tf meta-test --loss=runs/pendulum --config=examples/unknown_motors.py:pendulum \\
        --compare=ppo,sac --output_dir=runs/pendulum-test

Variants: `pendulum` (default), MuJoCo's inverted pendulum whose motor may be reversed and is of
unknown strength; `reacher`, an arm whose two motors may be reversed, swapped and of unknown
strength. No fixed policy serves a motor and its reverse.
"""

import numpy as np
from ml_collections import ConfigDict

from epg_tf.epg import presets
from epg_tf.runs.config_files import chosen
from epg_tf.tasks.bodies import GYMNASIUM_MODELS, BodyFamily
from epg_tf.tasks.quantities import Quantity
from epg_tf.tasks.reacher import RandomReacher
from epg_tf.tasks.registry import register_family
from epg_tf.tasks.settings import TaskConfig


@register_family
class SignedPendulum(BodyFamily):
    """Rewards each env step in which the pole is upright."""

    name = "signed_pendulum"
    observation_size = 4
    model_file = GYMNASIUM_MODELS / "inverted_pendulum.xml"
    quantities = (
        Quantity("gear", "N", training=(-150.0, 150.0), shifted=(150.0, 200.0), nominal=100.0),
    )
    expanded = ("actuator_gear",)

    def fields(self, task):
        """Returns the gear of the one motor."""
        gear = np.array(self.model.actuator_gear)
        gear[0, 0] = task["gear"]
        return {"actuator_gear": gear}

    def start(self, generator, task):
        """Draws the pole nearly upright and at rest."""
        noise = generator.uniform(-0.01, 0.01, self.model.nq + self.model.nv)
        return self.model.qpos0 + noise[: self.model.nq], noise[self.model.nq :], np.zeros(0)

    def observe(self, state):
        """Returns position (m), angle (rad) and their velocities."""
        return np.concatenate([state.qpos, state.qvel], axis=1)

    def reward(self, before, after, action):
        """Returns 1 while the pole is within 0.2 rad of upright."""
        return (~self.terminated(after)).astype(float)

    def terminated(self, state):
        """Returns whether the pole has fallen."""
        return np.abs(state.qpos[:, 1]) > 0.2


@register_family
class WiredReacher(RandomReacher):
    """Rewards what the fingertip's distance to the target shrinks by (m/s)."""

    name = "wired_reacher"
    quantities = (
        Quantity("gain", "of each motor", training=(-2.0, 2.0), size=2),
        Quantity("swapped", "0 or 1", training=(0.0, 1.0), nominal=0.0, either=True),
        *RandomReacher.quantities,
    )

    def control(self, state, controls, rows, action):
        """Gives each motor its gain, and swaps them where the task says so."""
        swapped = state.task["swapped"][rows, None] > 0.5
        pushes = state.task["gain"][rows] * np.where(swapped, action[:, ::-1], action)
        controls[rows] = np.clip(pushes, -1.0, 1.0)

    def reward(self, before, after, action):
        """Returns the mean velocity towards the target during the env step (m/s)."""
        return (self.distance(before) - self.distance(after)) / self.seconds_per_step


VARIANTS = {
    "pendulum": presets.identifying(TaskConfig("signed_pendulum", 2, 200)),
    "reacher": presets.identifying(
        TaskConfig("wired_reacher", 2, 50), channels=("observation_pairs",)
    ),
}


def get_config(variant: str = "pendulum") -> ConfigDict:
    """Returns the settings of a variant."""
    return chosen(VARIANTS, variant, "unknown_motors")
