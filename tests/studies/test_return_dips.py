"""Tests epg_tf.studies.return_dips."""

from __future__ import annotations

import pytest

from epg_tf.studies.return_dips import return_dips
from tests.evaluation.tables import NAN, table

# Dips and ends positive; never dips; dips and ends negative; fails; no episode ends.
CURVES = [[1.0, -2.0, 5.0], [0.0, 1.0, 2.0], [1.0, -1.0, -3.0], [-1.0, NAN, NAN], [NAN, NAN, NAN]]
FINALS = [6.0, 3.0, -4.0, NAN, 1.0]


def test_a_dip_is_below_zero_before_an_end_above_it():
    found = return_dips(table("ppo", FINALS, CURVES))
    assert (found["agents"], found["dips"], found["share"]) == (5, 1, 0.2)
    # Wilson (1927): the shares p with |p_hat - p| = z sqrt(p (1 - p) / n).
    for end in found["ci95"]:
        assert abs(0.2 - end) == pytest.approx(1.959963984540054 * (end * (1.0 - end) / 5) ** 0.5)
    assert found["ci95"][0] < 0.2 < found["ci95"][1]
