"""Tests epg_tf.evaluation.return_dips."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.evaluation.results import Results
from epg_tf.evaluation.return_dips import (
    return_dips,
    summarize_return_dips,
)
from tests.evaluation.tables import NAN, table

# Dips and ends positive; never dips; dips and ends negative; fails; no episode ends.
CURVES = [[1.0, -2.0, 5.0], [0.0, 1.0, 2.0], [1.0, -1.0, -3.0], [-1.0, NAN, NAN], [NAN, NAN, NAN]]
FINALS = [6.0, 3.0, -4.0, NAN, 1.0]
KINDS = ["forward", "backward", "forward", "backward", "backward"]


@pytest.fixture
def found():
    return return_dips(table("ppo", FINALS, CURVES), KINDS)


def test_a_dip_is_below_zero_before_an_end_above_it(found):
    assert found.dips.tolist() == [True, False, False, False, False]
    assert found.ends_positive.tolist() == [True, True, False, False, True]
    np.testing.assert_array_equal(found.lowest, [-2.0, 0.0, -3.0, -1.0, NAN])


def test_shares_are_of_all_agents_of_a_kind(found):
    summary = summarize_return_dips(found)
    assert list(summary) == ["forward", "backward", "all"]
    assert (summary["forward"]["share"], summary["forward"]["agents"]) == (0.5, 2)
    assert (summary["backward"]["dips"], summary["backward"]["ends_positive"]) == (0, 2)
    every = summary["all"]
    assert (every["agents"], every["dips"], every["share"]) == (5, 1, 0.2)
    # Wilson (1927): the shares p with |p_hat - p| = z sqrt(p (1 - p) / n).
    z, n, p_hat = 1.959963984540054, 5, 0.2
    for end in every["ci95"]:
        assert abs(p_hat - end) == pytest.approx(z * (end * (1.0 - end) / n) ** 0.5)
    assert every["ci95"][0] < 0.2 < every["ci95"][1]


def test_one_method_at_a_time():
    both = Results.join([table("ppo", FINALS, CURVES), table("sac", FINALS, CURVES)])
    with pytest.raises(ValueError, match="5 tasks for 10 agents"):
        return_dips(both, KINDS)
    with pytest.raises(ValueError, match="4 tasks for 5 agents"):
        return_dips(both.select("ppo"), KINDS[:4])
