"""Tests `loss.without`: losses that lack inputs of the paper."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.channels import SCORED, declared_channels, input_width
from epg_tf.losses.parameter_shapes import parameter_shapes
from epg_tf.losses.settings import LossConfig
from tests.losses.learned import A, M, N, O, P, inputs_by_name, make_loss, scored

SPEC = EnvironmentSpec(O, A)
WIDTHS = {"observation": O, "action": A, "termination": 1, "policy": 2 * A, "log_prob": 0}


@pytest.mark.parametrize("part", WIDTHS)
def test_what_is_left_out_changes_nothing(make_tiny, make_agent, make_experience, part):
    """Not declared, no row of a kernel, and no influence, also not when asked by names; the rest
    has one.
    """
    experiment = make_tiny(loss={"without": (part,), "products": 2})
    usual = declared_channels(SPEC, make_tiny(loss={"products": 2}).loss)
    agent, (loss, _) = make_agent(experiment, P, O, A), make_loss(experiment)
    assert input_width(loss.network.channels) == input_width(usual) - WIDTHS[part]
    experience = make_experience(P, N, M, O, A)
    before = scored(loss, agent, experience).numpy()
    for name in ("observation", "action", "termination"):
        moved = experience._replace(**{name: getattr(experience, name) + 0.5})
        other = scored(loss, agent, moved).numpy()
        # An observation is also what the policy sees.
        same = name == part != "observation"
        assert (other == before).all() == same
    found = tf.reduce_mean(loss(inputs_by_name(loss, agent, experience)), axis=1)
    np.testing.assert_allclose(found, before, rtol=1e-5, atol=1e-6)


def test_without_log_prob_product_units_see_what_the_head_sees(make_tiny):
    """Their kernel has as many rows as the head's."""
    settings = {"products": A, "factors": 1, "start": "quadratic", "without": ("log_prob",)}
    experiment = make_tiny(loss=settings)
    channels = declared_channels(SPEC, experiment.loss)
    assert [channel for channel in channels if channel.kind == SCORED] == []
    shapes = parameter_shapes(channels, experiment.loss)
    assert shapes["products/kernel"][0] == shapes["head/kernel"][0]
    usual = declared_channels(SPEC, make_tiny(loss=settings | {"without": ()}).loss)
    assert parameter_shapes(usual, experiment.loss)["products/kernel"][0] == (
        shapes["head/kernel"][0] + A
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"without": ("policy",)}, "config.loss.products=0"),
        ({"without": ("observation", "action", "termination")}, "no recorded channel"),
        ({"without": ("policy",), "products": 1, "start": "centred"}, "start='centred'"),
        ({"without": ("action",), "shared_over_actions": True}, "shared_over_actions=True"),
        ({"without": ("observation",), "start": "correlating", "reward": True}, "no observation"),
        ({"without": ("log_prob",)}, "which product units alone see"),
        ({"without": ("log_prob", "policy"), "products": 1}, "nothing moves the policy"),
        (
            {"without": ("log_prob",), "products": 2, "start": "policy_gradient", "reward": True},
            "start='policy_gradient' needs",
        ),
    ],
)
def test_a_loss_that_needs_what_is_left_out_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message) as caught:
        declared_channels(SPEC, LossConfig(**settings))
    assert "config.loss.without=" in str(caught.value) and "\n" not in str(caught.value)
