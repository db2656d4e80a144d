"""Tests epg_tf.baselines.off_policy and lived_shards: agents of TF-Agents in the evaluation of a
loss and of an objective.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.baselines import off_policy
from epg_tf.baselines.lived_shards import LivedShard, live_in_shards, outcome
from epg_tf.baselines.method import Request
from epg_tf.baselines.off_policy import OffPolicyMethod, Shard, Terms, has_bounds
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import LifeKey
from epg_tf.epg.baseline_settings import SACConfig, TD3Config
from epg_tf.epg.lives import sample_tasks
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

TASK = TaskConfig("point_goal", 2, 5)
SMALL = {"hidden": (4,), "batch": 4, "random_steps": 6}
SETTINGS = {"sac": SACConfig(**SMALL), "td3": TD3Config(**SMALL), "ddpg": TD3Config(**SMALL)}
TERMS = Terms(2, 2, 8, False, 6)
EVALUATED = dataclasses.replace(TERMS, evaluates=True, replay_steps=10)


def curves(name, agents=3, env_steps=24, terms=TERMS, **changes):
    method = OffPolicyMethod(name, dataclasses.replace(SETTINGS[name], **changes), terms)
    return method.train(Request(TASK, 3, "test", agents, env_steps, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "terms", "steps"),
    [
        ("sac", TERMS, [8, 16, 24]),
        ("ddpg", EVALUATED, [0, 8, 16, 24]),
    ],
)
def test_curves_repeat_themselves_and_differ_from_those_without_learning(name, terms, steps):
    """Agents do not depend on their number: the third is in a shard of its own, which is filled
    up. Evaluations begin before any learning, and the last is that of the final policy.
    """
    found, fewer = curves(name, terms=terms), curves(name, agents=2, terms=terms)
    assert found.env_steps.tolist() == steps and found.returns.shape == (3, len(steps))
    assert np.isfinite(found.returns).all() and np.isfinite(found.final_return).all()
    assert ((found.success >= 0) & (found.success <= 1)).all()
    for field in ("returns", "final_return", "success"):
        np.testing.assert_array_equal(getattr(found, field)[:2], getattr(fewer, field))
    still = curves(name, agents=2, terms=dataclasses.replace(terms, updates_after=24))
    assert (still.final_return != fewer.final_return).any()
    if terms.evaluates:
        np.testing.assert_array_equal(found.returns[:, -1], found.final_return)
        np.testing.assert_array_equal(still.returns[:, 0], fewer.returns[:, 0])


def test_settings_are_those_of_the_loss_or_of_the_agents_of_the_population():
    experiment = Experiment(sac=SETTINGS["sac"], td3=SETTINGS["td3"])
    for name in ("sac", "td3"):
        method = off_policy.beside_loss(name, experiment)
        assert method.settings is SETTINGS[name] and method.explores
        assert (method.terms.period, method.terms.updates_after) == (
            experiment.inner.update_period,
            6,
        )
    objective = MetaGenRLExperiment.from_mapping(
        {
            "round_steps": 20,
            "steps_per_agent": 40,
            "agent": {"batch": 2, "chunk": 4, "random_steps": 20, "updates_after": 5},
            "baseline": {"td3_learning_rate": 0.5, "ddpg_learning_rate": 0.25},
        }
    )
    for name, rate in (("td3", 0.5), ("ddpg", 0.25)):
        method = off_policy.beside_objective(name, objective)
        settings, terms = method.settings, method.terms
        assert (settings.learning_rate, settings.batch, settings.random_steps) == (rate, 8, 20)
        assert (terms.period, terms.updates_after, settings.updates_per_step) == (20, 4, 1)
        assert not method.explores


def test_updates_draw_the_newest_steps_alone():
    """Terminations are kept as they are; a ring of two holds steps 1 and 2 of three."""
    steps = off_policy._Steps(1, 2, make_family(TASK))
    for number in range(3):
        value = float(number)
        parts = (np.full((1, 6), value), np.zeros((1, 2)), [value], [number == 2])
        steps.write((*parts, np.zeros((1, 6))))
    drawn = steps.drawn(np.array([[[0.0, 0.49], [0.5, 0.99]]]))
    assert drawn.shape == (1, 2, 2, 16) and (drawn[0, 0, :, :6] == 2.0).all()
    assert drawn[..., 8].tolist() == [[[2.0, 2.0], [1.0, 1.0]]]  # rewards
    assert drawn[..., 9].tolist() == [[[1.0, 1.0], [0.0, 0.0]]]


def test_large_rewards_are_drawn_in_units_of_their_agent():
    """As the ring holds them when they are measured, here after it has wrapped."""
    steps = off_policy._Steps(2, 2, make_family(TASK))
    for size in (1e9, 1.0, 1.0):
        nothing = np.zeros((2, 6))
        rewards = np.array([size, 4096.0 * size])
        steps.write((nothing, np.zeros((2, 2)), rewards, np.zeros(2), nothing))
    places = np.array([[[0.0, 0.5]], [[0.0, 0.5]]])
    assert steps.drawn(places)[..., 8].tolist() == [[[1.0, 1.0]], [[4096.0, 4096.0]]]
    steps.measure_rewards()
    assert steps.drawn(places)[..., 8].tolist() == [[[1.0, 1.0]], [[1.0, 1.0]]]


def test_agents_meet_the_tasks_of_the_learned_loss():
    keys = [LifeKey(3, "test", 0, index) for index in range(2)]
    method = OffPolicyMethod("sac", SETTINGS["sac"], TERMS)
    mass = [task["mass"] for task in Shard(keys, method, Request(TASK, 3, "test", 2, 8, 1)).tasks]
    assert mass[0] != mass[1]
    assert mass == [task["mass"] for task in sample_tasks(make_family(TASK), keys)]


@pytest.mark.slow
def test_an_agent_that_fails_leaves_its_neighbours_to_the_bit_as_they_are(monkeypatch):
    """Its shard runs again in parts, which copies fill: sizes of shards are part of the numbers."""
    terms = dataclasses.replace(TERMS, shard_agents=4)
    fine, sizes = curves("sac", agents=4, terms=terms), []
    live = Shard.live

    def failing(self):
        sizes.append(len(self.tasks))
        if any(key.index == 1 for key in self._keys):
            raise tf.errors.InvalidArgumentError(None, None, "loss is not finite")
        return live(self)

    monkeypatch.setattr(Shard, "live", failing)
    found = curves("sac", agents=4, terms=terms)
    assert np.isnan(found.final_return[1]) and np.isnan(found.returns[1]).all()
    assert found.success[1] == 0.0
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

    monkeypatch.setattr(OffPolicyMethod, "_train_some", train_some)
    request, kept = Request(TASK, 3, "test", 5, 24, 2), Kept()
    method = OffPolicyMethod("sac", SETTINGS["sac"], TERMS, kept)
    assert method.train(request).final_return.tolist() == [0, 1, 2, 3, 4]
    assert sorted(kept) == [(0, 1), (2, 3), (4, 4)]
    kept[2, 3] = kept[2, 3]._replace(final_return=np.array([7.0, 8.0]))
    del kept[4, 4]
    lived.clear()
    assert method.train(request).final_return.tolist() == [0, 1, 7, 8, 4]
    assert lived == [[4, 4]]
    six = method.train(dataclasses.replace(request, agents=6))
    assert six.final_return.tolist() == [0, 1, 7, 8, 4, 5] and lived == [[4, 4], [4, 5]]


def test_choices_are_refused():
    family = TaskConfig("gymnasium:CartPole-v1", 1, 10)
    assert has_bounds(make_family(TASK)) and not has_bounds(make_family(family))
    with pytest.raises(ConfigError, match="^config.sac needs actions with bounds"):
        OffPolicyMethod("sac", SACConfig(), TERMS).train(Request(family, 0, "test", 1, 8, 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sac", "td3", "ddpg"])
def test_agents_learn_to_reach_goals(name):
    """Who goes nowhere gets about -25."""
    task = TaskConfig("point_goal", 4, 25)
    kind = SACConfig if name == "sac" else TD3Config
    settings = kind(learning_rate=3e-3, discount=0.9, tau=0.01)
    terms = Terms(8, 2, 256, False, settings.random_steps)
    found = OffPolicyMethod(name, settings, terms).train(Request(task, 0, "tuning", 8, 1024, 3))
    assert found.final_return.mean() > -17.0


@pytest.mark.parametrize("agents", [1, 3, 7])
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
