"""Tests epg_tf.artifacts.objective_learner: its update is that of the package's agents, it goes on
where it was saved, and it needs only TensorFlow and NumPy.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

import epg_tf
from epg_tf.agents.replay import Replay
from epg_tf.artifacts.artifact import LearnedObjective
from epg_tf.artifacts.export import export
from epg_tf.artifacts.objective_learner import Learner
from epg_tf.core.parameters import split
from epg_tf.losses.lstm_objective import BackwardLSTM
from epg_tf.losses.objectives import Chunks
from epg_tf.metagenrl.update import AgentState, Learned, UpdateInputs, compiled_update

pytestmark = pytest.mark.slow

SEEN, BOX = 3, spaces.Box(-2.0, 2.0, [2])


def small():
    """Returns a pretrained objective whose agents are small and learn at once."""
    learned = epg_tf.load_objective("point_goal_objective")
    agent = dataclasses.replace(
        learned.experiment.agent,
        hidden=(9, 7),
        batch=5,
        random_steps=10,
        updates_after=20,
        replay_steps=64,
    )
    return LearnedObjective(
        learned.phi, dataclasses.replace(learned.experiment, agent=agent), learned.facts
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export(small(), folder, "card")
    return folder


def live(learner, steps, seed=0):
    """Lives random transitions; returns the actions."""
    generator, actions = np.random.default_rng(seed), []
    for _ in range(steps):
        actions.append(learner.act(generator.standard_normal(SEEN)))
        over = generator.random() < 0.2
        following = generator.standard_normal(SEEN)
        learner.record(following, generator.normal(), over, generator.random() < 0.1)
    return actions


def flat(*models):
    return np.concatenate([part.ravel() for model in models for part in model.get_weights()])


def state_of(learner):
    """Returns a fresh learner's state as the package has it."""

    def learned(weights, target):
        return Learned(*map(tf.constant, (weights, target, 0.0 * weights, 0.0 * weights)))

    policy = learned(flat(learner.policy)[None], flat(learner._slow_policy)[None])
    now, slow = (
        np.stack([flat(critic) for critic in critics])[None]
        for critics in (learner._critics, learner._slow_critics)
    )
    return AgentState(policy, learned(now, slow), tf.zeros([1]))


def test_an_update_is_that_of_the_packages_agents(exported):
    """Critics, policy, and slow copies, two updates in a row, from the same batches and noise."""
    learned, learner = small(), Learner(exported, BOX)
    live(learner, 19)
    agent = learned.experiment.agent
    objective = BackwardLSTM(learned.experiment.objective, agent.discount)
    params = {
        name: tf.constant(part) for name, part in split(learned.phi[None], objective.shapes).items()
    }
    state, update = state_of(learner), compiled_update(agent, None, objective)
    start = flat(learner.policy)
    for number in range(2):
        batches = learner._batches()
        noise = np.random.default_rng(number).standard_normal(
            batches["action"].shape, dtype=np.float32
        )
        given = {name: tf.constant(part[:, None]) for name, part in batches.items()}
        given.pop("ended")
        rate = tf.constant(agent.policy_learning_rate)
        inputs = UpdateInputs(
            Chunks(**given), tf.constant(noise[:, None]), tf.constant(1.0), rate, tf.ones([1])
        )
        state, _ = update(state, params, inputs)
        learner._update({name: tf.constant(part) for name, part in batches.items()}, noise)
    assert np.abs(flat(learner.policy) - start).max() > 1e-4
    for found, own in [
        (flat(learner.policy), state.policy.weights[0]),
        (flat(*learner._critics), np.ravel(state.critics.weights)),
        (flat(learner._slow_policy), state.policy.target[0]),
        (flat(*learner._slow_critics), np.ravel(state.critics.target)),
    ]:
        np.testing.assert_allclose(found, own, rtol=1e-4, atol=1e-5)


def test_batches_are_those_of_the_packages_replay(exported):
    """Also where the oldest steps were overwritten."""
    learner = Learner(exported, BOX)
    learner.about["agent"]["updates_after"] = 1000
    replay = Replay(1, 64, SEEN, 2)
    for steps in (50, 60):
        live(learner, steps)
        order = np.arange(learner.steps - steps, learner.steps) % 64
        replay.extend({name: part[None, order] for name, part in learner._replay.items()})
        learner.orders = np.random.default_rng(3)
        found = learner._batches()
        own = replay.draw(
            [np.random.default_rng(3)],
            np.array([learner.steps]),
            learner.about["agent"]["policy_delay"],
            5,
            learner.about["chunk"],
        )
        for name, part in own.items():
            np.testing.assert_array_equal(found[name], part[:, 0])


def test_it_goes_on_where_it_was_saved_with_equal_bits(exported, tmp_path):
    learner = Learner(exported, BOX)
    live(learner, 31)
    learner.save(tmp_path / "saved.npz")
    resumed = Learner(exported, BOX, seed=7)
    resumed.load(tmp_path / "saved.npz")
    for one, other in zip(live(learner, 50, 1), live(resumed, 50, 1), strict=True):
        assert one.tobytes() == other.tobytes()
    for one, other in zip(learner._saved(), resumed._saved(), strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()


def test_it_trains_any_keras_policy_within_the_bounds(exported):
    policy = tf.keras.Sequential([tf.keras.Input([SEEN]), tf.keras.layers.Dense(2, "tanh")])
    start = policy.get_weights()
    learner = Learner(exported, BOX, policy)
    actions = np.stack(live(learner, 40))
    assert np.abs(actions).max() <= 2.0 and np.abs(actions).max() > 1.0
    for before, after in zip(start, policy.get_weights(), strict=True):
        assert np.abs(after - before).max() > 1e-4


def test_what_does_not_fit_is_refused(exported):
    unbounded = [(-np.inf, np.inf), (-np.inf, 1.0), (-3e38, 3e38)]
    for space in (spaces.Discrete(3), *(spaces.Box(*each, [2]) for each in unbounded)):
        with pytest.raises(ValueError, match="need a Box with bounds"):
            Learner(exported, space)


def test_what_is_not_finite_is_not_recorded(exported):
    learner = Learner(exported, BOX)
    live(learner, 31)
    learner._replay["ended"][30] = 0.0
    with pytest.raises(ValueError, match="observation=.* is not finite"):
        learner.act(np.full(SEEN, np.nan))
    learner.act(np.zeros(SEEN))
    zeros = np.zeros(SEEN)
    for seen, reward in ((zeros, np.nan), (zeros, 1e39), (np.full(SEEN, np.inf), 0.0)):
        with pytest.raises(ValueError, match="is not finite"):
            learner.record(seen, reward, False, False)
    assert learner.steps == 31 and learner._replay["ended"][30] == 1.0


def test_gradients_that_are_not_finite_change_nothing(exported):
    learner = Learner(exported, BOX)
    live(learner, 31)
    learner._replay["reward"][:] = 1e30  # its square is infinite
    learned = [*learner._values, *learner._moved, *learner._critic_adam, *learner._policy_adam]
    before = [part.numpy() for part in learned]
    with pytest.warns(UserWarning, match="was not finite and was left out"):
        live(learner, 1)
    for old, new in zip(before, learned, strict=True):
        assert old.tobytes() == new.numpy().tobytes()
