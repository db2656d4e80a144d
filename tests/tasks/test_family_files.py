"""Tests families in files of users, as docs/own_family.md shows them: in every wrapper, against
environments set by hand, and that a mistake gives a message of one line.
"""

from __future__ import annotations

import re

import gymnasium
import numpy as np
import pytest

import epg_tf
from epg_tf.core.errors import ConfigError
from epg_tf.runs.config_files import load_experiment
from epg_tf.tasks import bodies, registry
from epg_tf.tasks.gymnasium_family import GymnasiumFamily
from epg_tf.tasks.quantities import Quantity
from epg_tf.tasks.settings import TaskConfig
from tests.launch import commands

TEXT = (commands.ROOT / "docs" / "own_family.md").read_text(encoding="utf-8")
SWIMMER, PENDULUM, RESET_OPTIONS, _ = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
(ANGLE,) = re.findall(r'`(Quantity\("angle".*)` uses it', TEXT)
FILES = {"random_swimmer": (SWIMMER, 4), "random_pendulum": (PENDULUM, 1)}  # and frame skips
NAME = "random_pendulum"

OBSERVE = "    def observe(self, state):"
CONTROL = "    def control(self, state, controls, rows, action):\n        {}\n\n" + OBSERVE
SETTLE = "    settles = True\n\n    def settle(self, state, rows):\n        {}\n\n" + OBSERVE
ENDS = "    def terminated(self, state):\n        return {}\n\n" + OBSERVE

CONFIGURE = 'environment.unwrapped.max_torque = float(task["torque"])'
OPTIONS = "    def reset_options(self, task):\n        return {}\n\n    def configure"

# What is changed in a file -> what the one line must say.
MISTAKES = {
    "random_swimmer": {
        "observation size": (
            "observation_size = 8",
            "observation_size = 9",
            "the shape that observe",
        ),
        "unknown field": ("opt.viscosity", "opt.viskosity", "simulating it"),
        "not a number": (
            "[state.qpos[:, 2:], state.qvel]",
            "[np.nan * state.qpos[:, 2:], state.qvel]",
            "not finite",
        ),
        "one end for all": (OBSERVE, ENDS.format("False"), "terminated"),
        "ends in numbers": (OBSERVE, ENDS.format("state.qpos[:, 0]"), "type"),
        "rows that leak": (
            "[state.qpos[:, 2:], state.qvel]",
            "[state.qpos[:, 2:], state.qvel - state.qvel.mean()]",
            "observe() returns for a simulation depends on the others",
        ),
        "writing to a state": (
            OBSERVE,
            f"{OBSERVE}\n        state.qvel[:] = 0.0",
            "observe() of a state that it may only read raised ValueError at random_swimmer.py:",
        ),
        "actions that leak": (
            OBSERVE,
            CONTROL.format("controls[rows] = action - action.mean()"),
            "what control() writes to controls of a simulation depends on the others",
        ),
        "controls of others": (
            OBSERVE,
            CONTROL.format("controls[:] = action"),
            "control() writes controls of simulations that are not in rows",
        ),
        "positions of others": (
            OBSERVE,
            SETTLE.format("state.qpos[:, 2] = 0.0"),
            "settle() writes qpos of simulations that are not in rows",
        ),
        "positions that leak": (
            OBSERVE,
            SETTLE.format("state.qpos[rows] -= state.qpos.mean(axis=0)"),
            "what settle() writes to qpos of a simulation depends on the others",
        ),
        "no actuators": (
            'GYMNASIUM_MODELS / "swimmer.xml"',
            "'noact.xml'",
            "has no actions, so an agent cannot learn; add actuators to the model, <actuator>",
        ),
        "equal bounds": (
            "    def fields(self, task):",
            "    def __init__(self, *settings):\n        super().__init__(*settings)\n"
            "        self.action_bounds = np.zeros(2), np.array([1.0, 0.0])\n\n"
            "    def fields(self, task):",
            "component 1 of its actions is within 0 and 0, which leaves no choice",
        ),
        "parts": (
            "observation_size = 8",
            "observation_size = 8\n    discrete_actions = True\n    action_parts = (2, 2)",
            "action_parts=(2, 2) do not add up to action_size=2; correct one of them",
        ),
        "leaving the program": (OBSERVE, f"{OBSERVE}\n        raise SystemExit(0)", "SystemExit"),
    },
    "random_pendulum": {
        "no hook": (
            f"    def configure(self, environment, task):\n        {CONFIGURE}\n",
            "",
            "task family 'random_pendulum' ignores its quantities (torque)",
        ),
        "no id": ('    env_id = "Pendulum-v1"\n', "", "has no env_id"),
        "unknown id": ("Pendulum-v1", "Pendulum-v9", "env_id='Pendulum-v9' is unknown"),
        "another base": ("(GymnasiumFamily)", "", "must be a subclass of BodyFamily or"),
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
    },
}


@pytest.fixture(autouse=True)
def _own_registry():
    """Forgets the families that a test registers, here and with Gymnasium."""
    kept = [(known, dict(known)) for known in (registry.FAMILIES, gymnasium.registry)]
    yield
    for known, before in kept:
        known.clear()
        known.update(before)


def define(code: str, name: str = NAME) -> None:
    exec(compile(code, f"{name}.py", "exec"), {"__name__": name})


def made(name: str = NAME, limit: int = 100):
    return registry.make_family(TaskConfig(name, FILES[name][1], limit))


@pytest.mark.parametrize(
    ("name", "mistake"), [(name, mistake) for name, table in MISTAKES.items() for mistake in table]
)
def test_a_mistake_is_named_in_one_line(name, mistake, tmp_path, monkeypatch):
    """When the family is made, or before it is registered."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noact.xml").write_text(
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    (right, wrong, complaint), (code, _) = MISTAKES[name][mistake], FILES[name]
    assert code.count(right)
    with pytest.raises(ConfigError) as error:
        define(code.replace(right, wrong), name)
        made(name)
    message = str(error.value)
    assert complaint in message and "\n" not in message, message
    assert message.startswith(f"config.task.family={name!r}") == (name in registry.FAMILIES)


def test_a_relative_model_lies_beside_the_file_that_names_it(tmp_path, monkeypatch):
    """From any working folder; a subclass in another file keeps the model of its base."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.xml").write_bytes(
        (bodies.GYMNASIUM_MODELS / "swimmer.xml").read_bytes()
    )
    code = SWIMMER.replace('GYMNASIUM_MODELS / "swimmer.xml"', '"models/mine.xml"')
    (tmp_path / "swims.py").write_text(code)
    load_experiment(str(tmp_path / "swims.py"))
    kind = registry.FAMILIES["random_swimmer"]
    monkeypatch.chdir("/")
    assert kind(4, 100).model.nu == 2
    assert type("Other", (kind,), {"name": "other"})(4, 100).model.nu == 2


@pytest.mark.parametrize("line", ["", '    name = "  "\n'])
def test_a_family_needs_a_name(line):
    with pytest.raises(ConfigError, match="RandomSwimmer has no name"):
        define(SWIMMER.replace('    name = "random_swimmer"\n', line))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("raise ValueError('in mid-life')", "observe() raised ValueError at random_swimmer.py:"),
        ("return np.zeros((1, 2, 3))", "returned shape (1, 2, 3) during a life; it must be (2, 8)"),
    ],
)
def test_a_mistake_in_mid_life_names_the_users_line(line, complaint):
    define(
        SWIMMER.replace(
            OBSERVE, f"{OBSERVE}\n        if state.qpos[0, 0] > 1e3:\n            {line}"
        ),
        "random_swimmer",
    )
    family = made("random_swimmer")
    simulation = registry.simulate(family, 2)
    generators = [np.random.default_rng(number) for number in range(2)]
    simulation.set_tasks([family.sample_task(generator) for generator in generators])
    simulation.reset(np.arange(2), generators)
    simulation.step(np.zeros((2, family.action_size)))
    simulation.state.qpos[:, 0] = 2e3
    with pytest.raises(ConfigError) as error:
        simulation.step(np.zeros((2, family.action_size)))
    message = str(error.value)
    assert complaint in message and "\n" not in message


def with_angle() -> str:
    """Returns the file of the text with the second quantity that the text describes."""
    code = PENDULUM.replace("nominal=2.0),)", f"nominal=2.0), {ANGLE})")
    return code.replace("    def configure", f"{RESET_OPTIONS}\n    def configure")


def started(family, tasks, seeds):
    simulation = registry.simulate(family, len(tasks))
    simulation.set_tasks(tasks)
    first = simulation.reset(np.arange(len(tasks)), [np.random.default_rng(s) for s in seeds])
    return simulation, first


def test_equals_environments_set_by_hand():
    """Attributes and options of each life, in every episode, also in a simulation used before."""
    define(with_angle())
    family = made(limit=20)
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
    define(PENDULUM)
    assert registry.named_environment(NAME).episode_limit == 200
    assert registry.named_environment(f"{NAME}@30").episode_limit == 30
    for limit in (70, 1000):
        define(PENDULUM.replace("    env_id", f"    default_episode_limit = {limit}\n    env_id"))
        assert registry.named_environment(NAME).episode_limit == limit


@pytest.mark.parametrize(("family", "limit"), [("gymnasium:Pendulum-v1", 200), ("walker2d", 1000)])
def test_an_environment_without_a_limit_has_the_registered_one(family, limit):
    assert registry.usual_limit(family) == limit
    assert registry.named_environment(family).episode_limit == limit


def test_it_is_an_environment_of_gymnasium():
    define(PENDULUM)
    epg_tf.register_environments()
    env = gymnasium.make("epg_tf/RandomPendulum-v0")
    assert env.spec.max_episode_steps == 200
    _, info = env.reset(seed=0, options={"task": {"torque": 1.25}})
    assert info["task"] == {"torque": 1.25}
    assert env.step(np.float32([1.0]))[1] < 0.0
    drawn = {env.reset(seed=seed)[1]["task"]["torque"] for seed in range(3)}
    assert len(drawn) == 3 and min(drawn) >= 1.0 and max(drawn) <= 2.0


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
