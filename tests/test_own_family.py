"""Tests that the code and the commands of docs/own_family.md work as written there."""

import re
import shlex

import numpy as np
import pytest

from epg_tf.tasks import registry
from tests.launch import commands

TEXT = (commands.ROOT / "docs" / "own_family.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
]


@pytest.fixture
def file(tmp_path):
    """The file of the text."""
    path = tmp_path / "random_swimmer.py"
    path.write_text(CODE)
    return path


def test_the_file_is_short():
    assert len([line for line in CODE.splitlines() if line.strip()]) <= 42


def test_the_commands_evolve_and_test_a_loss_that_never_sees_a_reward(file, tmp_path):
    train, test = COMMANDS
    assert (train[2], test[2]) == ("launch.meta_train", "launch.meta_test")

    def here(words):
        words = [
            word.replace("random_swimmer.py", str(file)).replace("runs/", f"{tmp_path}/")
            for word in words
        ]
        return words[2].removeprefix("launch."), *words[3:]

    process = commands.run(
        *here(train), *commands.settings(evolution__epochs=2, evolution__validation_period=1)
    )
    assert process.returncode == 0, process.stderr
    process = commands.run(*here(test), "--lives=3", "--config.task.range=out_of_distribution")
    assert process.returncode == 0, process.stderr
    assert "the reward is not an input of" in process.stdout and "random_swimmer" in process.stdout
    # Without the file, the family is unknown.
    process = commands.run(*here(test)[:-1], "--lives=3", "--overwrite")
    assert (
        process.returncode == 2
        and "random_swimmer" in process.stderr
        and process.stderr.count("\n") == 1
    )


def test_the_family_is_a_good_one(file, monkeypatch):
    """Tasks vary and change rewards, and a life does not depend on its neighbours."""
    monkeypatch.setattr(registry, "FAMILIES", dict(registry.FAMILIES))
    space = {"__name__": "random_swimmer"}
    exec(compile(CODE, str(file), "exec"), space)
    family = registry.FAMILIES["random_swimmer"](4, 100)
    streams = [np.random.default_rng(seed) for seed in range(3)]
    tasks = [family.sample_task(stream) for stream in streams]
    together, alone = registry.simulate(family, 3), registry.simulate(family, 1)
    together.set_tasks(tasks)
    together.reset(np.arange(3), [np.random.default_rng(seed) for seed in (7, 8, 9)])
    alone.set_tasks(tasks[2:])
    alone.reset(np.arange(1), [np.random.default_rng(9)])
    action = np.random.default_rng(1).uniform(-1, 1, (30, 1, 2))
    for row in action:
        one, all_of_them = alone.step(row), together.step(np.repeat(row, 3, axis=0))
        np.testing.assert_array_equal(one.observation[0], all_of_them.observation[2])
        np.testing.assert_array_equal(one.reward[0], all_of_them.reward[2])
    assert len({float(task["viscosity"]) for task in tasks}) == 3
    assert len(set(all_of_them.reward)) == 3


def test_a_name_can_be_taken_once(file, monkeypatch):
    monkeypatch.setattr(registry, "FAMILIES", dict(registry.FAMILIES))
    for _ in range(2):  # the same file may be loaded twice
        exec(compile(CODE, str(file), "exec"), {"__name__": "random_swimmer"})
    with pytest.raises(registry.ConfigError, match="random_swimmer"):
        exec(compile(CODE, str(file), "exec"), {"__name__": "another"})
