"""Tests epg_tf.studies.policy_change."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.core.errors import ConfigError
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.studies.analysed_lives import analysis_request
from epg_tf.studies.policy_change import (
    PolicyChange,
    measure_policy_change,
    policy_change_rows,
    summarize_policy_change,
)
from epg_tf.tasks.registry import make_family

NAN = float("nan")


def test_the_numbers_are_medians_over_lives():
    """Seven lives whose medians are 1 ... 7 under the first loss, twice that under the last, where
    the seventh fails, and four times that under a random one.
    """
    first = np.arange(1.0, 8.0)[:, None] * np.array([0.5, 3.0, 1.0])
    last = np.arange(1.0, 8.0)[:, None] * np.array([1.0, 20.0, 2.0])
    last[6] = NAN
    summary = summarize_policy_change(PolicyChange(4.0 * first, first, last))
    assert summary["first"]["median_kl"] == {"median": 4.0, "ci95": (1.0, 7.0)}
    assert summary["first"]["spike"]["median"] == 3.0
    assert summary["last"]["median_kl"] == {"median": 7.0, "ci95": (2.0, 12.0)}
    assert (summary["last"]["lives"], summary["last"]["failed_lives"]) == (7, 1)
    compared = summary["last_over_first"]
    assert compared["median_kl"] == {"median": 2.0, "ci95": (2.0, 2.0)}
    assert compared["spike"]["median"] == pytest.approx(10.0 / 3.0)
    assert summary["random"]["median_kl"]["median"] == 16.0
    assert summary["last_over_random"]["median_kl"] == {"median": 0.5, "ci95": (0.5, 0.5)}


def test_without_lives_there_are_no_numbers():
    failed = np.full((3, 2), NAN)
    summary = summarize_policy_change(PolicyChange(np.ones((3, 2)), np.ones((3, 2)), failed))
    assert np.isnan(summary["last"]["median_kl"]["median"])
    assert summary["last_over_first"]["spike"]["ci95"] == (-np.inf, np.inf)


def test_the_table_is_tidy():
    lives = [np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), np.array([[5.0, 6.0]])]
    rows = policy_change_rows(PolicyChange(*lives))
    assert rows[0] == {"stage": "random", "life": 0, "update": 1, "kl": 1.0}
    assert rows[2] == {"stage": "first", "life": 0, "update": 1, "kl": 3.0}
    assert rows[5] == {"stage": "last", "life": 0, "update": 2, "kl": 6.0} and len(rows) == 6


def test_it_is_the_divergence_of_lives_under_the_three_losses(make_tiny):
    """To the bit that of the inner loop, run by hand with the phi that evolution started from."""
    tiny, random = (make_tiny(loss={"start": start}) for start in ("centred", "random"))
    evolved = initial_phi(tiny, 5) * np.float32(1.5)
    learned = LearnedLoss(evolved, tiny, {"seed": 5})
    request = analysis_request(learned, lives=4)
    assert {key.phase for key in request.keys()} == {"analysis"}
    found = measure_policy_change(learned, request)
    loop = InnerLoop(tiny, make_family(request.task), measure_kl=True)
    assert not np.array_equal(initial_phi(tiny, 5), initial_phi(random, 5))
    for phi, kl in (
        (initial_phi(random, 5), found.random),
        (initial_phi(tiny, 5), found.first),
        (evolved, found.last),
    ):
        alone = loop.run(
            request.keys(), np.tile(phi, (4, 1)), InnerLoopSettings(0.0, tiny.inner.learning_rate)
        )
        np.testing.assert_array_equal(kl, alone.kl)
        assert kl.shape == (4, 3) and (kl > 0.0).all()


def test_what_cannot_be_analysed_is_refused(tiny, make_tiny):
    phi = initial_phi(tiny, 0)
    request = analysis_request(LearnedLoss(phi, tiny, {}), lives=2)
    with pytest.raises(ConfigError, match=r"facts\['seed'\]=None"):
        measure_policy_change(LearnedLoss(phi, tiny, {}), request)
    begun = {"seed": 0, "begun_with": {"loss": "goal_ant_night"}}
    with pytest.raises(ConfigError, match=r"facts\['begun_with'\]=.*did not begin afresh; name"):
        measure_policy_change(LearnedLoss(phi, tiny, begun), request)
    with pytest.raises(ConfigError, match="lives=0"):
        analysis_request(LearnedLoss(phi, tiny, {}), lives=0)
    with pytest.raises(ConfigError, match="phi has shape"):
        analysis_request(LearnedLoss(phi[1:], tiny, {}))
    policy = make_tiny(
        evolution={"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0}
    )
    with pytest.raises(ConfigError, match="no loss to analyse"):
        analysis_request(LearnedLoss(initial_phi(policy, 0), policy, {}))
