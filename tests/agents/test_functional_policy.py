"""Tests epg_tf.agents.functional_policy: the numbers of policies that own their weights."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.agents.functional_policy import FunctionalPolicy
from epg_tf.agents.policies import CategoricalPolicy, GaussianPolicy
from tests.agents.test_policies import O, P, random_policy


@pytest.mark.parametrize("kind", [GaussianPolicy, CategoricalPolicy])
def test_equals_policies_of_the_same_weights(kind):
    policy = random_policy("elu", (7, 6), kind)
    weights = [variable.numpy() for variable in policy.variables_in_order]
    for variable in policy.variables_in_order:
        variable.assign(np.zeros(variable.shape))
    functional = FunctionalPolicy(policy, weights)
    observation = np.random.default_rng(1).standard_normal((P, 9, O)).astype(np.float32)
    output, shared = functional(observation), functional.shared_output
    action = functional.distribution(observation).sample(seed=0)
    seen = functional.loss_input(observation)
    log_prob = functional.log_prob_from(output, shared, action)
    for variable, values in zip(policy.variables_in_order, weights, strict=True):
        variable.assign(values)
    np.testing.assert_array_equal(output, policy(observation))
    np.testing.assert_array_equal(shared, policy.shared_output)
    np.testing.assert_array_equal(seen, policy.loss_input(observation))
    np.testing.assert_array_equal(log_prob, policy.log_prob_from(output, shared, action))
    np.testing.assert_allclose(
        functional.distribution(observation).log_prob(action),
        np.sum(log_prob, axis=2),
        rtol=1e-5,
        atol=1e-5,
    )
