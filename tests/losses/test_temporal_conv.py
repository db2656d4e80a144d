"""Tests epg_tf.losses.temporal_conv."""

from __future__ import annotations

import numpy as np

from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.parameter_shapes import parameter_shapes
from epg_tf.losses.settings import LossConfig
from tests.losses.learned import A, M, O, P, inputs_by_name, make_loss


def test_parameters_of_a_leading_axis_of_one_are_shared(tiny, make_agent, make_experience):
    """As an exported loss has them: the pure function is the same."""
    agent, (loss, phi) = make_agent(tiny, P, O, A), make_loss(tiny)
    loss.load(np.repeat(phi[:1], P, axis=0))
    inputs = inputs_by_name(loss, agent, make_experience(P, 32, M, O, A))
    shared = {name: values[:1] for name, values in loss.params.items()}
    np.testing.assert_allclose(loss.network.losses(shared, inputs), loss(inputs), rtol=1e-5)


def test_paper_sizes_give_17285_parameters():
    """Hopper: O 11, A 3, N 512, memory 32, no reward; sizes of section 4."""
    channels = declared_channels(EnvironmentSpec(11, 3), LossConfig())
    shapes = parameter_shapes(channels, LossConfig())
    assert parameter_count(shapes) == 17285
    assert "policy_log_prob" not in [channel.name for channel in channels]
    assert shapes["convolution_1/kernel"] == (8, 53, 10) and shapes["context/kernel"] == (350, 32)


def test_discrete_actions_leave_out_the_log_deviation():
    """Of 3 choices: 3 channels fewer, each with 8 * 10 weights in the first convolution and 16 in
    the head.
    """
    channels = declared_channels(EnvironmentSpec(11, 3, True), LossConfig())
    assert parameter_count(parameter_shapes(channels, LossConfig())) == 17285 - 3 * 96
