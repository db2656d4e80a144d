"""Tests what holds the means of policies within limits (`loss.mean_limit`), and the share of means
beyond the bounds of actions.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import EnvironmentSpec, LifeKey
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings
from epg_tf.losses.channels import declared_channels, kernel_rows
from epg_tf.losses.parameter_shapes import parameter_shapes
from epg_tf.losses.settings import LossConfig
from epg_tf.losses.temporal_conv import TemporalConvLoss
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.registry import make_family

O, A, N, M = 4, 2, 32, 8  # noqa: E741 (the legend's letter)
SPEC = EnvironmentSpec(O, A)
PULL = 0.5


@pytest.mark.parametrize("state_dependent_std", [False, True])
def test_only_what_exceeds_the_limits_counts(make_tiny, state_dependent_std):
    """With phi of 0 nothing else is left: 0.5^2 + 0, 0, and 1^2 + 2^2 of means, 0.1^2 + 0.3^2 of
    log standard deviations.
    """
    config = make_tiny(loss={"mean_limit": 1.5, "log_std_limits": (-2.0, -1.0)}).loss
    channels = declared_channels(SPEC, config, state_dependent_std)
    loss = TemporalConvLoss(1, channels, config, M)
    loss.load(np.zeros((1, parameter_count(loss.shapes)), np.float32))
    means = np.zeros((1, N, A), np.float32)
    means[0, -3:] = [[2.0, -1.5], [1.4, 0.0], [2.5, -3.5]]
    inputs = {c.name: np.full((1, N, c.width), 9.0, np.float32) for c in channels}
    inputs |= {c.name: inputs[c.name][:, 0] for c in channels if c.kind == "constant"}
    inputs["policy_log_std"][...] = [-0.9, -2.3]
    inputs |= {"policy_mean": means, "minibatch": np.array([[M - 3, M - 2, M - 1, 0]])}
    found = loss({name: tf.constant(values) for name, values in inputs.items()})
    np.testing.assert_allclose(found, [[0.35, 0.1, 5.1, 0.1]], rtol=1e-5)


def test_without_a_limit_nothing_is_added(make_tiny, make_agent, make_experience):
    """To the bit what the same phi gives with limits that nothing reaches."""
    found = []
    for limit in (0.0, 1e6):
        config = make_tiny(loss={"mean_limit": limit, "log_std_limits": (-limit, limit)}).loss
        loss = TemporalConvLoss(1, declared_channels(SPEC, config), config, M)
        size = (1, parameter_count(loss.shapes))
        loss.load(np.random.default_rng(0).standard_normal(size).astype(np.float32))
        agent, experience = make_agent(make_tiny(), 1, O, A), make_experience(1, N, M, O, A)
        prepared = loss.prepare(agent, experience)
        found.append(loss.minibatch_loss(agent, prepared, tf.constant([[0, 5]])).numpy().tobytes())
    assert found[0] == found[1]


def pulling(experiment) -> np.ndarray:
    """Returns phi [D] of the loss -PULL sum(means and log standard deviations) + constant."""
    spec = make_family(experiment.task).spec
    channels = declared_channels(spec, experiment.loss)
    shapes = parameter_shapes(channels, experiment.loss)
    params = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    rows = kernel_rows(channels)
    params["head/kernel"][[*rows["policy_mean"], *rows["policy_log_std"]], 0] = 1.0
    params["head/bias"][0] = 1e3  # where the leaky ReLU is the identity
    params["output/kernel"][0] = -PULL
    return np.concatenate([values.ravel() for values in params.values()])


def lives(experiment):
    """Returns the loop and the results of its lives under the loss that pulls."""
    count = experiment.compute.shard_lives
    loop = InnerLoop(experiment, make_family(experiment.task))
    keys = [LifeKey(0, "test", 0, index) for index in range(count)]
    phi = np.repeat(pulling(experiment)[None], count, axis=0)
    return loop, loop.run(keys, phi, InnerLoopSettings(0.0, experiment.inner.learning_rate))


def final_log_stds(loop) -> np.ndarray:
    """Returns the final policies' log standard deviations, [P, A]."""
    return loop.learner.agent.policy.shared_output.numpy()


def final_means(loop) -> np.ndarray:
    """Returns the final policies' means at a normalised observation of 0, [P, A]."""
    policy = loop.learner.agent.policy
    return policy(tf.zeros([policy.population, 1, policy.spec.observation_size])).numpy()[:, 0]


def test_agents_stay_near_the_limit_where_the_loss_pulls_them_away(make_tiny):
    """The minimum of max(mean - limit, 0)^2 - PULL mean is at limit + PULL / 2; the same of log
    standard deviations.
    """
    inner = {"updates": 100, "learning_rate": 1e-2}
    limits = {"mean_limit": 0.5, "log_std_limits": (-1.0, -0.5)}
    held_loop, held = lives(make_tiny(loss=limits, inner=inner))
    free_loop, free = lives(make_tiny(inner=inner))
    np.testing.assert_allclose(final_means(held_loop), 0.5 + PULL / 2, atol=0.1)
    np.testing.assert_allclose(final_log_stds(held_loop), -0.5 + PULL / 2, atol=0.1)
    assert final_means(free_loop).min() > 5.0 and final_log_stds(free_loop).min() > 0.9
    assert (held.means_beyond == 0.0).all() and (free.means_beyond == 1.0).all()


class NarrowBounds(PointGoal):
    """The same with one action bounded to numbers that no mean has, and one without bounds."""

    def __init__(self, *settings):
        super().__init__(*settings)
        self.action_bounds = np.array([5.0, -np.inf]), np.array([np.inf, np.inf])


def test_the_share_is_of_components_at_the_newest_steps(make_tiny):
    experiment = make_tiny()
    count = experiment.compute.shard_lives
    keys = [LifeKey(0, "test", 0, index) for index in range(count)]
    phi = np.repeat(pulling(experiment)[None], count, axis=0)
    task = experiment.task
    loop = InnerLoop(experiment, NarrowBounds(task.frame_skip, task.episode_limit))
    assert loop.run(keys, phi, InnerLoopSettings(0.0, 1e-3)).means_beyond.tolist() == [0.5] * count
    never = loop.run(keys, phi, InnerLoopSettings(0.0, 1e-3, updates=0))
    assert np.isnan(never.means_beyond).all()


def test_limits_in_the_wrong_order_are_refused():
    with pytest.raises(ConfigError, match=r"log_std_limits=\(-1\.0, -2\.0\): the lowest"):
        declared_channels(SPEC, LossConfig(log_std_limits=(-1.0, -2.0)))


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        (EnvironmentSpec(O, A, discrete_actions=True), {}),
        (SPEC, {"without": ("policy",), "products": 2}),
    ],
)
def test_a_loss_that_sees_no_means_cannot_limit_them(spec, changes):
    config = LossConfig(**changes)
    declared_channels(spec, config)
    with pytest.raises(ConfigError, match=r"config\.loss\.mean_limit=1\.0 limits means"):
        declared_channels(spec, dataclasses.replace(config, mean_limit=1.0))
