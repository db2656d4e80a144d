"""Tests that agents live whole lives in every body of the package but FetchReach's."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoop, Teaching
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.tasks.registry import make_family

KEYS = [LifeKey(1, "test", 0, index) for index in range(4)]
ONE_PER_BODY = [
    "directional_hopper",
    "goal_ant_no_reset",
    pytest.param("random_walker", marks=pytest.mark.slow),
    pytest.param("directional_half_cheetah", marks=pytest.mark.slow),
    pytest.param("random_reacher", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("name", ONE_PER_BODY)
def test_four_agents_learn_and_finish(name, make_tiny):
    """Three updates move every policy, episodes end, and no physics diverges."""
    experiment = make_tiny(task={"family": name, "frame_skip": 4, "episode_limit": 5})
    loop = InnerLoop(experiment, make_family(experiment.task))
    phi = np.stack([initial_phi(experiment, 0)] * 4)
    taught, untaught = (loop.run(KEYS, phi, Teaching(0.5, rate)) for rate in (1e-2, 0.0))
    assert not taught.failed.any() and np.isfinite(taught.final_return).all()
    assert np.isfinite(taught.episode_return).all() and len(set(taught.final_return)) == 4
    assert not set(taught.policy_hash) & set(untaught.policy_hash)
