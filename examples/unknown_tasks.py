"""Families for `epg-tf meta-train --minutes`, which is told nothing but the family.

    epg-tf meta-train --config=examples/unknown_tasks.py:swimmer --minutes=30 --run_dir=runs/swimmer

In the first five the task must be found out: pendulum and reacher have motors that may be reversed,
or swapped, and are of unknown strength; in cartpole_buttons the two actions may be swapped; swimmer
has an unknown direction of reward, hidden_reacher a target that is not seen. One policy serves the
next five, whose bodies differ. `turned_motors` is the package's own. `--config.loss.reward=False`
asks for losses that see no reward; those that identify the motors learn still.
"""

import numpy as np

from epg_tf.epg.settings import Experiment
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.bodies import GYMNASIUM_MODELS, BodyFamily
from epg_tf.tasks.gymnasium_family import GymnasiumFamily
from epg_tf.tasks.quantities import Quantity
from epg_tf.tasks.reacher import RandomReacher
from epg_tf.tasks.registry import register_family
from epg_tf.tasks.settings import TaskConfig

SWITCH = {"training": (0.0, 1.0), "nominal": 0.0, "either": True}


class NoisyBody(BodyFamily):
    """Starts each episode near the model's own pose."""

    noise = 0.1

    def start(self, generator, task):
        """Draws positions and speeds."""
        noise = generator.uniform(-self.noise, self.noise, self.model.nq + self.model.nv)
        return self.model.qpos0 + noise[: self.model.nq], noise[self.model.nq :], np.zeros(0)

    def scaled(self, **factors):
        """Returns the expanded fields of the model, some multiplied."""
        return {
            name: np.array(getattr(self.model, name)) * factors.get(name, 1.0)
            for name in self.expanded
        }


@register_family
class SignedPendulum(NoisyBody):
    """Rewards each env step in which the pole is within 0.2 rad of upright."""

    name = "signed_pendulum"
    observation_size = 4
    noise = 0.01
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

    def observe(self, state):
        """Returns position (m), angle (rad) and their velocities."""
        return np.concatenate([state.qpos, state.qvel], axis=1)

    def reward(self, before, after, action):
        """Returns 1 while the pole is up."""
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
        Quantity("swapped", "0 or 1", **SWITCH),
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


@register_family
class HiddenReacher(RandomReacher):
    """Rewards minus the distance (m) to a target that stays for life and is not observed."""

    name = "hidden_reacher"
    observation_size = 6
    quantities = (
        Quantity("target", "m", training=(-0.14, 0.14), size=2),
        *RandomReacher.quantities,
    )

    def start(self, generator, task):
        """Puts the target where the task says."""
        qpos, qvel, goal = super().start(generator, task)
        qpos[2:] = task["target"]
        return qpos, qvel, goal

    def observe(self, state):
        """Returns cosines, sines and velocities (rad/s) of the joints."""
        angles, speeds = state.qpos[:, :2], state.qvel[:, :2]
        return np.concatenate([np.cos(angles), np.sin(angles), speeds], axis=1)


@register_family
class TwoWaySwimmer(NoisyBody):
    """Rewards the velocity (m/s) along +x, or where the task says so along -x."""

    name = "two_way_swimmer"
    observation_size = 8
    model_file = GYMNASIUM_MODELS / "swimmer.xml"
    quantities = (Quantity("backward", "0 or 1", **SWITCH),)

    def observe(self, state):
        """Returns angles (rad) and velocities."""
        return np.concatenate([state.qpos[:, 2:], state.qvel], axis=1)

    def reward(self, before, after, action):
        """Returns the mean velocity during the env step."""
        sign = np.where(after.task["backward"] > 0.5, -1.0, 1.0).reshape(-1)
        return sign * (after.qpos[:, 0] - before.qpos[:, 0]) / self.seconds_per_step


@register_family
class UnknownCartPole(GymnasiumFamily):
    """CartPole-v1 with a pole of unknown length and a push of unknown force."""

    name = "unknown_cartpole"
    env_id = "CartPole-v1"
    quantities = (
        Quantity("length", "m, half", training=(0.25, 1.0), nominal=0.5),
        Quantity("force", "N", training=(5.0, 15.0), nominal=10.0),
    )

    def configure(self, environment, task):
        """Sets length and force."""
        own = environment.unwrapped
        own.length, own.force_mag = float(task["length"]), float(task["force"])
        own.polemass_length = own.masspole * own.length


@register_family
class WiredCartPole(GymnasiumFamily):
    """CartPole-v1 whose two actions may be swapped, with a pole of unknown length."""

    name = "wired_cartpole"
    env_id = "CartPole-v1"
    quantities = (
        Quantity("swapped", "0 or 1", **SWITCH),
        Quantity("length", "m, half", training=(0.25, 1.0), nominal=0.5),
    )

    def configure(self, environment, task):
        """Sets the sign of the push and the length."""
        own = environment.unwrapped
        own.force_mag = -10.0 if task["swapped"] > 0.5 else 10.0
        own.length = float(task["length"])
        own.polemass_length = own.masspole * own.length


@register_family
class LoadedAcrobot(GymnasiumFamily):
    """Acrobot-v1 with links of unknown mass."""

    name = "loaded_acrobot"
    env_id = "Acrobot-v1"
    quantities = (Quantity("mass", "kg", training=(0.7, 1.5), nominal=1.0, size=2),)

    def configure(self, environment, task):
        """Sets both masses."""
        own = environment.unwrapped
        own.LINK_MASS_1, own.LINK_MASS_2 = map(float, task["mass"])


@register_family
class WeakCar(GymnasiumFamily):
    """MountainCarContinuous-v0 with an engine of unknown power."""

    name = "weak_car"
    env_id = "MountainCarContinuous-v0"
    quantities = (Quantity("power", "", training=(0.0008, 0.002), nominal=0.0015),)

    def configure(self, environment, task):
        """Sets the power."""
        environment.unwrapped.power = float(task["power"])


@register_family
class DoublePendulum(NoisyBody):
    """Rewards as InvertedDoublePendulum-v5, with poles of unknown mass and a motor of unknown
    strength.
    """

    name = "double_pendulum"
    observation_size = 8
    model_file = GYMNASIUM_MODELS / "inverted_double_pendulum.xml"
    quantities = (
        Quantity("mass", "times its own", training=(0.5, 2.0), size=2),
        Quantity("gear", "times its own", training=(0.5, 1.5)),
    )
    expanded = ("body_mass", "body_inertia", "actuator_gear")
    sensed = ("site_xpos",)

    def fields(self, task):
        """Returns masses, inertias and gear."""
        mass = np.ones(self.model.nbody)
        mass[2:4] = task["mass"]
        return self.scaled(body_mass=mass, body_inertia=mass[:, None], actuator_gear=task["gear"])

    def observe(self, state):
        """Returns the cart's position (m), sines, cosines and velocities."""
        angles = state.qpos[:, 1:]
        parts = state.qpos[:, :1], np.sin(angles), np.cos(angles), np.clip(state.qvel, -10, 10)
        return np.concatenate(parts, axis=1)

    def reward(self, before, after, action):
        """Returns 10 while it is up, minus distance and speeds."""
        tip = after.sensed["site_xpos"][:, 0]
        away = 0.01 * tip[:, 0] ** 2 + (tip[:, 2] - 2.0) ** 2
        fast = 1e-3 * after.qvel[:, 1] ** 2 + 5e-3 * after.qvel[:, 2] ** 2
        return 10.0 * ~self.terminated(after) - away - fast

    def terminated(self, state):
        """Returns whether the tip is below 1 m."""
        return state.sensed["site_xpos"][:, 0, 2] <= 1.0


@register_family
class HeavyCheetah(NoisyBody):
    """Rewards as HalfCheetah-v5, with unknown masses and friction."""

    name = "heavy_cheetah"
    observation_size = 17
    model_file = GYMNASIUM_MODELS / "half_cheetah.xml"
    quantities = (
        Quantity("mass", "times its own", training=(0.5, 2.0), size=7),
        Quantity("friction", "times its own", training=(0.5, 1.5)),
    )
    expanded = ("body_mass", "body_inertia", "geom_friction")

    def fields(self, task):
        """Returns masses, inertias and friction."""
        mass = np.concatenate([[1.0], task["mass"]])
        return self.scaled(
            body_mass=mass, body_inertia=mass[:, None], geom_friction=task["friction"]
        )

    def observe(self, state):
        """Returns positions but that along the way, and velocities."""
        return np.concatenate([state.qpos[:, 1:], state.qvel], axis=1)

    def reward(self, before, after, action):
        """Returns the velocity (m/s) minus the cost of effort."""
        speed = (after.qpos[:, 0] - before.qpos[:, 0]) / self.seconds_per_step
        return speed - 0.1 * np.square(action).sum(axis=1)


TASKS = {
    "pendulum": TaskConfig("signed_pendulum", 2, 200),
    "reacher": TaskConfig("wired_reacher", 2, 50),
    "cartpole_buttons": TaskConfig("wired_cartpole", 1, 500),
    "swimmer": TaskConfig("two_way_swimmer", 4, 100),
    "hidden_reacher": TaskConfig("hidden_reacher", 2, 50),
    "cartpole": TaskConfig("unknown_cartpole", 1, 500),
    "acrobot": TaskConfig("loaded_acrobot", 1, 500),
    "car": TaskConfig("weak_car", 1, 300),
    "double_pendulum": TaskConfig("double_pendulum", 5, 200),
    "cheetah": TaskConfig("heavy_cheetah", 5, 200),
    "turned_motors": TaskConfig("turned_motors", 4, 25),
}
VARIANTS = {name: Experiment(task=task) for name, task in TASKS.items()}
get_config = config_of(VARIANTS)
