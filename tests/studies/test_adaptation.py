"""Tests epg_tf.studies.adaptation: how agents are paired, and what is made of their returns."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.core.errors import ConfigError
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.evaluation.evaluate import evaluate
from epg_tf.evaluation.requests import loss_request
from epg_tf.reports.adaptation_report import OWN, table, write_adaptation
from epg_tf.studies.adaptation import MEASURES, AdaptationTest, pairs, summarize_adaptation

FOUND = {
    "own": np.array([3.0, 5.0]),
    "transfer": np.array([-3.0, -5.0]),
    "yoked": np.array([1.0, np.nan]),
    "before": np.array([2.0, 4.0]),
    "after": np.array([-2.0, -4.0]),
    "end": np.array([1.0, 3.0]),
}


@pytest.mark.parametrize(
    ("directions", "others", "differing"),
    [
        ((1.0, 2.0, 3.0), (1, 2, 0), 3),
        ((1.0, 1.0, -1.0, 1.0), (2, 2, 3, 2), 4),  # of two tasks each agent gets the other
        ((1.0, 1.0, 1.0), (1, 2, 0), 0),
    ],
)
def test_agents_are_paired_with_the_next_that_has_another_task(directions, others, differing):
    found = pairs([{"direction": np.array([each])} for each in directions])
    assert found == (others, differing)


def test_a_summary_says_what_is_lost_and_regained():
    summary = summarize_adaptation({**FOUND, "zero_shot_linear": np.array([7.0, 9.0])}, 2, 16)
    assert summary["own"]["mean"] == 4.0 and summary["own"]["lives"] == 2
    assert summary["transfer"]["mean"] == -4.0
    assert summary["transfer"]["above_own"]["mean"] == -8.0
    assert (summary["yoked"]["mean"], summary["yoked"]["failed_lives"]) == (1.0, 1)
    switch = summary["switch"]
    assert (switch["before"]["mean"], switch["after"]["mean"], switch["mean"]) == (3.0, -3.0, 2.0)
    assert (switch["lost"]["mean"], switch["regained"]["mean"]) == (6.0, 5.0)
    assert switch["updates_before"] == 16
    assert summary["zero_shot"]["zero_shot_linear"]["mean"] == 8.0
    assert summary["pairs"] == {"differing_tasks": 2, "all": 2}
    half = 12.706204736 * np.sqrt(2.0) / np.sqrt(2.0)  # t of 1 degree of freedom
    np.testing.assert_allclose(summary["own"]["ci95"], (4.0 - half, 4.0 + half), rtol=1e-6)


def test_it_is_written_and_shown(tmp_path):
    summary = summarize_adaptation(FOUND, 1, 16)
    write_adaptation(tmp_path, summary, {"seed": 4}, "a title")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(OWN)
    written = json.loads((tmp_path / "adaptation.json").read_text())
    assert written["about"] == {"seed": 4} and written["transfer"]["mean"] == -4.0
    text = table(summary)
    assert "in another agent's task" in text and "1 of 2" in text and "-4.00" in text


@pytest.fixture(scope="module")
def learned(tiny):
    return LearnedLoss(initial_phi(tiny, 0), tiny, {})


@pytest.mark.slow
def test_own_returns_are_those_of_a_test_to_the_bit(learned, tiny):
    test = AdaptationTest(learned, loss_request(tiny, 3, 6))
    found = dict(test.run())
    assert list(found) == [measure.name for measure in MEASURES]
    own = evaluate(tiny, learned.phi, seed=3, lives=6, methods=["epg"]).final()
    np.testing.assert_array_equal(found["own"], own)
    assert all(np.isfinite(returns).all() for returns in found.values())
    half = evaluate(tiny, learned.phi, seed=3, lives=6, updates=1, methods=["epg"]).final()
    np.testing.assert_array_equal(found["before"], half)
    assert not np.array_equal(found["before"], found["after"])


def test_what_cannot_be_measured_is_refused(learned, tiny):
    with pytest.raises(ConfigError, match="updates=1: give agents 2 or more"):
        AdaptationTest(learned, loss_request(tiny, 3, 6, updates=1))
    with pytest.raises(ConfigError, match="lives=1 has no pairs"):
        AdaptationTest(learned, loss_request(tiny, 3, 1))
    alone = dataclasses.replace(tiny.evolution, moves="initialisation", final_guidance=0.0)
    experiment = dataclasses.replace(tiny, evolution=alone)
    policy = dataclasses.replace(learned, phi=initial_phi(experiment, 0), experiment=experiment)
    with pytest.raises(ConfigError, match="there is a policy and no loss, so lives of updates=3"):
        AdaptationTest(policy, loss_request(experiment, 3, 6))
