"""Tests the product units of a learned loss, and the loss that begins as a policy gradient."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import split
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.initial_parameters import initial_parameters
from epg_tf.losses.product_units import bounded, product_units
from epg_tf.losses.temporal_conv import TemporalConvLoss
from tests import reference
from tests.losses.learned import A, M, N, O, P, make_loss, scored


def test_the_bound_is_the_identity_near_zero_and_smooth():
    """Exactly so up to 10; slope 1 and curvature 0 on both sides of 10; 20 at most."""
    near = tf.constant(np.linspace(-10.0, 10.0, 2001, dtype=np.float32))
    assert bounded(near).numpy().tobytes() == near.numpy().tobytes()
    values = tf.constant([-1e30, -60.0, -12.0, 10.0 + 1e-6, 12.0, 1e30], tf.float64)
    expected = [reference.bounded(float(value)) for value in values]
    np.testing.assert_allclose(bounded(values), expected, rtol=1e-12)
    assert np.abs(bounded(values)).max() == 20.0
    edge = tf.Variable([10.0 - 1e-7, 10.0 + 1e-7], dtype=tf.float64)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            found = bounded(edge)
        slope = tape.gradient(found, edge)
    np.testing.assert_allclose(slope, [1.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(outer.gradient(slope, edge), [0.0, 0.0], atol=1e-6)


def test_a_unit_multiplies_one_column_of_each_third_or_half():
    forms = tf.constant([[[1.0, 2.0, 3.0, 4.0, 5.0, 30.0]]])
    np.testing.assert_allclose(
        product_units(forms, 3)[0, 0], [15.0, 8.0 * reference.bounded(30.0)], rtol=1e-6
    )
    np.testing.assert_allclose(
        product_units(forms, 2)[0, 0], [4.0, 10.0, 3.0 * reference.bounded(30.0)], rtol=1e-6
    )


def test_a_unit_of_one_factor_is_a_soft_square():
    """f^2 near zero, 2 |f| - 2 far from it, and nowhere flat but at zero."""
    near, far = tf.constant([[[0.01, -0.02]]]), tf.constant([[[1e3, -1e4]]])
    np.testing.assert_allclose(product_units(near, 1)[0, 0], [1e-4, 4e-4], rtol=1e-2)
    np.testing.assert_allclose(product_units(far, 1)[0, 0], [1998.0, 19998.0], rtol=1e-5)
    with tf.GradientTape() as tape:
        tape.watch(far)
        units = product_units(far, 1)
    np.testing.assert_allclose(tape.gradient(units, far)[0, 0], [2.0, -2.0], rtol=1e-5)


def test_an_action_far_from_the_policy_is_bounded(make_tiny, make_agent, make_experience):
    """What is not exact: a log probability below -10 gets a smaller gradient than REINFORCE's, and
    none in the limit.
    """
    experiment = make_tiny(loss={"products": 4, "start": "policy_gradient", "reward": True})
    agent = make_agent(experiment, P, O, A)
    loss, _ = make_loss(experiment, start=True)
    experience = make_experience(P, N, M, O, A)
    sizes = []
    for factor in (1.0, 1e4):
        far = experience._replace(raw_action=experience.raw_action * factor)
        with tf.GradientTape() as tape:
            losses = scored(loss, agent, far)
        sizes.append(np.abs(tape.gradient(losses, agent.policy.log_std)).max())
        assert np.isfinite(losses).all() and np.abs(losses).max() < A * 20 * 5
    assert sizes[0] > 1e-1 and sizes[1] < 1e-3


def test_the_start_leaves_the_other_units_as_drawn(make_tiny):
    """Four units, of which two are REINFORCE's; nothing else has a say in the output."""
    parts = []
    for start in ("random", "policy_gradient"):
        config = make_tiny(loss={"products": 4, "reward": True, "start": start}).loss
        channels = declared_channels(EnvironmentSpec(O, A), config)
        phi = initial_parameters(np.random.default_rng(0), channels, config)
        shapes = TemporalConvLoss(1, channels, config, M).shapes
        parts.append({name: values[0] for name, values in split(phi[None], shapes).items()})
    drawn, start = parts
    np.testing.assert_array_equal(start["output/kernel"][:, 0], [0] * 4 + [-1, -1, 0, 0])
    for name in drawn:
        if name == "products/kernel":
            others = [unit for unit in range(12) if unit % 4 > 1]
            np.testing.assert_array_equal(start[name][:, others], drawn[name][:, others])
            assert start[name][:, others].all() and np.count_nonzero(start[name]) == 22 * 6 + 4
        elif name not in ("products/bias", "output/kernel"):
            np.testing.assert_array_equal(start[name], drawn[name])


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"start": "policy_gradient", "products": 2}, "policy_gradient' .*config.loss.reward=True"),
        ({"start": "policy_gradient", "reward": True}, "config.loss.products=0 .*set at least one"),
        (
            {"start": "policy_gradient", "reward": True, "products": 1},
            "config.loss.products=1 is too few .* at least 2",
        ),
        ({"start": "quadratic", "products": 1}, "config.loss.products=1 is too few .* at least 2"),
    ],
)
def test_a_start_that_lacks_what_it_needs_is_refused(make_tiny, start, message):
    with pytest.raises(ConfigError, match=message):
        make_loss(make_tiny(loss=start))


def test_discrete_actions_need_one_product_or_one_for_each_probability(make_tiny):
    make_loss(make_tiny(loss={"start": "policy_gradient", "reward": True, "products": 1}), True)
    make_loss(make_tiny(loss={"start": "quadratic", "products": 2}), True)
    with pytest.raises(ConfigError, match="for each mean or probability; set at least 2"):
        make_loss(make_tiny(loss={"start": "quadratic", "products": 1}), True)
    with pytest.raises(ConfigError, match="'quadratic' needs means or probabilities"):
        without = {"start": "quadratic", "products": 2, "without": ("policy",)}
        make_loss(make_tiny(loss=without), True)
