"""Tests that a mistake in a user's own family gives a message of one line."""

import re

import numpy as np
import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.runs.config_files import load_experiment
from epg_tf.tasks import bodies, registry
from epg_tf.tasks.settings import TaskConfig
from tests.launch import commands

TEXT = (commands.ROOT / "docs" / "own_family.md").read_text(encoding="utf-8")
CODE, PENDULUM, RESET_OPTIONS, _ = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
OBSERVE = "    def observe(self, state):"
CONTROL = "    def control(self, state, controls, rows, action):\n        {}\n\n" + OBSERVE
SETTLE = "    settles = True\n\n    def settle(self, state, rows):\n        {}\n\n" + OBSERVE
ENDS = "    def terminated(self, state):\n        return {}\n\n" + OBSERVE

# What is changed in the example of docs/own_family.md -> what the one line must say.
MISTAKES = {
    "observation size": ("observation_size = 8", "observation_size = 9", "the shape that observe"),
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
    "parts": (
        "observation_size = 8",
        "observation_size = 8\n    discrete_actions = True\n    action_parts = (2, 2)",
        "action_parts=(2, 2) do not add up to action_size=2; correct one of them",
    ),
    "equal bounds": (
        "    def fields(self, task):",
        "    def __init__(self, *settings):\n        super().__init__(*settings)\n"
        "        self.action_bounds = np.zeros(2), np.array([1.0, 0.0])\n\n"
        "    def fields(self, task):",
        "component 1 of its actions is within 0 and 0, which leaves no choice",
    ),
    "leaving the program": (OBSERVE, f"{OBSERVE}\n        raise SystemExit(0)", "SystemExit"),
}


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "FAMILIES", dict(registry.FAMILIES))


def define(code: str) -> None:
    exec(compile(code, "random_swimmer.py", "exec"), {"__name__": "random_swimmer"})


def test_the_example_itself_passes():
    define(CODE)
    family = registry.make_family(TaskConfig("random_swimmer", 4, 100))
    assert family.observation_size == 8 and np.isfinite(family.action_bounds).all()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_in_one_line(mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noact.xml").write_text(
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    right, wrong, complaint = MISTAKES[mistake]
    assert CODE.count(right)
    define(CODE.replace(right, wrong))
    with pytest.raises(ConfigError) as error:
        registry.make_family(TaskConfig("random_swimmer", 4, 100))
    message = str(error.value)
    assert message.startswith("config.task.family='random_swimmer'") and "\n" not in message
    assert complaint in message, message


def test_a_relative_model_lies_beside_the_file_that_names_it(tmp_path, monkeypatch):
    """From any working folder; a subclass in another file keeps the model of its base."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.xml").write_bytes(
        (bodies.GYMNASIUM_MODELS / "swimmer.xml").read_bytes()
    )
    code = CODE.replace('GYMNASIUM_MODELS / "swimmer.xml"', '"models/mine.xml"')
    (tmp_path / "swims.py").write_text(code)
    load_experiment(str(tmp_path / "swims.py"))
    kind = registry.FAMILIES["random_swimmer"]
    monkeypatch.chdir("/")
    assert kind(4, 100).model.nu == 2
    assert type("Other", (kind,), {"name": "other"})(4, 100).model.nu == 2


@pytest.mark.parametrize("line", ["", '    name = "  "\n'])
def test_a_family_needs_a_name(line):
    with pytest.raises(ConfigError, match="RandomSwimmer has no name"):
        define(CODE.replace('    name = "random_swimmer"\n', line))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("raise ValueError('in mid-life')", "observe() raised ValueError at random_swimmer.py:"),
        ("return np.zeros((1, 2, 3))", "returned shape (1, 2, 3) during a life; it must be (2, 8)"),
    ],
)
def test_a_mistake_in_mid_life_names_the_users_line(line, complaint):
    define(
        CODE.replace(OBSERVE, f"{OBSERVE}\n        if state.qpos[0, 0] > 1e3:\n            {line}")
    )
    family = registry.make_family(TaskConfig("random_swimmer", 4, 100))
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
