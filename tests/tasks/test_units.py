"""Tests epg_tf.tasks.units, and that no method depends on the units of observations and actions,
nor some on those of large rewards: in units that differ by powers of two, which round nothing, each
ends at the same bits.
"""

from __future__ import annotations

import contextlib
import dataclasses

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box
from tf_agents.trajectories import time_step as ts

from epg_tf.artifacts.artifact import LearnedLoss, LearnedObjective
from epg_tf.artifacts.description import describe
from epg_tf.baselines.inner_loop_method import InnerLoops
from epg_tf.baselines.maml import MetaTraining
from epg_tf.baselines.maml_state import initial_state
from epg_tf.baselines.method import LossName
from epg_tf.baselines.parallel_agents import ParallelAgents
from epg_tf.baselines.rl2 import RL2Trainer
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation.methods import LOSS_METHODS, OBJECTIVE_METHODS, Evaluated
from epg_tf.evaluation.requests import loss_request, objective_request
from epg_tf.evaluation.trained_agent import train_agent, train_objective_agent
from epg_tf.losses.lstm_objective import initial_parameters
from epg_tf.metagenrl.population import meta_learn
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks import units
from epg_tf.tasks.base import TaskFamily, usable_bounds
from epg_tf.tasks.registry import FAMILIES, make_family, simulate
from epg_tf.tasks.settings import TaskConfig
from tests.baselines.test_rl2 import TINY as TINY_RL2
from tests.conftest import TINY
from tests.metagenrl.test_population import TINY as OBJECTIVE
from tests.runs.test_maml import TINY as TINY_MAML

RANGE = 128.0  # of actions, in the other units
FACTORS = np.array([2.0**-40, 2.0**60])  # of observations
LIMIT = 6


class Track(gymnasium.Env):
    """A point on a line, pushed; it sees where it is, and a constant."""

    def __init__(self, half=1.0, middle=0.0, factors=(1.0, 1.0), offset=0.0, reward=1.0):
        self.action_space = Box(np.float32(middle - half), np.float32(middle + half), (1,))
        self.observation_space = Box(-np.inf, np.inf, (2,))
        self.half, self.middle = half, middle
        self.factors, self.offset, self.reward = np.array(factors), offset, reward
        self.position = 0.0

    def _observed(self):
        return (np.array([self.position, 1.0]) * self.factors + self.offset).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = float(np.float32(self.np_random.uniform(-1.7, 1.7)))
        return self._observed(), {}

    def step(self, action):
        self.position += 0.25 * (float(action[0]) - self.middle) / self.half
        return self._observed(), -self.reward * abs(self.position), False, False, {}


def registered(name, **keywords):
    """Returns how configs name a track in some units."""
    gymnasium.register(f"epg_tf_tests/{name}-v0", Track, kwargs=keywords)
    return f"gymnasium:epg_tf_tests/{name}-v0"


@pytest.fixture(scope="module")
def tracks():
    """The same track in two units."""
    names = registered("Track"), registered("OtherTrack", half=RANGE, factors=tuple(FACTORS))
    yield names
    for name in names:
        gymnasium.registry.pop(name.removeprefix("gymnasium:"))


def family_of(name):
    return make_family(TaskConfig(name, 1, LIMIT))


def loss_experiment(name):
    tiny = Experiment.from_mapping(TINY)
    return dataclasses.replace(
        tiny,
        task=TaskConfig(name, 1, LIMIT),
        loss=dataclasses.replace(tiny.loss, start="policy_gradient", products=2, reward=True),
        sac=dataclasses.replace(tiny.sac, random_steps=8, hidden=(4,), batch=4),
        td3=dataclasses.replace(tiny.td3, random_steps=8, hidden=(4,), batch=4),
        ppo=dataclasses.replace(tiny.ppo, update_period=12, minibatch=6, epochs=2),
        reinforce=dataclasses.replace(tiny.reinforce, update_period=12, minibatch=6),
    )


def objective_experiment(name):
    agent = {**OBJECTIVE["agent"], "random_steps": 10, "updates_after": 2, "replay_steps": 20}
    changes = {"environments": (f"{name}@{LIMIT}",), "agents": 2, "agent": agent}
    changes |= {"steps_per_agent": 20, "round_steps": 10, "life_rounds": 0}
    baseline = {"update_period": 10, "minibatch": 5}
    return MetaGenRLExperiment.from_mapping({**OBJECTIVE, **changes, "baseline": baseline})


def loss_method(method):
    def returns(name):
        experiment = loss_experiment(name)
        with contextlib.closing(InnerLoops(experiment)) as loops:
            evaluated = Evaluated(experiment, initial_phi(experiment, 0), LossName("phi"), loops)
            request = loss_request(experiment, 0, 4)
            return LOSS_METHODS.methods[method](evaluated).train(request).returns

    return returns


def objective_method(method):
    def returns(name):
        experiment = objective_experiment(name)
        parameters = initial_parameters(np.random.default_rng(0), experiment.objective)
        evaluated = Evaluated(experiment, parameters, LossName("phi"))
        request = objective_request(experiment, None, 0, 2, 20, 2)
        return OBJECTIVE_METHODS.methods[method](evaluated).train(request).returns

    return returns


def meta_trained_objective(name):
    return list(meta_learn(objective_experiment(name), 0))[-1].state.parameters


def meta_trained_by_maml(name):
    experiment = dataclasses.replace(TINY_MAML, task=TaskConfig(name, 1, LIMIT))
    training = MetaTraining(experiment, 0)
    return list(training.iterations(initial_state(experiment, 0)))[-1].state.weights


def meta_trained_by_rl2(name):
    task = dataclasses.asdict(TaskConfig(name, 1, LIMIT))
    trainer = RL2Trainer(RL2Experiment.from_mapping({**TINY_RL2, "task": task}), 0)
    list(trainer.iterate(0, -np.inf))
    return trainer.agent.policy_vector()


METHODS = {
    **{f"epg:{name}": loss_method(name) for name in LOSS_METHODS.methods},
    **{f"metagenrl:{name}": objective_method(name) for name in OBJECTIVE_METHODS.methods},
    "metagenrl": meta_trained_objective,
    "maml": meta_trained_by_maml,
    "rl2": meta_trained_by_rl2,
}


@pytest.mark.parametrize(
    "method",
    [m if m == "epg:epg" else pytest.param(m, marks=pytest.mark.slow) for m in METHODS],
)
def test_no_method_depends_on_units_of_observations_and_actions(tracks, method):
    plain, other = (METHODS[method](name) for name in tracks)
    assert np.isfinite(plain).any()
    np.testing.assert_array_equal(plain, other)


@pytest.mark.parametrize("method", ["epg:sac", "epg:td3", "metagenrl:td3", "metagenrl:ddpg"])
def test_critics_see_large_rewards_in_units_near_their_size(method, monkeypatch):
    seen = []
    monkeypatch.setattr(
        ParallelAgents, "train", lambda self, steps, noise: seen.append(steps[..., 3])
    )
    METHODS[method](registered("Paid", reward=2.0**20))
    gymnasium.registry.pop("epg_tf_tests/Paid-v0")
    assert 0.1 < np.sqrt(np.square(seen).mean()) < 20.0


def test_units_of_rewards_are_powers_of_two_near_large_sizes():
    rewards = [[3e3, 4e3], [21.0, 21.0], [-19.0, 19.0], [1e-3, 0.0], [1e60, 0.0], [1.0, np.nan]]
    expected = [4096.0, 16.0, 1.0, 1.0, 2.0**127, 1.0]
    np.testing.assert_array_equal(units.reward_units(np.array(rewards)), expected)


def gaussian(name):
    experiment = loss_experiment(name)
    learned = LearnedLoss(initial_phi(experiment, 0), experiment, {})
    return train_agent(learned, 0, lives=4).policy


def deterministic(name):
    experiment = objective_experiment(name)
    parameters = initial_parameters(np.random.default_rng(0), experiment.objective)
    return train_objective_agent(LearnedObjective(parameters, experiment, {}), 0, agents=2).policy


@pytest.mark.parametrize("trained", [gaussian, deterministic])
def test_policies_that_are_saved_speak_the_environments_units(tracks, trained):
    seen = np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32)
    plain, other = (trained(name) for name in tracks)

    def means(policy, observation):
        step = ts.restart(tf.constant(observation, tf.float32), len(observation))
        action = policy.distribution(step).action
        return getattr(action, "loc", None) if hasattr(action, "loc") else action.mean()

    np.testing.assert_allclose(
        means(other, seen * FACTORS), RANGE * means(plain, seen), rtol=1e-5, atol=1e-4
    )


def test_an_export_tells_both_units(tracks):
    found = []
    for name in tracks:
        experiment = loss_experiment(name)
        found.append(describe(LearnedLoss(initial_phi(experiment, 0), experiment, {}))["units"])
    assert found[0]["actions"] is None and found[0]["observations"] is None
    assert found[1]["actions"] == [[0.0], [RANGE]]
    assert found[1]["observations"] == [[0.0, 0.0], (1.0 / FACTORS).tolist()]


@pytest.mark.parametrize(
    "keywords, shift, scale",
    [
        ({"factors": (1e-4, 1.0)}, [0.0, 0.0], [2.0**13, 1.0]),
        ({"factors": (1e30, 1e-30)}, [0.0, 0.0], [2.0**-100, 2.0**100]),
        ({"factors": (1.0, 0.0)}, None, None),
        ({"offset": 1.0}, None, None),
        ({"offset": 50.0}, [50.0, 0.0], [1.0, 2.0**-6]),
        ({"offset": 300.0}, [300.0, 0.0], [1.0, 2.0**-8]),
        ({"offset": 1e4}, [1e4, 0.0], [1.0, 2.0**-13]),
        ({"factors": (1e-5, 1.0), "offset": 1.0}, [1.0, 0.0], [2.0**17, 1.0]),
    ],
    ids=str,
)
def test_observations_far_from_one_are_scaled_by_powers_of_two(keywords, shift, scale):
    found = family_of(registered("Measured", **keywords)).observation_units
    gymnasium.registry.pop("epg_tf_tests/Measured-v0")
    if scale is None:
        assert found is None
        return
    np.testing.assert_allclose(found[0], shift, rtol=0.02)
    np.testing.assert_array_equal(np.abs(np.log2(found[1]) - np.log2(scale)) <= 1.0, True)
    np.testing.assert_array_equal(np.log2(found[1]) % 1.0, 0.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_packages_own_observations_are_near_one(name):
    """So they are never measured, and policies see them as they are."""
    kind = FAMILIES[name]
    family = make_family(TaskConfig(name, kind.default_frame_skip, kind.default_episode_limit))
    assert units.measured_units(simulate(family, units.POPULATION)) is None
    assert family.observation_units is None and units.remarks(family) == []


class Bounds(TaskFamily):
    """A family of given bounds alone."""

    def __init__(self, low, high):
        self.name, self.action_bounds = "bounds", (np.array(low), np.array(high))


def test_actions_between_one_and_minus_one_stay_as_they_are():
    assert Bounds([-1.0, -1.0], [1.0, 1.0]).action_units is None


def test_bounds_at_the_limits_of_a_type_are_none():
    largest = np.finfo(np.float32).max
    low, high = usable_bounds(np.array([-largest, -100.0]), np.array([largest, 2.0**63]))
    assert low.tolist() == [-np.inf, -100.0] and high.tolist() == [np.inf, np.inf]


def test_bounded_actions_are_mapped_and_others_keep_their_scale():
    inf = np.inf
    family = Bounds([20.0, 0.0, -inf, -1.0], [30.0, inf, inf, 1.0])
    action = family.environment_action(np.array([[-1.0, 0.5, -7.0, 0.3], [1.0, 2.0, 7.0, -1.0]]))
    np.testing.assert_array_equal(action, [[20.0, 0.5, -7.0, 0.3], [30.0, 2.0, 7.0, -1.0]])
    low, high = family.policy_bounds
    assert low.tolist() == [-1.0, 0.0, -inf, -1.0] and high.tolist() == [1.0, inf, inf, 1.0]
    assert units.remarks(family) == [
        "actions 1, 2 of bounds lack a bound, so policies act in the environment's units there: a "
        "deviation of 1 must make sense"
    ]
