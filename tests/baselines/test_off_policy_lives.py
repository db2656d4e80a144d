"""Tests epg_tf.baselines.off_policy_lives: SAC and TD3 on the terms of the test of a loss."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.baselines.lived_shards import LivedShard
from epg_tf.baselines.method import Request
from epg_tf.baselines.off_policy_lives import OffPolicyRival, Shard, has_bounds
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import LifeKey
from epg_tf.epg.baseline_settings import SACConfig, TD3Config
from epg_tf.epg.lives import sample_tasks
from epg_tf.epg.settings import ComputeConfig
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

TASK = TaskConfig("point_goal", 2, 5)
SMALL = {"hidden": (4,), "batch": 4, "random_steps": 6}
RIVALS = {"sac": SACConfig(**SMALL), "td3": TD3Config(**SMALL)}
COMPUTE = ComputeConfig(shard_lives=2, threads=2)


def curves(name, agents=3, env_steps=24, compute=COMPUTE, **changes):
    rival = OffPolicyRival(name, dataclasses.replace(RIVALS[name], **changes), compute, 8)
    return rival.train(Request(TASK, 3, "test", agents, env_steps, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sac", "td3"])
def test_curves_are_on_the_grid_of_the_learned_loss_and_repeat_themselves(name):
    found, again = curves(name), curves(name)
    assert found.env_steps.tolist() == [8, 16, 24] and found.returns.shape == (3, 3)
    assert np.isfinite(found.returns).all() and np.isfinite(found.final_return).all()
    assert ((found.success >= 0) & (found.success <= 1)).all()
    for field in ("returns", "final_return", "success"):
        np.testing.assert_array_equal(getattr(found, field), getattr(again, field))
    still = curves(name, random_steps=24)
    assert (still.final_return != found.final_return).any()


@pytest.mark.slow
def test_agents_do_not_depend_on_their_number_or_threads():
    """The third is in a shard of its own, which is filled up."""
    three, four = curves("sac"), curves("sac", agents=4)
    np.testing.assert_array_equal(three.final_return, four.final_return[:3])
    other = curves("sac", agents=2, compute=dataclasses.replace(COMPUTE, shard_lives=4))
    np.testing.assert_allclose(other.final_return, three.final_return[:2], rtol=1e-4)


def test_agents_meet_the_tasks_of_the_learned_loss():
    keys = [LifeKey(3, "test", 0, index) for index in range(2)]
    shard = Shard(keys, RIVALS["sac"], Request(TASK, 3, "test", 2, 8, 1))
    expected = sample_tasks(make_family(TASK), keys)
    mass = [task["mass"] for task in expected]
    assert mass[0] != mass[1] and [task["mass"] for task in shard.tasks] == mass


@pytest.mark.slow
def test_agents_whose_loss_is_not_finite_fail():
    found = curves("sac", agents=2, learning_rate=1e6, env_steps=48)
    assert np.isnan(found.final_return).all() and np.isnan(found.returns).all()
    assert found.success.tolist() == [0.0, 0.0] and found.returns.shape == (2, 6)


@pytest.mark.slow
def test_an_agent_that_fails_leaves_its_neighbours_to_the_bit_as_they_are(monkeypatch):
    """Its shard runs again in parts, which copies fill: sizes of shards are part of the numbers."""
    compute = dataclasses.replace(COMPUTE, shard_lives=4)
    fine, sizes = curves("sac", agents=4, compute=compute), []
    live = Shard.live

    def failing(self, period):
        sizes.append(len(self.tasks))
        if any(key.index == 1 for key in self._keys):
            raise tf.errors.InvalidArgumentError(None, None, "loss is not finite")
        return live(self, period)

    monkeypatch.setattr(Shard, "live", failing)
    found = curves("sac", agents=4, compute=compute)
    assert np.isnan(found.final_return[1]) and np.isnan(found.returns[1]).all()
    others = [0, 2, 3]
    for field in ("returns", "final_return", "success"):
        np.testing.assert_array_equal(getattr(found, field)[others], getattr(fine, field)[others])
    assert sizes == [4] * 5  # all, two halves, two single agents


class Kept(dict):
    """Shards in memory."""

    def read(self, ends, shape):
        assert shape == (2, 3)
        return self.get(ends)

    def write(self, ends, shard):
        self[ends] = shard


def test_shards_that_lived_do_not_live_again(monkeypatch):
    """Copies fill the last of three, so with another number of agents it is another shard."""
    lived = []

    def train_some(self, keys, size, request):
        lived.append([key.index for key in keys])
        ends = np.array([float(key.index) for key in keys])
        return LivedShard(np.repeat(ends[:, None], 3, axis=1), ends, 0.0 * ends)

    monkeypatch.setattr(OffPolicyRival, "_train_some", train_some)
    request, kept = Request(TASK, 3, "test", 5, 24, 2), Kept()
    rival = OffPolicyRival("sac", RIVALS["sac"], COMPUTE, 8, kept)
    assert rival.train(request).final_return.tolist() == [0, 1, 2, 3, 4]
    assert sorted(kept) == [(0, 1), (2, 3), (4, 4)]
    kept[2, 3] = kept[2, 3]._replace(final_return=np.array([7.0, 8.0]))
    del kept[4, 4]
    lived.clear()
    assert rival.train(request).final_return.tolist() == [0, 1, 7, 8, 4]
    assert lived == [[4, 4]]
    six = rival.train(dataclasses.replace(request, agents=6))
    assert six.final_return.tolist() == [0, 1, 7, 8, 4, 5] and lived == [[4, 4], [4, 5]]
    assert OffPolicyRival("sac", RIVALS["sac"], COMPUTE, 8).train(request).final_return[2] == 2


def test_choices_are_refused():
    family = TaskConfig("gymnasium:CartPole-v1", 1, 10)
    assert has_bounds(make_family(TASK)) and not has_bounds(make_family(family))
    rival = OffPolicyRival("sac", SACConfig(), COMPUTE, 8)
    with pytest.raises(ConfigError, match="^config.sac needs actions with bounds"):
        rival.train(Request(family, 0, "test", 1, 8, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sac", SACConfig(learning_rate=3e-3, discount=0.9, tau=0.01)),
        ("td3", TD3Config(learning_rate=3e-3, discount=0.9, tau=0.01)),
    ],
)
def test_agents_learn_to_reach_goals(name, settings):
    """Who goes nowhere gets about -25."""
    task = TaskConfig("point_goal", 4, 25)
    rival = OffPolicyRival(name, settings, ComputeConfig(shard_lives=4, threads=2), 32)
    found = rival.train(Request(task, 0, "tuning", 8, 1024, 3))
    assert found.returns[:, 1].mean() < -22.0 and found.final_return.mean() > -17.0
