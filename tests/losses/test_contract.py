"""Tests epg_tf.losses.contract and channels."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.channels import declared_channels, input_width, kernel_rows
from epg_tf.losses.contract import GuidedLoss, Loss
from epg_tf.losses.settings import LossConfig
from tests.losses.learned import STEPS, A, M, N, O, P


class Known(Loss[float]):
    """A loss whose values are known: `slope` times the sum of the log deviation."""

    def __init__(self, slope):
        self.slope = slope

    def prepare(self, agent, experience):
        """Returns the slope."""
        return self.slope

    def minibatch_loss(self, agent, prepared, steps):
        """Returns [P]."""
        return prepared * tf.reduce_sum(agent.policy.log_std, axis=1)


def test_guided_loss_blends_values_and_gradients(tiny, make_agent, make_experience):
    """(1 - alpha) * 5 + alpha * 7 times the known loss; the schedule is not frozen into a graph."""
    agent, experience = make_agent(tiny, P, O, A), make_experience(P, N, M, O, A)
    loss = GuidedLoss(Known(5.0), Known(7.0))
    score = tf.function(
        lambda steps: loss.minibatch_loss(agent, loss.prepare(agent, experience), steps)
    )
    log_std = agent.policy.log_std
    for alpha in (0.0, 0.3, 1.0):
        loss.alpha.assign(alpha)
        factor = (1 - alpha) * 5.0 + alpha * 7.0
        with tf.GradientTape() as tape:
            losses = score(STEPS)
        np.testing.assert_allclose(losses, factor * log_std.numpy().sum(axis=1), rtol=1e-6)
        slopes = tape.gradient(losses, log_std)
        np.testing.assert_allclose(slopes, np.full((P, A), factor), rtol=1e-6)


def test_what_is_no_channel_is_refused(make_experience):
    with pytest.raises(KeyError, match="raw_reward"):
        make_experience(P, N, M, O, A).channel("raw_reward")


def test_rows_of_a_kernel_follow_each_other():
    """But for what only product units see."""
    config = LossConfig(reward=True, products=3, channels=("novelty",))
    channels = declared_channels(EnvironmentSpec(11, 3), config)
    rows = kernel_rows(channels)
    assert [row for name in rows for row in rows[name]] == list(range(input_width(channels)))
    assert rows["reward"] == range(14, 15) and rows["policy_log_std"] == range(19, 22)
    assert "policy_log_prob" not in rows and rows["novelty"] == range(54, 55)
