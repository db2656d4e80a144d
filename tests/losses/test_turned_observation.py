"""Tests the channel `observation_towards_reward` against the physics and a NumPy reference."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.losses.turned_observation import turned_towards_reward
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

P, N, PADDING = 3, 40, 5
ANT = make_family(TaskConfig("goal_ant", 5, 50))
LIVED = (np.arange(N) >= PADDING).astype(np.float32)[None, :, None]


def turned(observation, angle):
    """Turns [P, N, O] by [P, 1] rad, component by component."""
    found = observation.copy()
    for first, second, share in ANT.turning:
        x, y = observation[..., first], observation[..., second]
        found[..., first] = np.cos(share * angle) * x - np.sin(share * angle) * y
        found[..., second] = np.sin(share * angle) * x + np.cos(share * angle) * y
    return found


@pytest.fixture
def ahead():
    """Random observations of ants, with the quaternions that the channel chooses."""
    generator = np.random.default_rng(0)
    observation = generator.standard_normal((P, N, ANT.observation_size))
    observation[..., 1] = np.abs(observation[..., 1])
    return observation * LIVED


def compute(observation, reward):
    arrays = (observation, reward[..., None], LIVED)
    return turned_towards_reward(*(tf.constant(a, tf.float32) for a in arrays), ANT.turning).numpy()


def scaled(observation):
    square = np.square(observation).sum(axis=1, keepdims=True) / LIVED.sum()
    return observation / np.sqrt(square)


@pytest.mark.parametrize("unit", [1.0, 30.0])
def test_a_reward_for_the_velocity_in_a_direction_turns_observations_to_it(ahead, unit):
    """In any unit and about any mean: what is seen is what an agent rewarded along +x would see."""
    angle = np.array([[0.3], [-1.9], [3.0]])
    reward = (unit * ahead[..., 13] + 2.0) * LIVED[..., 0]  # the velocity along x, before the turn
    found = compute(turned(ahead, angle), reward)
    np.testing.assert_allclose(found, scaled(ahead), rtol=1e-3, atol=1e-3)


def test_velocities_that_vary_together_do_not_mislead(ahead):
    """Least squares, not a covariance: here vy is nearly vx, and the reward is vx alone."""
    ahead[..., 14] = ahead[..., 13] + 0.1 * ahead[..., 14]
    found = compute(ahead, ahead[..., 13])
    np.testing.assert_allclose(found, scaled(ahead), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("reward", [0.0, 3.0, 0.1, -0.7234])
def test_a_reward_that_never_changes_turns_nothing(reward):
    """Though in float32 a mean of 256 numbers differs from them by rounding."""
    generator = np.random.default_rng(0)
    observation = generator.standard_normal((P, 256, ANT.observation_size))
    observation[..., 1] = np.abs(observation[..., 1])
    arrays = (observation, np.full((P, 256, 1), reward), np.ones((1, 256, 1)))
    found = turned_towards_reward(*(tf.constant(a, tf.float32) for a in arrays), ANT.turning)
    expected = observation / np.sqrt(np.square(observation).mean(axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_of_two_quaternions_it_sees_the_first_with_no_negative_w(ahead):
    other = ahead.copy()
    other[:, ::2, 1:5] *= -1.0
    reward = ahead[..., 13]
    np.testing.assert_allclose(compute(other, reward), compute(ahead, reward), rtol=1e-5, atol=1e-6)


def test_padding_stays_zero_and_nothing_lived_is_zero(ahead):
    assert not compute(ahead, ahead[..., 13])[:, :PADDING].any()
    nothing = tf.zeros((P, N, 1))
    observation = tf.zeros((P, N, ANT.observation_size))
    found = turned_towards_reward(observation, nothing, tf.zeros((1, N, 1)), ANT.turning)
    assert not found.numpy().any()


def test_an_ant_is_what_the_family_says_of_its_turning():
    """An ant with another heading has the same observations, turned, also after env steps."""
    angles = np.array([0.0, 0.7, -1.2])
    simulation = BodySimulation(ANT, len(angles))
    tasks = [ANT.complete_task({"rotation": angle}) for angle in angles]
    simulation.set_tasks(tasks)
    streams = [np.random.default_rng(4) for _ in angles]
    observations = [simulation.reset(np.arange(len(angles)), streams)]
    actions = np.random.default_rng(5).uniform(-0.5, 0.5, (3, 1, ANT.action_size))
    for action in actions:
        result = simulation.step(np.repeat(action, len(angles), axis=0).astype(np.float32))
        observations.append(result.observation)
    for found in observations:
        expected = turned(np.repeat(found[:1], len(angles), axis=0)[:, None], angles[:, None])
        np.testing.assert_allclose(found, expected[:, 0], atol=2e-3)
    assert np.ptp(observations[-1][:, 13]) > 0.01  # m/s


def test_a_loss_that_sees_it_lives_and_is_moved_by_rewards(make_tiny):
    task = {"family": "goal_ant", "frame_skip": 5, "episode_limit": 6}
    experiment = make_tiny(task=task, loss={"channels": ("observation_towards_reward",)})
    hashes = []
    for sign in (1.0, -1.0):
        family = make_family(experiment.task)
        reward = family.reward
        family.reward = lambda *args, sign=sign, reward=reward: sign * reward(*args)
        loop = InnerLoop(experiment, family)
        keys = [LifeKey(1, "test", 0, index) for index in range(4)]
        phi = np.stack([initial_phi(experiment, 0)] * 4)
        hashes.append(loop.run(keys, phi, InnerLoopSettings(0.0, 1e-2)).policy_hash)
    assert (hashes[0] != hashes[1]).all()


def test_a_family_that_does_not_say_how_it_turns_is_refused(make_tiny):
    task = {"family": "random_hopper", "frame_skip": 4, "episode_limit": 6}
    experiment = make_tiny(task=task, loss={"channels": ("observation_towards_reward",)})
    with pytest.raises(ConfigError, match="how those of config.task.family turn is not known"):
        InnerLoop(experiment, make_family(experiment.task))
