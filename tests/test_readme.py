"""The README tells the truth where a machine can check it."""

import re
from pathlib import Path

import pytest
from ml_collections import ConfigDict

from configs import point_goal
from epg_tf.algorithms.meta_test import METHODS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_example_runs_as_printed(tiny, monkeypatch, capsys):
    """Only the config is swapped for a tiny one."""
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    monkeypatch.setattr(point_goal, "get_config", lambda: ConfigDict(tiny.to_mapping()))
    exec(compile(example.replace("lives=128", "lives=4"), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == ["1", "2", "3", *METHODS]


PATHS = set(re.findall(r"`((?:epg_tf|configs|launch|tests|docs|\.ci)/[\w./]+)`", README))
LINKS = set(re.findall(r"\]\((docs/[\w./]+)\)", README))


@pytest.mark.parametrize("path", sorted(PATHS | LINKS))
def test_named_files_exist(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"make ([a-z-]+)", README))))
def test_named_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_named_commands_exist():
    for name in set(re.findall(r"python -m launch\.(\w+)", README)):
        assert (ROOT / "launch" / f"{name}.py").is_file(), name


@pytest.mark.parametrize("number", range(2))
def test_examples_of_the_page_about_tasks_run_as_printed(number, capsys):
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 2
    exec(compile(examples[number], "docs/tasks.md", "exec"), {})
    assert ("gravity", "(16, 17)")[number] in capsys.readouterr().out
