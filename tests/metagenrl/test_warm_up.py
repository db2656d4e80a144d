"""Tests epg_tf.metagenrl.warm_up: shares and learning rates between start and end of a warm-up."""

from __future__ import annotations

import numpy as np

from epg_tf.metagenrl.settings import MetaConfig
from epg_tf.metagenrl.warm_up import warm_up


def test_warm_up():
    ddpg, rate = (
        MetaConfig(warm_up_steps=100),
        MetaConfig(warm_up="learning_rate", warm_up_steps=100),
    )
    assert [warm_up(ddpg, 1e-3, taken) for taken in (0, 25, 100, 1000)] == [
        (0.0, 1e-3),
        (0.25, 1e-3),
        (1.0, 1e-3),
        (1.0, 1e-3),
    ]
    rates = [warm_up(rate, 1e-3, taken)[1] for taken in range(0, 101, 10)]
    assert rates[0] == 0.0 and rates[-1] == 1e-3
    growth = np.diff(rates)[1:] / np.diff(rates)[:-1]
    np.testing.assert_allclose(growth, growth[0])  # exponential
    assert {warm_up(rate, 1e-3, taken)[0] for taken in range(100)} == {1.0}
    assert warm_up(None, 1e-3, 0) == (1.0, 1e-3)
