"""Runs the commands and the code of pages as they are written, with settings small enough for a
test.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import epg_tf
from epg_tf.evaluation.methods import LOSS_METHODS
from tests.docs.pages import PAGES, ROOT, Command, blocks, steps, text_of
from tests.launch import commands
from tests.launch.systems import SYSTEMS
from tests.launch.test_list_and_render import REASON as NOTHING_TO_DRAW_WITH

# Of a loss that did not begin as REINFORCE.
ROWS = [name for name in LOSS_METHODS.chosen(["ppo"]) if name != "policy_gradient_loss"]

EVOLUTION = ("--config.evolution.epochs=2", "--config.evolution.validation_period=1")
OBJECTIVE = [
    f"--config.{name}={value}"
    for name, value in {
        **SYSTEMS["metagenrl"].settings,
        "environments": "('point_goal@10',)",
    }.items()
]
FIXED = "--config.evolution.moves=initialisation"
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
        "render": () if "--view=path" in step.words else ("--episodes=2", "--frames=2"),
    }
    return [*step.words, *flags.get(step.name, ())]


def run_page(name: str, folder: Path, without: tuple[str, ...] = ()) -> None:
    """Runs the commands of a page in their order; `runs/` and `exported` lie in the folder.

    Commands of `without`, by name or flag, take long or need other settings; they have tests of
    their own.
    """
    (folder / "runs").mkdir(exist_ok=True)
    for step in steps(text_of(ROOT / "docs" / name)):
        if any(each in (step.name, *step.words) for each in without):
            continue
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
def test_evolve_a_loss_and_evaluate_it(tmp_path, small_config):
    """The second page evaluates the loss of the first one."""
    run_page(
        "evolve.md", tmp_path, ("--begin_with=point_goal", "--print_config", "--minutes=30", FIXED)
    )
    for name in ("learning_curve.png", "metrics.csv", "tensorboard", "best", "final"):
        assert (tmp_path / "runs" / "first" / name).exists()
    run_page("evaluate.md", tmp_path, ("tune", "study"))
    for name in ("first-test/curves.png", "first-shifted/summary.json", "path.png"):
        assert (tmp_path / "runs" / name).is_file()
    shifted = json.loads((tmp_path / "runs" / "first-shifted" / "summary.json").read_text())
    assert "out_of_distribution" in json.dumps(shifted)


@pytest.mark.slow
def test_the_second_program_of_the_readme_evolves_a_loss(small_config, capsys):
    _, evolve = blocks(text_of(ROOT / "README.md"), "python")
    exec(compile(evolve.replace("lives=128", "lives=4"), "README.md", "exec"), {})
    printed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["1", "2", "3", *ROWS]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_first_programs_train_an_agent_that_runs(name, tmp_path):
    """In a process of their own, as their threads are; that of the README beside an export."""
    programs, claim = blocks(text_of(ROOT / name), "python"), "agent.final_return > 100.0"
    if name == "README.md":
        folder = tmp_path / "exported"
        words = ["--loss=directional_half_cheetah", f"--output_dir={folder}"]
        assert commands.run("export", *words).returncode == 0
        shutil.copy(folder / "learner.py", tmp_path)
        programs, claim = programs[:1], 'info["x_position"] < -2.0'
    script = tmp_path / "program.py"
    script.write_text("\n".join([*programs, f"assert {claim}"]))
    process = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_a_pretrained_loss_in_ones_own_loop(tmp_path, capsys, monkeypatch):
    """The programs that the page names have tests of their own (tests/test_examples.py)."""
    run_page("use_a_loss.md", tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "exported")
    run_code("use_a_loss.md", tmp_path)
    printed = capsys.readouterr().out
    assert "policy_mean" in printed and "reward" not in printed
    assert "None" not in printed  # the gradient


@pytest.mark.slow
def test_metagenrl(tmp_path):
    run_page("metagenrl.md", tmp_path)
    runs = tmp_path / "runs"
    assert (runs / "objective" / "final" / "loss.npz").is_file()
    pendulum = json.loads((runs / "pendulum-test" / "summary.json").read_text())
    assert "gymnasium:Pendulum-v1" in json.dumps(pendulum)


def test_tasks_in_gymnasium_and_tf_agents(capsys):
    section = text_of(ROOT / "docs" / "python.md").partition("## Tasks")[2].partition("\n## ")[0]
    space = {}
    for example in blocks(section, "python"):
        exec(compile(example, "docs/python.md", "exec"), space)
    printed = capsys.readouterr().out
    assert "gravity" in printed and "(16, 17)" in printed
    assert space["rewards"].shape == (16,)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_pages_is_python(page):
    for block in blocks(text_of(page), "python"):
        ast.parse(textwrap.dedent(block))
