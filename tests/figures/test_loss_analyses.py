"""Tests epg_tf.figures.loss_analyses: each makes a picture, tidy rows and numbers from a loss."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from epg_tf.artifacts.artifact import save
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.figures import loss_analyses
from epg_tf.figures.declaration import Match, Run

WITH_INTERVAL = re.compile(r"-?[\d.e+-]+ \[-?[\d.e+inf-]+, -?[\d.e+inf-]+\]")
# (analysis, columns, rows of 2 lives of 3 updates, with 32 steps in the buffer, 24 of them lived)
MADE = [
    (loss_analyses.kl_of_updates, ["stage", "life", "update", "kl"], 3 * 2 * 3),
    (
        loss_analyses.input_sensitivity,
        ["channel", "life", "step", "scored_step", "norm"],
        6 * 2 * 24,
    ),
    (
        loss_analyses.gradients_beside_ppo,
        ["life", "update", "spearman", "cosine", "ppo_halves"],
        2 * 3,
    ),
]


@pytest.fixture(scope="module")
def found(tiny, tmp_path_factory):
    """A loss in a folder, which says the seed of its evolution."""
    folder = tmp_path_factory.mktemp("loss")
    save(folder, initial_phi(tiny, 0) * np.float32(1.2), tiny, {"seed": 0})
    return Match("laptop", [(Run("loss", "point_goal:laptop"), folder)])


@pytest.mark.slow
@pytest.mark.parametrize(("analysis", "columns", "count"), MADE)
def test_a_loss_is_analysed(analysis, columns, count, found, monkeypatch):
    monkeypatch.setattr(loss_analyses, "_LIVES", 2)
    findings = analysis(found)
    assert len(findings.table) == count
    assert all(list(row) == columns for row in findings.table)
    assert sum(bool(WITH_INTERVAL.search(line)) for line in findings.numbers) >= 3
    assert "2 lives in tasks that no test meets" in findings.numbers[-1]
    assert isinstance(findings.draw("a title"), Figure)
