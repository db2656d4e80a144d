"""Tests epg_tf.studies.scaling: predictions follow from lengths of lives and times of shards."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.epg.evolution_strategies import lifetime
from epg_tf.studies.scaling import Draws, Measurements, ShardTimes, epoch_updates, predict

MEASURED = Measurements({4: ShardTimes(update=2.0, final_step=0.1)}, np.array([10, 10]), 0.5)
DRAWS = Draws(epochs=5, network_seconds=0.25, seed=0)


def of(experiment, **changes):
    """Returns an experiment with other settings of evolution."""
    evolution = dataclasses.replace(experiment.evolution, **changes)
    return dataclasses.replace(experiment, evolution=evolution)


@pytest.mark.parametrize(
    ("changes", "shard"),
    [
        ({}, 3 * 2.0 + 10 * 0.1),
        ({"fitness_from": "whole_life"}, 3 * 2.0),
        ({"longest_life": 2}, 2 * 2.0 + 10 * 0.1),
    ],
    ids=["whole lives", "without final episodes", "shorter lives"],
)
def test_an_epoch_is_as_long_as_evolution_lets_agents_live(tiny, changes, shard):
    """Two shards of four lives of three updates: one after the other on one core."""
    experiment = of(tiny, **{"fitness_from": "final_episodes", **changes})
    one, two = predict(experiment, MEASURED, [1, 2], DRAWS)
    assert one.seconds == pytest.approx(2 * shard + 0.5)
    assert two.seconds == pytest.approx(shard + 0.5 + 0.25)
    assert two.efficiency == pytest.approx(one.seconds / 2 / two.seconds)


def test_lives_of_many_lengths_have_their_mean(tiny):
    experiment = of(tiny, shortest_life=1, longest_life=3)
    drawn = [lifetime(uniform, 1, 3) for uniform in np.arange(0.0, 1.0, 1e-3)]
    assert epoch_updates(experiment) == pytest.approx(np.mean(drawn), rel=1e-2)
