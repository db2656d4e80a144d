"""Tests epg_tf.losses.contract and channels."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.channels import declared_channels, input_width, kernel_rows
from epg_tf.losses.contract import GuidedLoss, Loss
from epg_tf.losses.settings import LossConfig
from epg_tf.losses.surrogates import ProximalPolicyOptimization
from tests.losses.learned import STEPS, A, M, N, O, P, make_loss


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


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_guided_loss_blends_values_and_gradients(tiny, make_agent, make_experience, alpha):
    """(1 - alpha) * 5 + alpha * 7 times the known loss."""
    agent, loss = make_agent(tiny, P, O, A), GuidedLoss(Known(5.0), Known(7.0))
    loss.alpha.assign(alpha)
    factor = (1 - alpha) * 5.0 + alpha * 7.0
    with tf.GradientTape() as tape:
        losses = loss.minibatch_loss(
            agent, loss.prepare(agent, make_experience(P, N, M, O, A)), STEPS
        )
    np.testing.assert_allclose(losses, factor * agent.policy.log_std.numpy().sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(
        tape.gradient(losses, agent.policy.log_std), np.full((P, A), factor), rtol=1e-6
    )


def test_alpha_moves_a_compiled_loss(tiny, make_agent, make_experience):
    """The schedule must not be frozen into the graph."""
    agent, experience = make_agent(tiny, P, O, A), make_experience(P, N, M, O, A)
    loss = GuidedLoss(Known(5.0), Known(7.0))
    score = tf.function(
        lambda steps: loss.minibatch_loss(agent, loss.prepare(agent, experience), steps)
    )
    answers = []
    for alpha in (0.0, 1.0):
        loss.alpha.assign(alpha)
        answers.append(score(STEPS).numpy())
    np.testing.assert_allclose(answers[1], answers[0] * 7.0 / 5.0, rtol=1e-6)


@pytest.mark.parametrize("discrete", [False, True])
def test_who_receives_gradient(tiny, make_agent, make_experience, discrete):
    """The learned loss moves policy and memory, PPO policy and value network; nothing else."""
    agent = make_agent(tiny, P, O, A, discrete=discrete)
    experience = make_experience(P, N, M, O, A, discrete=discrete)
    policy, memory, value = (
        agent.policy.trainable_variables,
        agent.memory.trainable_variables,
        agent.value.trainable_variables,
    )
    for loss, reached, untouched in (
        (make_loss(tiny, discrete)[0], [*policy, *memory], value),
        (ProximalPolicyOptimization(tiny.surrogate), [*policy, *value], memory),
    ):
        prepared = loss.prepare(agent, experience)
        with tf.GradientTape(persistent=True) as tape:
            total = tf.reduce_sum(loss.minibatch_loss(agent, prepared, STEPS))
        assert all(np.abs(gradient).max() > 0 for gradient in tape.gradient(total, reached))
        assert tape.gradient(total, untouched) == [None] * len(untouched)
        assert {
            v.ref()
            for v in agent.trainable_variables_of(
                *((True, False) if untouched is value else (False, True))
            )
        } == {v.ref() for v in reached}


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
