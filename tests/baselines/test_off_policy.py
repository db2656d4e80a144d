"""Tests epg_tf.baselines.off_policy: TF-Agents' TD3 and DDPG, fed and judged as the population's
agents are.
"""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.baselines import off_policy
from epg_tf.core.metagenrl_experiment import AgentConfig
from epg_tf.core.types import LifeKey
from epg_tf.tasks.registry import named_environment

AGENT = AgentConfig(
    hidden=(8,), batch=2, chunk=4, random_steps=20, updates_after=5, replay_steps=100
)


def test_transitions_keep_terminations_and_time_limits_apart():
    """What a termination is followed by is worth nothing; `terminated` alone says so."""
    drawn = {
        "observation": np.arange(6.0).reshape(1, 1, 3, 1, 2),
        "action": np.full((1, 1, 3, 1, 1), 0.5),
        "reward": np.array([1.0, 2.0, 3.0]).reshape(1, 1, 3, 1),
        "terminated": np.array([0.0, 1.0, 0.0]).reshape(1, 1, 3, 1),
        "next_observation": np.arange(6.0, 12.0).reshape(1, 1, 3, 1, 2),
    }
    found = off_policy._transitions({name: part.astype(np.float32) for name, part in drawn.items()})
    assert found.next_time_step.discount.numpy().tolist() == [1.0, 0.0, 1.0]
    assert found.next_time_step.reward.numpy().tolist() == [1.0, 2.0, 3.0]
    assert found.next_time_step.is_last().numpy().tolist() == [False, True, False]
    assert found.time_step.observation.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found.next_time_step.observation.numpy().tolist() == [[6, 7], [8, 9], [10, 11]]


@pytest.mark.parametrize("kind", off_policy.KINDS)
def test_learns_from_what_it_lives_and_repeats_itself(kind):
    """Same key, same curve; the first evaluation comes before any learning, later ones differ from
    no learning.
    """
    family = named_environment("point_goal@5")
    curves = [
        off_policy.learning_curve(
            kind, family, AGENT, rate, LifeKey(0, "objective_test", 0, index), 40, 20, 2
        )
        for rate, index in ((1e-2, 0), (1e-2, 0), (1e-9, 0), (1e-2, 1))
    ]
    first, again, still, other = curves
    assert first.shape == (3,) and np.isfinite(first).all() and (first < 0).all()
    np.testing.assert_array_equal(first, again)
    assert first[0] == still[0] and first[2] != still[2]
    assert other[0] != first[0]
