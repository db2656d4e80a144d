"""Tests that the code of docs/python.md runs as it is printed, with tiny settings."""

from __future__ import annotations

import dataclasses
import re

import pytest

import epg_tf
from tests.test_imports import ROOT

TEXT = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
TINY_OBJECTIVE = epg_tf.MetaGenRLExperiment.from_mapping(
    {
        "agents": 2,
        "steps_per_agent": 20,
        "round_steps": 10,
        "shard_agents": 4,
        "threads": 2,
        "objective": {"lstm_units": 3, "action_layers": 1, "action_filters": 2},
        "agent": {"hidden": (4,), "batch": 2, "chunk": 3, "random_steps": 0, "replay_steps": 20},
        "baseline": {"update_period": 10, "minibatch": 5},
    }
)


@pytest.fixture
def tiny_settings(tiny, monkeypatch, tmp_path):
    """Replaces the settings of the configs that the page names; those must exist."""
    load = epg_tf.load_experiment

    def tiny_experiment(name):
        return tiny if isinstance(load(name), epg_tf.Experiment) else TINY_OBJECTIVE

    monkeypatch.setattr(epg_tf, "load_experiment", tiny_experiment)
    monkeypatch.chdir(tmp_path)


def run(blocks, space):
    for block in blocks:
        exec(
            compile(
                block.replace("lives=64", "lives=6").replace("@200", "@5"), "docs/python.md", "exec"
            ),
            space,
        )


@pytest.mark.slow
def test_the_page_on_evolution_runs_as_printed(tiny_settings, tmp_path, capsys):
    """Also resumed: the loop of the first part is left after one epoch."""
    evolve, *others = (block for block in BLOCKS if "objective" not in block)
    left = evolve.replace("run_dir=", "write=print, run_dir=") + "    break\n"
    space = {}
    run([left], space)
    assert len(epg_tf.read_run("runs/point").metrics) == 1
    run(others, space)
    printed = capsys.readouterr().out
    assert space["record"].finished and len(space["record"].metrics) == 3
    assert space["loss"].folder.name == "best"
    assert space["again"].final().tolist() == space["results"].final().tolist()
    assert set(space["shifted"].groups()) == {"epg", "untrained"}
    assert -100.0 < space["total"] < 0.0
    assert "did you mean 'random_hopper'?" in printed
    assert (tmp_path / "runs" / "point-agent" / "policy.json").is_file()
    assert "| seed, commit |" in (tmp_path / "runs/point-exported/card.md").read_text()


@pytest.mark.slow
def test_the_part_on_metagenrl_runs_as_printed(tiny_settings, tmp_path):
    (block,) = (block for block in BLOCKS if "objective" in block)
    space = {"epg_tf": epg_tf, "dataclasses": dataclasses}
    run([block], space)
    assert len(epg_tf.read_run("runs/objective").metrics) == 2
    assert space["objective"].folder.name == "final"
    assert (tmp_path / "runs" / "objective-agent" / "policy.json").is_file()


def test_every_function_that_the_page_calls_is_public():
    called = set(re.findall(r"epg_tf\.([A-Za-z_]+)", "".join(BLOCKS))) - {"core", "tasks"}
    assert called <= set(epg_tf.__all__) and len(called) > 12
