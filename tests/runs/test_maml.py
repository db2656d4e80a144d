"""Tests epg_tf.runs.maml: what a run costs and leaves; test_session.py interrupts it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import epg_tf
from epg_tf.artifacts.artifact import load
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.reports.objective_plots import column_panels
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.maml import MAMLSystem
from epg_tf.runs.session import run_in_folder

TINY = MAMLExperiment.from_mapping(
    {
        "task": {"family": "hidden_goal", "frame_skip": 4, "episode_limit": 5},
        "policy": {"hidden": (4,)},
        "adaptation": {"env_steps": 10},
        "outer": {"iterations": 3, "tasks": 2, "epochs": 2, "validation_period": 2},
    }
)


def test_a_run_says_what_it_costs_and_leaves_what_it_promises(tmp_path):
    folder, lines = tmp_path / "run", []
    system = MAMLSystem(TINY, 0)
    results = list(run_in_folder(system, RunTarget(folder), lines.append))
    assert lines[1].startswith(
        "cost: 3 iterations x 2 lives x 2 x 10 env steps = 120 env steps, 6 second-order gradients"
    )
    record = epg_tf.read_run(folder)
    assert record.kind == "maml"
    state = results[-1].state
    assert record.summary["env_steps"] == state.env_steps
    for name, start in (("best", state.best), ("final", state.start)):
        found = load(folder / name)
        assert found.experiment == TINY and found.facts["seed"] == 0
        assert found.phi.tobytes() == np.concatenate(start).tobytes()
    assert load(folder).folder == folder / "best"
    assert load(folder / "best").facts["iteration"] == state.best_iteration == 2
    assert load(folder / "final").facts["iteration"] == 3
    panels = column_panels({"": record.metrics}, MAMLSystem.curves, "T").axes
    for axes, column in zip(panels, ("return_before_mean", "return_after_mean"), strict=True):
        drawn = axes.lines[0].get_ydata()
        assert list(drawn) == [row[column] for row in record.metrics] and np.isfinite(drawn).all()
    with pytest.raises(RecordError, match="it is an initialisation of MAML, not a loss of EPG"):
        epg_tf.load_loss(folder)


def test_settings_that_need_too_much_memory_are_refused():
    huge = dataclasses.replace(TINY, outer=dataclasses.replace(TINY.outer, tasks=10**7))
    with pytest.raises(ConfigError, match="config.outer.tasks=10000000.* of memory"):
        MAMLSystem(huge, 0)
