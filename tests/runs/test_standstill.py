"""Tests epg_tf.runs.standstill: a run that does not learn says so, with the reason."""

from __future__ import annotations

import numpy as np
import pytest

import epg_tf
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs import standstill
from epg_tf.tasks.point_goal import PointGoal

NAN = float("nan")
LEARNS = {
    "epoch": 1,
    "alpha": 0.0,
    "failed_lives": 0,
    "fitness_min": 0.0,
    "fitness_max": 1.0,
    "update_norm": 0.5,
    "signal_to_noise": 0.1,
}
ALIKE = {"fitness_max": 0.0, "update_norm": 0.0, "signal_to_noise": NAN}
"""Of an epoch whose lives all had the same return."""
SATURATED = {"update_norm": 0.0, "signal_to_noise": NAN}
"""Returns depend on the task, and not on phi."""


@pytest.fixture(scope="module")
def many(make_tiny):
    """An experiment with more noise vectors than may be alike by chance."""
    return make_tiny(evolution={"lives": 16, "noise_vectors": 8})


@pytest.mark.parametrize(
    ("row", "stands"),
    [
        ({}, False),
        (ALIKE, True),
        (SATURATED, True),
        ({"signal_to_noise": NAN}, True),  # weight decay alone moves phi
        ({"fitness_max": 0.0}, True),  # raw fitness moves phi at random
        (ALIKE | {"alpha": 1.0}, False),  # the loss is not used yet
        (ALIKE | {"failed_lives": 16, "fitness_min": NAN, "fitness_max": NAN}, False),
        ({"fitness_max": 0.0, "failed_lives": 1}, False),  # vectors that fail differ from others
    ],
)
def test_an_epoch_stands_where_no_return_told_vectors_apart(many, row, stands):
    assert standstill.of_evolution(many).count([LEARNS | row]) == stands


def test_an_evolved_initial_policy_stands_whatever_the_guidance(make_tiny):
    experiment = make_tiny(evolution={"moves": "initialisation"}, inner={"updates": 0})
    row = LEARNS | ALIKE | {"alpha": 1.0}
    assert standstill.of_evolution(experiment).count([row]) == 1


def test_the_notice_comes_once_after_five_epochs_in_a_row(many):
    found = standstill.of_evolution(many)
    rows = [LEARNS | ALIKE | {"epoch": epoch} for epoch in range(1, 13)]
    rows[3] = LEARNS | {"epoch": 4}
    lines = [found.notice(row) for row in rows]
    assert [index for index, line in enumerate(lines, start=1) if line] == [9]
    assert lines[8].startswith(
        "the loss was not changed in epochs 5 to 9, because all their lifetimes had the same return"
    )


@pytest.mark.parametrize(
    ("standing", "learning", "start"),
    [
        (2, 1, "the loss was not changed in 2 of 3 epochs, because all their lifetimes had"),
        (5, 9, "the loss was not changed in 5 of 14 epochs, because all their lifetimes had"),
        (4, 4, None),
        (0, 0, None),
    ],
)
def test_the_conclusion_counts_epochs(many, standing, learning, start):
    rows = [LEARNS | ALIKE] * standing + [LEARNS] * learning
    line = standstill.of_evolution(many).conclusion(rows)
    assert line is None if start is None else line.startswith(start)


@pytest.mark.parametrize(
    ("row", "part"),
    [
        (SATURATED, "was not changed in 1 of 1 epochs, because the noise on it made no"),
        ({"signal_to_noise": NAN}, "was changed by no return in 1 of 1 epochs"),
    ],
)
def test_the_reason_is_the_true_one(many, row, part):
    assert part in standstill.of_evolution(many).conclusion([LEARNS | row])


def test_metagenrl_stands_without_a_gradient_unless_all_agents_failed():
    found = standstill.of_metagenrl(MetaGenRLExperiment())
    gradients = [0.0, 0.0, 0.0, NAN, 1e-9]  # NaN: no update yet
    failed = [0, 19, 20, 0, 0]
    rows = [
        {"objective_gradient": gradient, "failed_agents": number, "epoch": 1}
        for gradient, number in zip(gradients, failed, strict=True)
    ]
    assert found.count(rows) == 2 and found.conclusion(rows) is None
    line = found.conclusion(rows[:3])
    assert line.startswith("the objective was not changed in 2 of 3 rounds, because its gradient")


def test_maml_stands_without_a_gradient():
    rows = [{"gradient_norm": norm, "epoch": 1} for norm in (0.0, 0.0, 0.1)]
    line = standstill.of_maml().conclusion(rows)
    assert line.startswith("the gradient of the initialisation was 0 in 2 of 3 iterations")


def test_a_run_without_rewards_says_so_on_the_way_and_ends_with_the_conclusion(
    make_tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr(standstill, "IN_A_ROW", 2)
    monkeypatch.setattr(
        PointGoal, "reward", lambda self, before, after, action: np.zeros(len(action))
    )
    experiment = make_tiny(evolution={"guidance": 0.0, "l2": 0.0}, policy={"hidden": ()})
    lines = []
    for _ in epg_tf.evolve_in_folder(experiment, 3, tmp_path / "run", write=lines.append):
        pass
    assert any(line.startswith("the loss was not changed in epochs 1 to 2, ") for line in lines)
    start = "the loss was not changed in 3 of 3 epochs, because all their lifetimes had the same"
    assert [line.startswith(start) for line in lines[-2:]] == [True, False]
    assert lines[-1].startswith("ended after ") and not any("evolved" in line for line in lines)
