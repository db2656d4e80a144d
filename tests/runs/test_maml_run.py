"""Tests runs of MAML: the same bits after any interruption, and what they leave."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools

import numpy as np
import pytest

import epg_tf
from epg_tf.artifacts.learned_start import load_start
from epg_tf.core.errors import ConfigError, Interrupted, RecordError
from epg_tf.core.maml_experiment import maml_from_mapping
from epg_tf.reports.objective_plots import column_panels
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.maml_run import CURVE_COLUMNS, MAMLRun

THREADS = 2  # of this process, see conftest.py
TINY = maml_from_mapping(
    {
        "task": {"family": "hidden_goal", "frame_skip": 4, "episode_limit": 5},
        "policy": {"hidden": (4,)},
        "adaptation": {"env_steps": 10},
        "outer": {"iterations": 3, "tasks": 2, "epochs": 2, "validation_period": 2},
    }
)


def meta_train(folder, count=None, experiment=TINY, **target):
    """Runs so many iterations, or all; returns them and the lines."""
    lines = []
    run = MAMLRun(experiment, 0, RunTarget(folder, **target), lines.append, THREADS)
    with contextlib.closing(run), contextlib.closing(run.iterations()) as iterations:
        return list(itertools.islice(iterations, count)), lines


def rows(folder):
    """Returns the lines of metrics.csv without the seconds, which come last."""
    return [line.rsplit(",", 1)[0] for line in (folder / "metrics.csv").read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return folder, *meta_train(folder)


def test_a_run_says_what_it_costs_and_leaves_what_it_promises(finished):
    folder, results, lines = finished
    assert len(results) == 3
    assert lines[1].startswith(
        "cost: 3 iterations x 2 lives x 2 x 10 env steps = 120 env steps, 6 second-order gradients"
    )
    record = epg_tf.read_run(folder)
    assert (record.kind, record.seed, record.finished) == ("maml", 0, True)
    assert record.experiment == TINY and [row["epoch"] for row in record.metrics] == [1, 2, 3]
    state = results[-1].state
    assert record.summary["env_steps"] == state.env_steps
    for name, start in (("best", state.best), ("final", state.start)):
        found = load_start(folder / name)
        assert found.experiment == TINY and found.facts["seed"] == 0
        for mine, its in zip(start, found.start, strict=True):
            assert mine.tobytes() == its.tobytes()
    assert load_start(folder).folder == folder / "best"
    assert load_start(folder / "best").facts["iteration"] == state.best_iteration == 2
    assert load_start(folder / "final").facts["iteration"] == 3
    assert (folder / "learning_curve.png").is_file()
    panels = column_panels({"": record.metrics}, CURVE_COLUMNS, "T").axes
    for axes, column in zip(panels, ("return_before_mean", "return_after_mean"), strict=True):
        drawn = axes.lines[0].get_ydata()
        assert list(drawn) == [row[column] for row in record.metrics] and np.isfinite(drawn).all()


def test_an_abandoned_run_is_resumed_to_the_same_bits(finished, tmp_path):
    folder = tmp_path / "run"
    first, lines = meta_train(folder, 1)
    assert len(first) == 1 and lines[-1].startswith("stopped after iteration 1 of 3")
    assert not epg_tf.read_run(folder).finished
    left, lines = meta_train(folder, resume=True)
    assert len(left) == 2 and "continued after iteration 1" in lines[0]
    for name in ("best", "final"):
        both = [(path / name / "loss.npz").read_bytes() for path in (folder, finished[0])]
        assert both[0] == both[1]
    assert rows(folder) == rows(finished[0])


def test_a_kill_between_row_and_checkpoint_repeats_the_iteration(finished, tmp_path):
    folder = tmp_path / "run"
    meta_train(folder, 2)
    (folder / "checkpoints" / "epoch_00000002.npz").unlink()
    meta_train(folder, resume=True)
    assert rows(folder) == rows(finished[0])


def test_a_stop_ends_before_the_next_iteration(tmp_path):
    run = MAMLRun(TINY, 0, RunTarget(tmp_path / "run"), lambda line: None, THREADS)
    with contextlib.closing(run):
        iterations = run.iterations()
        next(iterations)
        run.stop()
        with pytest.raises(Interrupted):
            next(iterations)
    assert len(rows(tmp_path / "run")) == 2  # the header and one


def test_what_cannot_be_continued_is_refused(finished, tmp_path):
    shorter = dataclasses.replace(TINY, outer=dataclasses.replace(TINY.outer, iterations=2))
    with pytest.raises(RecordError, match="config.outer.iterations=2: the run in .* has done 3"):
        meta_train(finished[0], experiment=shorter, resume=True)
    other = dataclasses.replace(TINY, outer=dataclasses.replace(TINY.outer, tasks=5))
    with pytest.raises(RecordError, match="^config.outer.tasks=5: the run in .* has 2"):
        meta_train(finished[0], experiment=other, resume=True)
    huge = dataclasses.replace(TINY, outer=dataclasses.replace(TINY.outer, tasks=10**7))
    with pytest.raises(ConfigError, match="config.outer.tasks=10000000.* of memory"):
        meta_train(tmp_path / "run", experiment=huge)
    assert not (tmp_path / "run").exists()
    with pytest.raises(RecordError, match="it is an initialisation of MAML, not a loss of EPG"):
        epg_tf.load_loss(finished[0])
