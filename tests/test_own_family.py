"""Tests that the code and the commands of docs/own_family.md work as written there."""

import importlib
import json
import re
import shlex
import sys

import numpy as np
import pytest

import epg_tf
from epg_tf.tasks import registry
from epg_tf.tasks.settings import TaskConfig
from tests.launch import commands
from tests.launch.systems import SYSTEMS

TEXT = (commands.ROOT / "docs" / "own_family.md").read_text(encoding="utf-8")
SWIMMER, PENDULUM, _, BOTH_SYSTEMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
CODE = {"random_swimmer": SWIMMER, "random_pendulum": PENDULUM}
LINES = {"random_swimmer": 41, "random_pendulum": 19}
OTHER_RANGES = {
    "random_swimmer": "out_of_distribution",
    "random_pendulum": "torque=0.5:2",
}
COMMANDS = {
    name: [
        shlex.split(line)
        for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)
        for line in block.replace("\\\n", "").splitlines()
        if name in line
    ]
    for name in CODE
}


@pytest.fixture(params=sorted(CODE))
def name(request):
    """The name of a family of the text; families that a test registers are forgotten after it."""
    return request.param


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "FAMILIES", dict(registry.FAMILIES))


@pytest.fixture
def file(name, tmp_path):
    """The file of the text."""
    path = tmp_path / f"{name}.py"
    path.write_text(CODE[name])
    return path


def define(name, module=None):
    exec(compile(CODE[name], f"{name}.py", "exec"), {"__name__": module or name})


def test_the_file_is_short(name):
    assert len([line for line in CODE[name].splitlines() if line.strip()]) <= LINES[name]


@pytest.mark.slow
def test_the_commands_evolve_and_test_a_loss(name, file, tmp_path):
    *listing, train, test = COMMANDS[name]
    assert (train[1], test[1]) == ("meta-train", "meta-test")

    def run(words, *more):
        words = [
            word.replace(file.name, str(file)).replace("runs/", f"{tmp_path}/") for word in words
        ]
        return commands.run(words[1].replace("-", "_"), *words[2:], *more)

    for words in listing:
        process = run(words)
        assert process.returncode == 0, process.stderr
        assert "random_pendulum: Reward: that of Pendulum-v1." in process.stdout
        assert "torque: 1 to 2 (N m); out of distribution 0.5 to 1" in process.stdout
    process = run(train, *commands.settings(evolution__epochs=2, evolution__validation_period=1))
    assert process.returncode == 0, process.stderr
    process = run(test, "--lives=3", f"--config.task.range={OTHER_RANGES[name]}")
    assert process.returncode == 0, process.stderr
    seen = "is not" if name == "random_swimmer" else "is"
    assert f"the reward {seen} an input of" in process.stdout and name in process.stdout
    # Without the file, the family is unknown.
    without = [word for word in test if not word.startswith("--config")]
    process = run(without, "--lives=3", "--overwrite")
    assert process.returncode == 2 and name in process.stderr and process.stderr.count("\n") == 1


def test_the_family_is_a_good_one(name):
    """Tasks vary and change rewards, and a life does not depend on its neighbours."""
    define(name)
    family = registry.make_family(TaskConfig(name, registry.FAMILIES[name].default_frame_skip, 100))
    streams = [np.random.default_rng(seed) for seed in range(3)]
    tasks = [family.sample_task(stream) for stream in streams]
    together, alone = registry.simulate(family, 3), registry.simulate(family, 1)
    together.set_tasks(tasks)
    together.reset(np.arange(3), [np.random.default_rng(seed) for seed in (7, 8, 9)])
    alone.set_tasks(tasks[2:])
    alone.reset(np.arange(1), [np.random.default_rng(9)])
    action = 2.0 * np.random.default_rng(1).uniform(-1, 1, (30, 1, family.action_size))
    for row in action:
        one, all_of_them = alone.step(row), together.step(np.repeat(row, 3, axis=0))
        np.testing.assert_array_equal(one.observation[0], all_of_them.observation[2])
        np.testing.assert_array_equal(one.reward[0], all_of_them.reward[2])
    last = family.quantities[-1].name
    assert len({float(task[last]) for task in tasks}) == 3
    # The same starts in other tasks: rewards differ because tasks do.
    together.reset(np.arange(3), [np.random.default_rng(7) for _ in range(3)])
    for row in action:
        rewards = together.step(np.repeat(row, 3, axis=0)).reward
    assert len(set(rewards)) == 3


def test_a_name_can_be_taken_once(name, file, tmp_path, monkeypatch):
    for _ in range(2):  # the same file may be loaded twice
        define(name)
    with pytest.raises(registry.ConfigError, match=name):
        define(name, "another")
    registry.FAMILIES.pop(name)
    monkeypatch.syspath_prepend(tmp_path)
    epg_tf.load_experiment(str(file))  # also in different ways
    assert importlib.import_module(name).get_config()
    sys.modules.pop(name)


def for_both_systems(name):
    """Returns the file of a family with a variant of MetaGenRL, as at the end of the page."""
    plain = CODE[name].index("def get_config")
    (task,) = re.findall(r"TaskConfig\(.*\)", CODE[name])
    limit = {"random_swimmer": 100, "random_pendulum": 200}[name]
    choice = BOTH_SYSTEMS.replace("random_swimmer@100", f"{name}@{limit}")
    imports = (
        "from dataclasses import replace\nfrom epg_tf import load_experiment\n"
        "from epg_tf.runs.config_files import config_of\n"
    )
    docstring, rest = CODE[name][:plain].split("\n", 1)
    return f"{docstring}\n{imports}{rest}{re.sub(r'TaskConfig.*', task, choice, count=1)}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random_pendulum"], indirect=True)
def test_every_command_takes_the_file(name, tmp_path):
    """All commands of the page's last section, and what is refused, with the same --config."""
    (tmp_path / f"{name}.py").write_text(for_both_systems(name))
    config, run = f"--config={tmp_path}/{name}.py", f"--loss={tmp_path}/run"

    def call(command, *words, code=0):
        process = commands.run(command, *words)
        assert process.returncode == code, process.stderr
        return process.stderr if code else process.stdout

    epochs = commands.settings(evolution__epochs=2)
    output = call("meta_train", config, f"--run_dir={tmp_path}/run", *epochs)
    printed = shlex.split(output.splitlines()[-2].partition("next: python -m launch.meta_test ")[2])
    assert config in printed and call("meta_test", *printed, "--lives=2")
    shown = shlex.split(output.splitlines()[-1].partition(" python -m launch.report ")[2])
    assert config in shown and call("report", *shown, "--nofilm")
    summary = json.loads((tmp_path / "run-test" / "summary.json").read_text())
    assert summary["about"]["replaced"] == {}  # it was tested where it was evolved
    resumed = (f"--run_dir={tmp_path}/run", "--resume")
    assert f"{name!r}" in call("meta_train", *resumed, code=2)
    assert "all 2 epochs" in call("meta_train", config, *resumed, *epochs)
    output = call("meta_test", run, config, f"--output_dir={tmp_path}/test", "--lives=2")
    assert "its best/ is taken" in output
    tuned = ("--method=ppo_as_epg", "--budget=2", "--lives=2")
    tiny = commands.life_settings()
    assert "best: " in call("tune", config, *tuned, *tiny)
    assert name in call("benchmark", config, *tiny, "--lives=4", "--updates=2")
    call("export", run, config, f"--output_dir={tmp_path}/exported")
    assert name in (tmp_path / "exported" / "README.md").read_text()
    assert name in call("export", run, f"--output_dir={tmp_path}/other", code=2)
    drawn = ("--view=path", f"--output={tmp_path}/life.png")
    assert "no way over the ground" in call("render", run, config, *drawn, code=2)
    sizes = {**SYSTEMS["metagenrl"].settings}
    del sizes["environments"]
    numbers = [f"--config.{field}={value}" for field, value in sizes.items()]
    folder = f"{tmp_path}/objective"
    output = call("meta_train", f"{config}:metagenrl", f"--run_dir={folder}", *numbers)
    assert f" --output_dir={folder}-test {config}:metagenrl" in output.splitlines()[-2]
    tested = ("--lives=2", "--episodes=1", "--compare=none", f"--output_dir={folder}-test")
    assert name in call("meta_test", f"--loss={folder}", config, *tested)
