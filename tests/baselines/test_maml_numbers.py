"""Tests the numbers of MAML against NumPy and by hand: targets, actions, Adam, who adapts where."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from epg_tf.agents.buffer import Buffer
from epg_tf.baselines.maml import MetaTraining
from epg_tf.baselines.maml_lives import Initialisation, MAMLLives
from epg_tf.baselines.maml_state import initial_state
from epg_tf.core.errors import RunFailed
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.tasks.registry import make_family
from tests.baselines.test_maml import START, TASK, TINY, key

FAMILY = make_family(TASK)
T, O, A, LIMIT = 24, FAMILY.observation_size, 2, 10  # noqa: E741 (the legend's letter)
DISCOUNT, LAMBDA = 0.8, 0.7
SPARSE = dataclasses.replace(
    TINY,
    adaptation=dataclasses.replace(TINY.adaptation, discount=DISCOUNT, gae_lambda=LAMBDA),
)


def far_start():
    """Returns a start whose outputs are large and whose normalisation changes observations."""
    generator = np.random.default_rng(0)
    drawn = generator.standard_normal(START.weights.size), np.linspace(-0.3, 0.4, O)
    scale = np.linspace(0.5, 3.0, O)
    return Initialisation(*(part.astype(np.float32) for part in (*drawn, scale)))


def outputs(weights, seen):
    """Returns means [T, A] of the policy of `TINY` at [T, O], and its log deviations [A]."""
    cuts = np.cumsum([O * 4, 4, 4 * A, A])
    first, bias, second, shift, log_std = np.split(weights, cuts)
    hidden = np.tanh(seen @ first.reshape(O, 4) + bias)
    return hidden @ second.reshape(4, A) + shift, log_std


def scripted_buffer(ends):
    """Returns a buffer of random steps of which `ends` (life, step, how) end their episode."""
    generator = np.random.default_rng(1)
    observation = generator.standard_normal((2, T + 1, O))
    reached, reward = observation[:, 1:].copy(), generator.standard_normal((2, T))
    terminated, truncated = np.zeros((2, 2, T))
    for life, step, how in ends:
        (terminated if how == "terminated" else truncated)[life, step] = 1.0
        reached[life, step] = generator.standard_normal(O)  # not where the next episode starts
    buffer = Buffer(2, T, T, FAMILY.spec)
    buffer.make_room()
    for t in range(T):
        parts = reached[:, t], reward[:, t], terminated[:, t], truncated[:, t]
        names = ("observation", "reward", "terminated", "truncated")
        result = SimpleNamespace(**dict(zip(names, parts, strict=True)))
        buffer.write(t, observation[:, t], generator.standard_normal((2, A)), result)
    return buffer


def slow_advantages(seen, reached, reward, ended):
    """Returns the standardised advantages [T] of one life over its own linear baseline."""
    known, following, returns, age, total = [], [], np.zeros(T), 0, 0.0
    for t in range(T):
        for found, state, late in (
            (known, seen[t], age / LIMIT),
            (following, reached[t], (age + 1) / LIMIT),
        ):
            found.append([*state, *state**2, late, late**2, late**3, 1.0])
        age = 0 if ended[t] else age + 1
    for t in reversed(range(T)):
        total = returns[t] = reward[t] + (0.0 if ended[t] else DISCOUNT * total)
    whole = np.flatnonzero(ended)[-1] + 1  # what follows was cut off
    size = len(known[0])
    left = np.concatenate([known[:whole], np.sqrt(1e-5 * T) * np.eye(size)])
    right = np.concatenate([returns[:whole], np.zeros(size)])
    weights = np.linalg.lstsq(left, right, rcond=None)[0]
    advantage, ahead = np.zeros(T), 0.0
    for t in reversed(range(T)):
        goes_on = 0.0 if ended[t] else DISCOUNT
        delta = reward[t] + goes_on * (following[t] @ weights) - known[t] @ weights
        ahead = advantage[t] = delta + goes_on * LAMBDA * ahead
    return (advantage - advantage.mean()) / advantage.std()


def test_targets_are_those_of_a_slow_reference():
    """Termination and a time limit both end the sum of rewards; the last episodes are cut."""
    ends = [(0, 6, "terminated"), (0, 16, "truncated"), (1, 9, "truncated"), (1, 14, "terminated")]
    buffer, start = scripted_buffer(ends), far_start()
    lives = MAMLLives(SPARSE, FAMILY, 2)
    lives.begin([key(0), key(1)], start)
    found = lives._targets(buffer)
    for life in range(2):
        seen, reached = (
            (part[life].astype(np.float64) - start.shift) * start.scale
            for part in (buffer.observation, buffer.next_observation)
        )
        ended = [(life, t) in {(one, step) for one, step, _ in ends} for t in range(T)]
        expected = slow_advantages(seen, reached, buffer.reward[life], ended)
        np.testing.assert_allclose(found.advantage[life], expected, atol=1e-4)
        np.testing.assert_allclose(found.observation[life], seen, atol=1e-5)
        mean, log_std = outputs(start.weights, seen)
        np.testing.assert_allclose(found.policy_output[life], mean, atol=1e-5)
        np.testing.assert_array_equal(found.shared_output[life], log_std)
        np.testing.assert_array_equal(found.action[life], buffer.action[life])


def test_samples_and_the_loss_of_a_start_that_has_not_moved():
    """Actions are means at normalised observations plus the noise of the life's stream. PPO's ratio
    is 1 where the start is that of the samples, so the loss is the mean advantage, which is 0.
    """
    lives, start = MAMLLives(TINY, FAMILY, 3), far_start()
    keys = [key(number) for number in range(3)]
    lives.begin(keys, start)
    before = lives.sample(T, T)
    for life in range(3):
        mean, log_std = outputs(
            start.weights, (before.observation[life] - start.shift) * start.scale
        )
        noise = life_generator(keys[life], "action").standard_normal((64, A), dtype=np.float32)[:T]
        action = mean + np.exp(log_std) * noise
        np.testing.assert_allclose(before.targets.action[life], action, atol=1e-5)
    lives.adapt(before)
    after = lives.sample(T, T)
    losses, _ = lives.meta_gradient(start.weights, [before], after)
    np.testing.assert_allclose(losses, 0.0, atol=1e-5)
    moved, _ = lives.meta_gradient(start.weights + 0.05, [before], after)
    assert (np.abs(moved) > 1e-3).all()


def lived_by_hand(phase, epoch, start, adapts):
    """Returns the lives of `TINY` in an iteration or validation, and their first samples."""
    lives = MAMLLives(TINY, FAMILY, 3)
    lives.begin([LifeKey(0, phase, epoch, number) for number in range(3)], start)
    before = lives.sample(T, T)
    if adapts:
        lives.adapt(before)
    return lives, before


def test_lives_adapt_in_tasks_of_their_iteration_and_validation_in_its_own():
    begun = initial_state(TINY, 0)
    one, two = MetaTraining(TINY, 0).iterations(begun)
    for epoch, start, numbers in ((0, begun.start, one.metrics), (1, one.state.start, two.metrics)):
        lives, before = lived_by_hand("evolution", epoch, start, adapts=True)
        assert numbers["return_before_mean"] == before.returns.mean()
        assert numbers["return_after_mean"] == lives.sample(T, T).returns.mean()
        still, _ = lived_by_hand("evolution", epoch, start, adapts=False)
        assert numbers["return_after_mean"] != still.sample(T, T).returns.mean()
    lives, _ = lived_by_hand("validation", 0, two.state.start, adapts=True)
    assert two.metrics["validation_return_mean"] == lives.play(1).mean_return.mean()
    still, _ = lived_by_hand("validation", 0, two.state.start, adapts=False)
    assert two.metrics["validation_return_mean"] != still.play(1).mean_return.mean()


@pytest.fixture
def slopes(monkeypatch):
    """Scripts the gradients of lives as slope * weights + offset; life 1 of 3 fails in physics."""
    slopes, offsets = np.array([[1.0], [50.0], [-2.0]]), np.array([[0.3], [9.0], [-0.1]])
    adapt = MAMLLives.adapt

    def failing(self, batch):
        adapt(self, batch)
        self.failed[1] = True

    def scripted(self, weights, batches, after):
        rows = (slopes * weights + offsets).astype(np.float32)
        return np.zeros(3, np.float32), [rows[:, :6].reshape(3, 2, 3), rows[:, 6:]]

    monkeypatch.setattr(MAMLLives, "adapt", failing)
    monkeypatch.setattr(MAMLLives, "meta_gradient", scripted)
    return slopes, offsets


def test_the_initialisation_moves_by_adam_on_the_mean_gradient_of_lives_that_did_not_fail(slopes):
    """Adam's moments and the number of its step go on from iteration to iteration. From iteration 2
    on the gradient of life 2 is not finite: life 0 is left.
    """
    outer = dataclasses.replace(TINY.outer, epochs=3, learning_rate=0.05, validation_period=0)
    training = MetaTraining(dataclasses.replace(TINY, outer=outer), 0)
    iterations = training.iterations(initial_state(TINY, 0))
    slope, offset = slopes
    weights = START.weights.astype(np.float64)
    first, second, number = np.zeros_like(weights), np.zeros_like(weights), 0
    for taken, failed, steps in (([0, 2], 1, 2 * 2 * T), ([0], 2, 2 * 2 * T + 2 * T)):
        metrics = None
        for _ in range(3):
            gradient = (slope * weights + offset)[taken].mean(axis=0)
            if metrics is None:
                result = next(iterations)
                metrics = result.metrics
                assert metrics["gradient_norm"] == pytest.approx(np.sqrt((gradient**2).sum()), 1e-4)
            number += 1
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            shrunk = np.sqrt(second / (1 - 0.999**number)) + 1e-8
            weights = weights - 0.05 * first / (1 - 0.9**number) / shrunk
        np.testing.assert_allclose(result.state.weights, weights, atol=2e-5)
        assert metrics["failed_lives"] == failed and result.state.observed.steps == steps
        offset[2] = np.nan


def test_lives_that_fail_in_validation_are_counted(slopes):
    del slopes
    results = MetaTraining(TINY, 0).iterations(initial_state(TINY, 0))
    found = [result.metrics["failed_validation_lives"] for result in results]
    np.testing.assert_array_equal(found, [np.nan, 1.0])


def test_meta_training_ends_where_no_gradient_is_finite(slopes):
    """Instead of saving statistics of no step."""
    slopes[1][:] = np.nan
    with pytest.raises(RunFailed, match="^all 3 lives of iteration 1 failed"):
        next(MetaTraining(TINY, 0).iterations(initial_state(TINY, 0)))
