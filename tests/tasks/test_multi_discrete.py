"""Tests families of environments with MultiDiscrete or MultiBinary actions: every method learns in
them or refuses them, and what leaves the package speaks the environment's numbers.
"""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from tf_agents.environments import tf_py_environment
from tf_agents.policies import greedy_policy, py_tf_eager_policy, random_tf_policy
from tf_agents.trajectories import time_step as ts

from epg_tf.artifacts.artifact import LearnedLoss, interface
from epg_tf.artifacts.exported import loss_inputs
from epg_tf.artifacts.saved_policy import save_policy
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import LifeKey
from epg_tf.epg.meta_parameters import initial_phi, loss_channels
from epg_tf.evaluation.trained_agent import train_agent
from epg_tf.tasks.gymnasium_environment import TaskEnv
from epg_tf.tasks.registry import make_family, simulate
from epg_tf.tasks.settings import TaskConfig
from epg_tf.tasks.tf_agents_environment import TaskEnvironment
from epg_tf.tasks.trials import TrialEnvironment, trial_specs
from tests.tasks.families import Compass
from tests.tasks.test_units import LIMIT, METHODS, loss_experiment

NAME = "epg_tf_tests/Rail-v0"
SPACES = {  # number of choices of each part, numbers of the first ones
    "parts": (MultiDiscrete([3, 2]), (3, 2), [0, 0]),
    "start": (MultiDiscrete([3, 2], start=[-1, 5]), (3, 2), [-1, 5]),
    "table": (MultiDiscrete([[3, 2], [2, 4]], dtype=np.int8), (3, 2, 2, 4), [0, 0, 0, 0]),
    "binary": (MultiBinary(3), (2, 2, 2), [0, 0, 0]),
}


class Rail(gymnasium.Env):
    """A point on a line that goes left, stays or goes right by the first part of the action; the
    last number of the action costs.
    """

    observation_space = Box(-np.inf, np.inf, (2,))

    def __init__(self, space):
        self.action_space = space
        self.position = 0.0

    def _observed(self):
        return np.array([self.position, 1.0], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = float(np.float32(self.np_random.uniform(-1.7, 1.7)))
        return self._observed(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.given, numbers = action, np.ravel(action - getattr(self.action_space, "start", 0))
        self.position += 0.25 * (float(numbers[0]) - 1.0)
        return self._observed(), -abs(self.position) - 0.1 * float(numbers[-1]), False, False, {}


@pytest.fixture
def rail():
    """A function: a space of actions -> how configs name an environment with it."""

    def register(space):
        gymnasium.registry.pop(NAME, None)
        gymnasium.register(NAME, lambda: Rail(space), max_episode_steps=LIMIT)
        return f"gymnasium:{NAME}"

    yield register
    gymnasium.registry.pop(NAME, None)


def family_of(name):
    return make_family(TaskConfig(name, 1, LIMIT))


@pytest.mark.parametrize("kind", SPACES)
def test_parts_are_rows_side_by_side_and_numbers_outside(rail, kind):
    space, counts, first = SPACES[kind]
    family = family_of(rail(space))
    assert family.discrete_actions and family.spec.choices == counts
    assert family.action_size == sum(counts)
    low, high = family.choices
    assert low.tolist() == first and high.tolist() == (first + np.array(counts) - 1).tolist()
    space.seed(0)
    sampled = np.array([np.ravel(space.sample()) for _ in range(40)])
    rows = family.choice_rows(sampled)
    np.testing.assert_array_equal(rows.sum(axis=1), len(counts))
    np.testing.assert_array_equal(family.chosen(rows), sampled)
    simulation = simulate(family, 2)
    simulation.reset(np.arange(2), [np.random.default_rng(0)] * 2)
    for pair in (0, 2):
        simulation.step(rows[pair : pair + 2])
        given = [simulation.environment(row).unwrapped.given for row in range(2)]
        assert [part.dtype for part in given] == [space.dtype] * 2
        np.testing.assert_array_equal([np.ravel(part) for part in given], sampled[pair : pair + 2])


@pytest.mark.parametrize("kind", ["start", "binary"])
def test_adapters_take_the_environments_numbers(rail, kind):
    space, counts, first = SPACES[kind]
    family = family_of(rail(space))
    last = (first + np.array(counts) - 1).tolist()
    environment = TaskEnv(family.name)
    environment.reset(seed=0)
    assert environment.action_space == MultiDiscrete(list(counts), start=first)
    environment.step(np.array(last))
    given = environment._simulation.environment(0).unwrapped.given
    assert given.tolist() == last
    with pytest.raises(ValueError, match=rf"must be {len(counts)} whole numbers within \[.*\]$"):
        environment.step(np.array(last) + 1)
    batched = TaskEnvironment(family, 2, 0)
    spec = batched.action_spec()
    assert (spec.shape, spec.dtype) == ((len(counts),), np.int32)
    assert (spec.minimum.tolist(), spec.maximum.tolist()) == (first, last)
    wrapped = tf_py_environment.TFPyEnvironment(batched)
    policy = random_tf_policy.RandomTFPolicy(wrapped.time_step_spec(), wrapped.action_spec())
    for _ in range(LIMIT + 1):  # TF-Agents' draws for NumPy do not know bounds of parts
        step = wrapped.step(policy.action(wrapped.current_time_step()).action)
    assert step.is_first().numpy().all()
    trials = TrialEnvironment(family, 2, 5)
    top = [int(spec.maximum) for spec in trial_specs(family)[1]]
    assert top == [count - 1 for count in counts]
    trials.begin([LifeKey(0, "test", 0, number) for number in range(2)])
    seen = trials.step(tuple(np.array([0, number], np.int32) for number in top)).observation
    np.testing.assert_array_equal(
        seen[:, 2:-2], family.choice_rows(np.array([first, last], np.int32))
    )


class TwoAxes(Compass):
    """A body that is pushed along both axes."""

    action_parts = (2, 2)


def test_a_body_may_have_parts_of_its_own():
    environment = TaskEnvironment(TwoAxes(2, 10), 4, seed=1)
    assert environment.action_spec().maximum.tolist() == [1, 1]
    environment.reset()
    environment._simulation.state.qpos[:] = 0.0
    action = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.int32)
    position = environment.step(action).observation[:, 2:4]
    assert np.sign(position).tolist() == [[1, 1], [1, -1], [-1, 1], [-1, -1]]


METHODS_OF_CHOICES = ("epg:epg", "epg:ppo", "epg:reinforce", "maml", "rl2")


@pytest.mark.parametrize(
    "method",
    [m if m == "maml" else pytest.param(m, marks=pytest.mark.slow) for m in METHODS_OF_CHOICES],
)
def test_one_part_ends_at_the_bits_of_a_discrete_action(rail, method):
    """`Rail` takes the number of the one and the array of the other."""
    one, parts = (METHODS[method](rail(space)) for space in (Discrete(3), MultiDiscrete([3])))
    assert np.isfinite(one).all()
    np.testing.assert_array_equal(one, parts)


@pytest.mark.parametrize(
    "method",
    [m if m == "epg:epg" else pytest.param(m, marks=pytest.mark.slow) for m in METHODS_OF_CHOICES],
)
def test_methods_learn_in_several_parts(rail, method):
    found = METHODS[method](rail(SPACES["start"][0]))
    assert found.size and np.isfinite(found).all() and np.ptp(found) > 0.0


@pytest.mark.parametrize("method", ["epg:sac", "epg:td3", "metagenrl"])
def test_methods_of_continuous_actions_refuse_parts(rail, method):
    with pytest.raises(ConfigError, match=r"needs actions with bounds|actions are discrete"):
        METHODS[method](rail(SPACES["parts"][0]))


def test_a_loss_begins_as_a_policy_gradient_with_a_unit_for_each_part(rail):
    experiment = loss_experiment(rail(SPACES["parts"][0]))
    widths = {channel.name: channel.width for channel in loss_channels(experiment)}
    assert (widths["action"], widths["policy_probability"]) == (5, 5)
    assert widths["policy_log_prob"] == 2
    assert interface(experiment)["discrete_actions"] == [3, 2]
    exported = loss_inputs(loss_channels(experiment), experiment.loss)
    assert exported["policy_probability"].shape[-1] == 5
    assert exported["policy_log_prob"].shape[-1] == 2


@pytest.mark.slow
def test_a_saved_policy_returns_vectors_within_bounds(rail, tmp_path):
    experiment = loss_experiment(rail(SPACES["start"][0]))
    learned = LearnedLoss(initial_phi(experiment, 0), experiment, {})
    policy = train_agent(learned, 0, lives=4).policy
    seen = ts.restart(tf.zeros([4000, 2]), 4000)
    actions = policy.action(seen).action.numpy()
    assert actions.dtype == np.int32
    assert set(map(tuple, actions)) == {(i, j) for i in (-1, 0, 1) for j in (5, 6)}
    logits = tf.split(policy.distribution(seen).action.distribution.logits_parameter()[0], 2)
    logits = [logits[0][0, :3].numpy(), logits[1][0, 6:].numpy()]  # of -1 to 6
    for column, values in enumerate(logits):
        probability = np.exp(values) / np.exp(values).sum()
        counted = np.bincount(actions[:, column] - actions[:, column].min()) / 4000
        np.testing.assert_allclose(counted, probability, atol=0.04)
    likeliest = greedy_policy.GreedyPolicy(policy).action(seen).action.numpy()[0]
    assert likeliest.tolist() == [-1 + logits[0].argmax(), 5 + logits[1].argmax()]
    save_policy(policy, tmp_path, {})
    read = py_tf_eager_policy.SavedModelPyTFEagerPolicy(str(tmp_path), load_specs_from_pbtxt=True)
    assert read.action_spec.minimum.tolist() == [-1, 5]
    action = read.action(ts.restart(np.zeros(2, np.float32)), ()).action
    assert action.shape == (2,) and MultiDiscrete([3, 2], start=[-1, 5]).contains(action)
    about = json.loads((tmp_path / "policy.json").read_text())
    assert about["choices"] == [[-1, 5], [1, 6]]
