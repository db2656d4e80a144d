"""Runs the tutorials as they are written, with settings small enough for a test."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import epg_tf
from epg_tf.evaluation.methods import LOSSES
from tests.docs.pages import ROOT, Command, blocks, steps, text_of
from tests.launch import commands
from tests.launch.test_list_and_render import REASON as NOTHING_TO_DRAW_WITH
from tests.launch.test_metagenrl_launchers import SETTINGS

# Of a loss that did not begin as REINFORCE.
ROWS = [name for name in LOSSES.chosen(["ppo"]) if name != "policy_gradient_loss"]

EVOLUTION = ("--config.evolution.epochs=2", "--config.evolution.validation_period=1")
LIVES = [flag for flag in commands.settings() if not flag.startswith("--config.evolution")]
OBJECTIVE = [
    f"--config.{name}={value}"
    for name, value in {**SETTINGS, "environments": "('point_goal@10',)"}.items()
]
FRESH_AGENTS = {  # of a test of a loss, of an objective
    False: ("--lives=3",),
    True: ("--lives=2", "--env_steps=20", "--episodes=1"),
}


def small(step: Command) -> list[str]:
    """Returns flags that make a command of a tutorial small; the last of equal flags counts."""
    configured = any(word.startswith("--config=") for word in step.words)
    objective = any("objective" in word for word in step.words)
    flags = {
        "meta_train": (OBJECTIVE if objective else [*commands.settings(), *EVOLUTION])
        if configured
        else [],
        "meta_test": FRESH_AGENTS[objective],
        "tune": [*LIVES, "--lives=2", "--budget=2"],
        "study": ("--lives=2", "--env_steps=20", "--episodes=1"),
        "render": () if "--view=path" in step.words else ("--episodes=2", "--frames=2"),
    }
    return [*step.words, *flags.get(step.name, ())]


def run_page(name: str, folder: Path) -> None:
    """Runs the commands of a page in their order; `runs/` and `exported` lie in the folder."""
    (folder / "runs").mkdir(exist_ok=True)
    for step in steps(text_of(ROOT / "docs" / name)):
        words = [
            re.sub(r"=(runs/|exported)", lambda found: f"={folder}/{found[1]}", word)
            for word in small(step)
        ]
        if NOTHING_TO_DRAW_WITH and any(word.endswith(".gif") for word in words):
            continue
        process = commands.run(step.name, *words)
        assert process.returncode == 0, (step, process.stderr)


def run_code(name: str, folder: Path) -> None:
    """Runs the Python of a page, block after block."""
    space: dict[str, object] = {}
    for block in blocks(text_of(ROOT / "docs" / name), "python"):
        code = re.sub(r'"(runs/|exported)', lambda found: f'"{folder}/{found[1]}', block)
        exec(compile(code.replace("lives=128", "lives=4"), name, "exec"), space)


@pytest.fixture
def small_config(tiny, monkeypatch):
    """The config of the pages is small; other tests show that its name finds its file."""
    monkeypatch.setattr(epg_tf, "load_experiment", {"point_goal": tiny}.__getitem__)


@pytest.mark.slow
def test_evolve_a_loss_and_test_it(tmp_path, small_config, capsys):
    """The second page tests the loss of the first one."""
    run_page("tutorial_evolve.md", tmp_path)
    for name in ("learning_curve.png", "metrics.csv", "tensorboard", "best", "final"):
        assert (tmp_path / "runs" / "first" / name).exists()
    run_page("tutorial_test.md", tmp_path)
    for name in ("first-test/curves.png", "first-shifted/summary.json", "path.png"):
        assert (tmp_path / "runs" / name).is_file()
    shifted = json.loads((tmp_path / "runs" / "first-shifted" / "summary.json").read_text())
    assert "out_of_distribution" in json.dumps(shifted)
    run_code("tutorial_test.md", tmp_path)
    printed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == ROWS


@pytest.mark.slow
def test_evolve_a_loss_from_python(tmp_path, small_config, capsys):
    run_code("tutorial_evolve.md", tmp_path)
    printed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["1", "2", "3", *ROWS]


@pytest.mark.slow
def test_a_shipped_loss_in_ones_own_loop(tmp_path, capsys):
    """The program that the page names last has a test of its own (tests/test_examples.py)."""
    run_page("tutorial_own_loop.md", tmp_path)
    run_code("tutorial_own_loop.md", tmp_path)
    printed = capsys.readouterr().out
    assert "policy_mean" in printed and "reward" not in printed
    assert "None" not in printed  # the gradient


def notebook_cells() -> list[dict]:
    """Returns the cells of the notebook."""
    return json.loads((ROOT / "docs" / "one_agent.ipynb").read_text(encoding="utf-8"))["cells"]


def code_cells() -> list[str]:
    """Returns the code of the notebook, cell by cell."""
    return ["".join(cell["source"]) for cell in notebook_cells() if cell["cell_type"] == "code"]


def test_the_notebook_is_the_tutorial():
    """And one cell more, which shows the picture; it was saved after it had run."""
    page = blocks(text_of(ROOT / "docs" / "tutorial_one_agent.md"), "python")
    *same, picture = code_cells()
    assert same == [block.rstrip() for block in page]
    assert picture.endswith('Image("one_agent.png")')
    *_, shown = (cell for cell in notebook_cells() if cell["cell_type"] == "code")
    assert "image/png" in shown["outputs"][0]["data"]


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    """All but its last cell, which needs IPython; in a process of its own, as its threads are."""
    checks = """
assert np.mean(final_returns) > 100.0
assert learned[-1].mean() > 50.0 > 0.0 > chance[-1].mean()
"""
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join([*code_cells()[:-1], checks]))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    assert "direction" in process.stdout and (tmp_path / "one_agent.png").is_file()


@pytest.mark.slow
def test_metagenrl(tmp_path):
    run_page("tutorial_metagenrl.md", tmp_path)
    runs = tmp_path / "runs"
    assert (runs / "objective" / "final" / "loss.npz").is_file()
    pendulum = json.loads((runs / "pendulum-test" / "summary.json").read_text())
    assert "gymnasium:Pendulum-v1" in json.dumps(pendulum)
    assert (runs / "objective-progress" / "curves.png").is_file()


@pytest.mark.parametrize("number", range(2))
def test_tasks_in_gymnasium_and_tf_agents(number, capsys):
    examples = blocks(text_of(ROOT / "docs" / "tasks.md"), "python")
    assert len(examples) == 2
    exec(compile(examples[number], "docs/tasks.md", "exec"), {})
    assert ("gravity", "(16, 17)")[number] in capsys.readouterr().out
