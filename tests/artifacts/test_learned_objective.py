"""Tests epg_tf.artifacts.learned_objective: what is written comes back, and what is no objective is
refused in one line.
"""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from epg_tf.artifacts.learned_loss import load_loss
from epg_tf.artifacts.learned_objective import is_objective, load_objective, save_objective
from epg_tf.core.errors import RecordError
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment, ObjectiveConfig
from epg_tf.losses.lstm_objective import initial_parameters

EXPERIMENT = MetaGenRLExperiment(
    objective=ObjectiveConfig(lstm_units=3, action_filters=4, value_inputs=1)
)


@pytest.fixture
def saved(tmp_path):
    parameters = initial_parameters(np.random.default_rng(0), EXPERIMENT.objective)
    save_objective(tmp_path / "objective", parameters, EXPERIMENT, {"round": 7})
    return tmp_path / "objective", parameters


def rewritten(folder, **changes):
    description = json.loads((folder / "loss.json").read_text())
    (folder / "loss.json").write_text(json.dumps({**description, **changes}))
    return folder


def test_what_is_saved_is_loaded(saved):
    folder, parameters = saved
    found = load_objective(folder)
    assert found.parameters.tobytes() == parameters.tobytes()
    assert (
        found.experiment == EXPERIMENT
        and found.facts["round"] == 7
        and "tensorflow" in found.facts["versions"]
    )
    assert is_objective(folder) and not is_objective("point_goal")


def test_losses_and_objectives_are_not_mistaken_for_each_other(saved):
    with pytest.raises(RecordError, match="it is an objective of MetaGenRL, not a loss of EPG"):
        load_loss(saved[0])
    with pytest.raises(RecordError, match="it is a temporal_conv_loss, not an lstm_objective"):
        load_objective("point_goal")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"agents": "many"}}, "does not describe a usable objective"),
        ({"config": 3}, "does not describe a usable objective"),
        ({"parameter_shapes": {}}, "states other parameter_shapes"),
        (
            {
                "config": dataclasses.asdict(
                    dataclasses.replace(EXPERIMENT, objective=ObjectiveConfig())
                )
            },
            "states other parameter_shapes",
        ),
    ],
)
def test_refuses_a_description_that_does_not_fit(saved, changes, message):
    with pytest.raises(RecordError) as caught:
        load_objective(rewritten(saved[0], **changes))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_run_is_read_by_its_last_objective(saved):
    saved[0].rename(saved[0].parent / "final")
    run = saved[0].parent
    assert is_objective(run) and load_objective(run).folder == run / "final"
    assert load_objective(run).name == str(run / "final")
    with pytest.raises(RecordError, match="it is an objective of MetaGenRL, not a loss of EPG"):
        load_loss(run)
