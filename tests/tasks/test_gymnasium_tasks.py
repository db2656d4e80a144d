"""Tests families of Gymnasium's environments whose tasks differ: against environments set by hand,
in every wrapper, and with mistakes.
"""

from __future__ import annotations

import re

import gymnasium
import numpy as np
import pytest

import epg_tf
from epg_tf.core.errors import ConfigError
from epg_tf.tasks import registry
from epg_tf.tasks.gymnasium_family import GymnasiumFamily
from epg_tf.tasks.quantities import Quantity
from epg_tf.tasks.settings import TaskConfig
from tests.launch import commands

TEXT = (commands.ROOT / "docs" / "own_family.md").read_text(encoding="utf-8")
_, CODE, RESET_OPTIONS, _ = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
(ANGLE,) = re.findall(r'`(Quantity\("angle".*)` uses it', TEXT)
NAME = "random_pendulum"


@pytest.fixture(autouse=True)
def _own_registry():
    """Forgets the families that a test registers."""
    before = dict(registry.FAMILIES)
    yield
    registry.FAMILIES.clear()
    registry.FAMILIES.update(before)


def define(code: str = CODE) -> None:
    exec(compile(code, f"{NAME}.py", "exec"), {"__name__": NAME})


def with_angle() -> str:
    """Returns the file of the text with the second quantity that the text describes."""
    code = CODE.replace("nominal=2.0),)", f"nominal=2.0), {ANGLE})")
    return code.replace("    def configure", f"{RESET_OPTIONS}\n    def configure")


def made(task_range: str = "training", limit: int = 20) -> GymnasiumFamily:
    return registry.make_family(TaskConfig(NAME, 1, limit, task_range))


def started(family, tasks, seeds):
    simulation = registry.simulate(family, len(tasks))
    simulation.set_tasks(tasks)
    first = simulation.reset(np.arange(len(tasks)), [np.random.default_rng(s) for s in seeds])
    return simulation, first


def test_equals_environments_set_by_hand():
    """Attributes and options of each life, in every episode, also in a simulation used before."""
    define(with_angle())
    family = made()
    tasks = [
        {"torque": np.array(torque), "angle": np.array(angle)}
        for torque, angle in ((1.0, 0.5), (2.0, 3.0), (1.5, 1.0))
    ]
    simulation, _ = started(family, tasks[::-1], (4, 5, 6))
    simulation.set_tasks(tasks)
    resets = [np.random.default_rng(seed) for seed in (1, 2, 3)]
    seeds = [np.random.default_rng(seed) for seed in (1, 2, 3)]
    action = np.full((3, 1), 2.0, np.float32)
    envs = [gymnasium.make("Pendulum-v1", max_episode_steps=20) for _ in tasks]
    for env, task in zip(envs, tasks, strict=True):
        env.unwrapped.max_torque = float(task["torque"])
    starts, rewards = [], []
    for _ in range(2):
        first = simulation.next_episode(np.arange(3), resets)
        for row, (env, task) in enumerate(zip(envs, tasks, strict=True)):
            seed = int(seeds[row].integers(2**31))
            expected, _ = env.reset(seed=seed, options={"x_init": float(task["angle"])})
            np.testing.assert_array_equal(first[row], expected)
        for _ in range(20):
            result = simulation.step(action)
            for row, env in enumerate(envs):
                expected, reward, _, truncated, _ = env.step(action[row])
                np.testing.assert_array_equal(result.observation[row], expected)
                assert result.reward[row] == np.float32(reward)
                assert result.truncated[row] == truncated
            rewards.append(result.reward)
        starts.append(first)
    assert not np.array_equal(starts[0], starts[1]) and len(set(rewards[-1])) == 3


def test_the_family_has_the_registered_limit_unless_it_sets_one():
    define()
    assert registry.named_environment(NAME).episode_limit == 200
    assert registry.named_environment(f"{NAME}@30").episode_limit == 30
    for limit in (70, 1000):
        define(CODE.replace("    env_id", f"    default_episode_limit = {limit}\n    env_id"))
        assert registry.named_environment(NAME).episode_limit == limit


@pytest.mark.parametrize(
    ("family", "limit"),
    [("gymnasium:Pendulum-v1", 200), ("gymnasium:Reacher-v5", 50), ("walker2d", 1000)],
)
def test_an_environment_without_a_limit_has_the_registered_one(family, limit):
    assert registry.usual_limit(family) == limit
    assert registry.named_environment(family).episode_limit == limit


def test_it_is_an_environment_of_gymnasium():
    define()
    epg_tf.register_environments()
    env = gymnasium.make("epg_tf/RandomPendulum-v0")
    assert env.spec.max_episode_steps == 200
    _, info = env.reset(seed=0, options={"task": {"torque": 1.25}})
    assert info["task"] == {"torque": 1.25}
    assert env.step(np.float32([1.0]))[1] < 0.0
    drawn = {env.reset(seed=seed)[1]["task"]["torque"] for seed in range(3)}
    assert len(drawn) == 3 and min(drawn) >= 1.0 and max(drawn) <= 2.0


# What is changed in the file of the text -> what the one line must say.
CONFIGURE = 'environment.unwrapped.max_torque = float(task["torque"])'
OPTIONS = "    def reset_options(self, task):\n        return {}\n\n    def configure"
AT_REGISTRATION = {
    "no hook": (
        f"    def configure(self, environment, task):\n        {CONFIGURE}\n",
        "",
        "task family 'random_pendulum' ignores its quantities (torque)",
    ),
    "no id": ('    env_id = "Pendulum-v1"\n', "", "has no env_id"),
    "unknown id": ("Pendulum-v1", "Pendulum-v9", "env_id='Pendulum-v9' is unknown"),
    "a module": ("Pendulum-v1", "evil:Pendulum-v1", "would import a module"),
    "another base": ("(GymnasiumFamily)", "", "must be a subclass of BodyFamily or"),
}
WHEN_MADE = {
    "misspelt quantity": ('task["torque"]', 'task["tork"]', "configure() raised KeyError at"),
    "unread quantity": ('float(task["torque"])', "1.0", "reads task['torque']"),
    "counts twice": (
        CONFIGURE,
        'environment.unwrapped.m *= float(task["torque"])',
        "depends on the task that the environment had before",
    ),
    "kept attribute": (
        CONFIGURE,
        'environment.unwrapped.m = min(environment.unwrapped.m, float(task["torque"]) - 1.0)',
        "depends on the task that the environment had before",
    ),
    "no options": (
        "    def configure",
        OPTIONS.format("None"),
        "reset_options() returns None; it must be a dict",
    ),
    "bad options": (
        "    def configure",
        OPTIONS.format("{'x_init': 'left'}"),
        "reset raised ",
    ),
}


@pytest.mark.parametrize("mistake", AT_REGISTRATION)
def test_what_can_never_work_is_refused_at_registration(mistake):
    right, wrong, complaint = AT_REGISTRATION[mistake]
    assert CODE.count(right)
    with pytest.raises(ConfigError) as error:
        define(CODE.replace(right, wrong))
    assert complaint in str(error.value) and "\n" not in str(error.value)
    assert NAME not in registry.FAMILIES


@pytest.mark.parametrize("mistake", WHEN_MADE)
def test_a_mistake_is_named_in_one_line(mistake):
    right, wrong, complaint = WHEN_MADE[mistake]
    assert CODE.count(right)
    define(CODE.replace(right, wrong))
    with pytest.raises(ConfigError) as error:
        made()
    message = str(error.value)
    assert message.startswith(f"config.task.family={NAME!r}") and "\n" not in message
    assert complaint in message, message


def test_a_family_without_quantities_needs_no_methods():
    class Plain(GymnasiumFamily):
        name = "plain_pendulum"
        env_id = "Pendulum-v1"

    class PlainReacher(Plain):
        name = "plain_reacher"
        env_id = "Reacher-v5"

    registry.register_family(Plain)
    registry.register_family(PlainReacher)  # whose registered limit is another one
    assert registry.usual_limit("plain_pendulum") == 200
    assert registry.usual_limit("plain_reacher") == 50
    assert registry.named_environment("plain_pendulum").sample_task(None) == {}
    assert Quantity("torque", "N m", (1.0, 2.0)) not in Plain.quantities
