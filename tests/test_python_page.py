"""Tests that the code of docs/python.md runs as it is printed, with tiny settings."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import types

import numpy as np
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
        "agent": {
            "hidden": (4,),
            "batch": 2,
            "chunk": 3,
            "random_steps": 0,
            "updates_after": 10,
            "replay_steps": 20,
        },
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


class Tracker(types.ModuleType):
    """Stands in for Weights & Biases and Optuna; records what it is given.

    Attributes:
      settings: Plain values.
      metrics: (step, name -> number) in their order.
      summary: Name -> number.
    """

    TrialPruned = type("TrialPruned", (Exception,), {})

    def __init__(self):
        super().__init__("tracker")
        self.settings, self.summary = {}, {}
        self.metrics, self.values = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def init(self, *, project, config):
        self.settings = json.loads(json.dumps(config))
        return self

    def log(self, metrics, *, step):
        self.metrics.append((step, {name: float(value) for name, value in metrics.items()}))

    def create_study(self, *, direction):
        assert direction == "maximize"
        return self

    def optimize(self, objective, n_trials):
        assert n_trials > 1
        self.values.append(objective(self))
        self.pruning = True
        with pytest.raises(self.TrialPruned):
            objective(self)

    def suggest_float(self, name, low, high, *, log):
        return (low * high) ** 0.5

    def report(self, value, step):
        self.metrics.append((step, {"reported": value}))

    def should_prune(self):
        return getattr(self, "pruning", False)


@pytest.fixture
def trackers(monkeypatch):
    """Puts stand-ins where the page imports trackers; name -> stand-in."""
    found = {name: Tracker() for name in ("wandb", "optuna")}
    for name, tracker in found.items():
        monkeypatch.setitem(sys.modules, name, tracker)
    return found


def run(blocks, space):
    for block in blocks:
        exec(
            compile(
                block.replace("lives=64", "lives=6").replace("@200", "@5"), "docs/python.md", "exec"
            ),
            space,
        )


@pytest.mark.slow
def test_the_page_on_evolution_runs_as_printed(tiny_settings, trackers, tmp_path, capsys):
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
    assert (tmp_path / "runs" / "tf-agents-policy" / "saved_model.pb").is_file()
    assert space["learner"].train_step_counter.numpy() >= 3
    tracker = trackers["wandb"]
    assert [step for step, _ in tracker.metrics] == [1, 2, 3]
    assert "fitness_mean" in tracker.metrics[0][1] and tracker.settings["evolution"]
    assert tracker.summary["best_return"] == space["result"].state.best_return
    assert np.isfinite(trackers["optuna"].values[0])
    assert [step for step, _ in trackers["optuna"].metrics] == [1, 2, 3, 1]
    assert "| seed, commit |" in (tmp_path / "runs/point-exported/README.md").read_text()


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
