"""Tests epg_tf.losses.shared_conv: one loss for any body."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import EnvironmentSpec
from epg_tf.epg.meta_parameters import initial_phi, vector_shapes
from epg_tf.losses.channels import declared_channels
from epg_tf.tasks.settings import TaskConfig
from tests.losses.learned import A, M, N, O, P, make_loss, scored, with_extra

SHARED = {"shared_over_actions": True, "features": 4}
EVERYTHING = {"products": 2, "reward": True, "channels": ("future_reward",)}


def test_phi_fits_every_body(make_tiny):
    """Sizes, and every number of a fresh phi, are the same; alone among the bodies' losses."""
    for changes in ({}, EVERYTHING, {**EVERYTHING, "start": "policy_gradient", "products": 1}):
        for shared in (True, False):
            settings = {**changes, "shared_over_actions": shared}
            if not shared and "start" in settings:
                settings["products"] = 6
            found = []
            for task in (TaskConfig("hidden_goal"), TaskConfig("directional_half_cheetah", 5)):
                experiment = dataclasses.replace(make_tiny(loss=settings), task=task)
                found.append((vector_shapes(experiment), initial_phi(experiment, 3)))
            (first, phi), (second, other) = found
            assert (first == second) == shared and len(phi) == parameter_count(first)
            assert (phi.tobytes() == other.tobytes()) == shared


def permuted(experience, dimensions, components):
    """Returns the same steps with dimensions and components in another order."""
    return experience._replace(
        observation=tf.gather(experience.observation, dimensions, axis=2),
        action=tf.gather(experience.action, components, axis=2),
        raw_action=tf.gather(experience.raw_action, components, axis=2),
    )


@pytest.mark.parametrize("changes", [{}, EVERYTHING])
def test_order_means_nothing(make_tiny, make_agent, make_experience, changes):
    """The loss of an agent whose weights are permuted in the same way is the same; its gradients
    are permuted.
    """
    experiment = make_tiny(loss={**SHARED, **changes})
    dimensions, components = [2, 0, 3, 1], [1, 0]
    experience = with_extra(make_experience(P, N, M, O, A), experiment.loss.channels)
    agent, other = (make_agent(experiment, P, O, A) for _ in range(2))
    loss, _ = make_loss(experiment)

    def moved(values):
        first, *between, kernel, bias, log_std = values
        return [
            tf.gather(first, dimensions, axis=1),
            *between,
            tf.gather(kernel, components, axis=2),
            *(tf.gather(part, components, axis=1) for part in (bias, log_std)),
        ]

    variables = agent.policy.variables_in_order
    for variable, value in zip(other.policy.variables_in_order, moved(variables), strict=True):
        variable.assign(value)
    with tf.GradientTape(persistent=True) as tape:
        losses = scored(loss, agent, experience)
        again = scored(loss, other, permuted(experience, dimensions, components))
    np.testing.assert_allclose(again, losses, rtol=1e-6, atol=1e-6)
    only_actions = permuted(experience, range(O), components)
    assert np.abs(scored(loss, agent, only_actions) - losses).max() > 1e-2
    expected = moved(tape.gradient(losses, variables))
    found = tape.gradient(again, other.policy.variables_in_order)
    for one, gradient in zip(found, expected, strict=True):
        scale = np.abs(gradient).max()
        assert scale > 1e-3
        np.testing.assert_allclose(one, gradient, rtol=1e-5, atol=2e-6 * scale)


def test_what_it_cannot_serve_is_refused(make_tiny):
    config = make_tiny(loss=SHARED).loss
    with pytest.raises(ConfigError, match=r"config.loss.shared_over_actions=True .* discrete"):
        declared_channels(EnvironmentSpec(O, A, True), config)
    with pytest.raises(ConfigError, match=r"'correlating' .*shared_over_actions=True"):
        make_tiny(loss={**SHARED, "reward": True, "start": "correlating"})
