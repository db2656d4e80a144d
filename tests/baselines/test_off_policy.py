"""Tests epg_tf.baselines.off_policy: TF-Agents' TD3 and DDPG, fed and evaluated as the population's
agents are.
"""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.baselines import off_policy
from epg_tf.baselines.method import Request
from epg_tf.metagenrl.settings import AgentConfig
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.settings import TaskConfig

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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["td3", "ddpg"])
def test_learns_from_its_env_steps_and_repeats_itself(name):
    """Same key, same curve; the first evaluation comes before any learning, later ones differ from
    no learning.
    """
    task = TaskConfig("point_goal", PointGoal.default_frame_skip, 5)

    def curves(rate, agents):
        request = Request(task, 0, "objective_test", agents, 40, 2)
        return off_policy.OffPolicyMethod(name, AGENT, rate, 20).train(request)

    both, again, still = curves(1e-2, 2), curves(1e-2, 1).returns[0], curves(1e-9, 1).returns[0]
    assert both.env_steps.tolist() == [0, 20, 40]
    first, other = both.returns
    assert first.shape == (3,) and np.isfinite(first).all() and (first < 0).all()
    np.testing.assert_array_equal(first, again)
    assert first[0] == still[0] and first[2] != still[2]
    assert other[0] != first[0] and both.final_return[1] == other[2]
