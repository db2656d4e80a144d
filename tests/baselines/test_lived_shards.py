"""Tests epg_tf.baselines.lived_shards: agents come back in order, copies and failures do not."""

import numpy as np
import pytest

from epg_tf.baselines.lived_shards import LivedShard, live_in_shards, outcome
from epg_tf.core.types import LifeKey
from epg_tf.tasks.registry import make_family


@pytest.mark.parametrize("agents", [1, 3, 4, 7])
def test_agents_come_back_in_order_without_the_copies_that_fill_a_shard(agents):
    sizes = []

    def live(keys):
        sizes.append(len(keys))
        numbers = np.array([key.index for key in keys], float)
        return LivedShard(np.stack([numbers, numbers + 0.5], axis=1), -numbers, numbers / 10)

    keys = [LifeKey(0, "test", 0, number) for number in range(agents)]
    found = live_in_shards(live, keys, 3, threads=2, period=8)
    assert set(sizes) == {3}
    np.testing.assert_array_equal(found.env_steps, [8, 16])
    np.testing.assert_array_equal(found.final_return, -np.arange(agents))
    np.testing.assert_array_equal(found.returns[:, 1], np.arange(agents) + 0.5)
    np.testing.assert_array_equal(found.success, np.arange(agents) / 10)
    assert np.isnan(found.kl).all() and set(found.policy_sha256) == {""}


@pytest.mark.parametrize(
    ("family", "success"),
    [("random_reacher", [0.5, 0.0]), ("random_hopper", [np.nan, np.nan])],
)
def test_who_failed_has_no_return_and_never_arrived(make_tiny, family, success):
    numbers = np.array([0.5, 1.0])
    home = make_family(make_tiny(task={"family": family}).task)
    found = outcome(home, numbers[:, None], numbers, numbers, np.array([False, True]))
    np.testing.assert_array_equal(found.returns, [[0.5], [np.nan]])
    np.testing.assert_array_equal(found.final_return, [0.5, np.nan])
    np.testing.assert_array_equal(found.success, success)
