"""Tests what every learned loss must have, over networks that know a body or that are shared
over actions, with and without product units: the reference's values and gradients, and lives that
do not depend on each other.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.losses.learned import (
    STEPS,
    A,
    M,
    N,
    O,
    P,
    inputs_by_name,
    life_variables,
    make_loss,
    poisoned,
    reference_losses,
    reference_means,
    scored,
    with_extra,
)

SHARED = {"shared_over_actions": True, "features": 4}
EVERYTHING = {"products": 2, "reward": True, "channels": ("future_reward",)}
KINDS = [{}, EVERYTHING, SHARED, {**SHARED, **EVERYTHING}]
NETWORKS = [
    {},
    {"reward": True},
    {"memory_units": 0},
    {"pooling": "mean"},
    {"buffer_steps": 29},
    {"pooling": "mean", "reward": True, "buffer_steps": 37, "leaky_slope": 0.0},
    {"widths": (2, 4), "strides": (3, 2)},
    {"widths": (8, 2), "strides": (4, 1)},
    {"products": 5, "reward": True, "channels": ("future_reward", "novelty")},
    {"products": 2, "memory_units": 0, "pooling": "mean", "channels": ("time_in_life",)},
    {"products": 3, "factors": 2},
    {"products": 3, "factors": 1},
    {"products": 0, "channels": ("time_in_life", "novelty")},
]
DISCRETE = [
    {},
    {"memory_units": 0},
    {"products": 5, "reward": True, "channels": ("future_reward", "novelty")},
    {"products": 2, "memory_units": 0, "pooling": "mean", "channels": ("time_in_life",)},
    {"products": 3, "factors": 2},
]
LIMITED = {"mean_limit": 0.1, "log_std_limits": (-3.0, -2.0), "pooling": "mean"}


@pytest.mark.parametrize(
    ("changes", "discrete"),
    [
        *((changes, False) for changes in NETWORKS),
        *((changes, True) for changes in DISCRETE),
        *(({**SHARED, **changes}, False) for changes in ({}, EVERYTHING, LIMITED)),
    ],
)
def test_values_equal_the_reference(make_tiny, make_agent, make_experience, changes, discrete):
    """A discrete policy without memory unit leaves no constant channel at all."""
    experiment = make_tiny(loss=changes)
    agent = make_agent(experiment, P, O, A, discrete=discrete)
    loss, phi = make_loss(experiment, discrete)
    met = make_experience(P, experiment.loss.buffer_steps, M, O, A, discrete=discrete)
    met = with_extra(met, experiment.loss.channels)
    expected = reference_means(experiment, phi, met, agent)
    for run in (scored, tf.function(scored)) if len(changes) < 2 else (scored,):
        found = run(loss, agent, met).numpy()
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
    assert np.std(found) > 1e-2


@pytest.mark.parametrize(
    "changes", [{}, {"reward": True, "pooling": "mean"}, {"memory_units": 0, "buffer_steps": 27}]
)
@pytest.mark.parametrize("discrete", [False, True])
def test_gradient_equals_finite_differences_of_the_reference(
    make_tiny, make_agent, make_experience, changes, discrete
):
    """Through the policy at all N steps and at the minibatch, through log deviation or
    probabilities, and memory.
    """
    experiment = make_tiny(loss=changes, policy={"hidden": (3,)})
    agent = make_agent(experiment, P, O, A, discrete=discrete)
    loss, phi = make_loss(experiment, discrete)
    met = make_experience(P, experiment.loss.buffer_steps, M, O, A, discrete=discrete)
    variables = agent.trainable_variables_of(True, False)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(scored(loss, agent, met))
    gradients = tape.gradient(total, variables)
    for life in range(P):
        weights, kernel = life_variables(agent, life)

        def mean_loss(parts, life=life, kernel=kernel):
            parts = [*parts, None] if kernel is None else parts
            losses = reference_losses(life, experiment, phi, met, parts[:-1], parts[-1])
            return losses[STEPS[life]].mean()

        parameters = weights + ([] if kernel is None else [kernel])
        for gradient, expected in zip(
            gradients, reference.finite_differences(mean_loss, parameters), strict=True
        ):
            np.testing.assert_allclose(gradient[life], expected, rtol=1e-4, atol=2e-6)
            assert np.abs(expected).max() > 1e-4


START = {"products": 4, "start": "policy_gradient"}


@pytest.mark.parametrize(
    ("changes", "discrete"),
    [
        ({"reward": True}, False),
        ({"reward": True}, True),
        ({"reward": True, "factors": 2}, False),
        ({"channels": ("novelty", "future_reward")}, True),
        ({"reward": True, "channels": ("future_reward",)}, False),  # which goes before the reward
        ({"reward": True, "channels": ("return_to_go",)}, False),
        ({**SHARED, "products": 1, "reward": True}, False),
        ({**SHARED, "products": 1, "channels": ("future_reward",)}, False),
    ],
)
def test_a_fresh_loss_is_reinforce(make_tiny, make_agent, make_experience, changes, discrete):
    """Its value and its gradients of all policy weights are those of -mean(A log pi(a | s)), where
    nothing is beyond the bound; the memory gets none.
    """
    experiment = make_tiny(loss={**START, **changes})
    agent = make_agent(experiment, P, O, A, discrete=discrete)
    if not discrete:
        agent.policy.log_std.assign(np.linspace(-0.2, 0.8, P * A).reshape(P, A))
    loss, phi = make_loss(experiment, discrete, start=True)
    met = make_experience(P, N, M, O, A, discrete=discrete)
    met = with_extra(met, experiment.loss.channels)
    name = experiment.loss.channels[-1] if experiment.loss.channels else "reward"
    observation, action, advantage = (
        tf.gather(part[:, -M:], STEPS, batch_dims=1)
        for part in (met.observation, met.raw_action, met.channel(name)[:, :, 0])
    )
    policy, variables = agent.policy, agent.policy.variables_in_order
    parts = policy.log_prob_from(policy(observation), policy.shared_output, action)
    assert max(np.abs(parts).max(), np.abs(advantage).max()) < 10.0
    with tf.GradientTape(persistent=True) as tape:
        losses = scored(loss, agent, met)
        log_prob = policy.distribution(observation).log_prob(action)
        surrogate = -tf.reduce_mean(advantage * log_prob, axis=1)
    np.testing.assert_allclose(losses, surrogate, rtol=1e-5, atol=1e-5)
    slow = reference_means(experiment, phi, met, agent)
    np.testing.assert_allclose(losses, slow, rtol=1e-5, atol=1e-5)
    assert not tape.gradient(losses, agent.memory.kernel).numpy().any()
    expected = tape.gradient(surrogate, variables)
    for found, gradient in zip(tape.gradient(losses, variables), expected, strict=True):
        scale = np.abs(gradient).max()
        assert scale > 1e-2
        np.testing.assert_allclose(found, gradient, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize(
    ("changes", "discrete"),
    [*((changes, False) for changes in KINDS), *((changes, True) for changes in KINDS[:2])],
)
def test_one_life_never_depends_on_another(
    make_tiny, make_agent, make_experience, changes, discrete
):
    """NaN in one life's phi and buffer changes no bit of loss or gradient of the others."""
    experiment = make_tiny(loss=changes)
    agent = make_agent(experiment, P, O, A, discrete=discrete)
    loss, phi = make_loss(experiment, discrete)
    met = with_extra(make_experience(P, N, M, O, A, discrete=discrete), experiment.loss.channels)

    def measure(met):
        with tf.GradientTape() as tape:
            losses = scored(loss, agent, met)
            total = tf.reduce_sum(losses)
        found = tape.gradient(total, agent.trainable_variables_of(True, False))
        return [losses.numpy(), *(gradient.numpy() for gradient in found)]

    healthy = measure(met)
    loss.load(poisoned(phi))
    ill = measure(
        met._replace(observation=poisoned(met.observation), raw_action=poisoned(met.raw_action))
    )
    for one, other in zip(healthy, ill, strict=True):
        assert np.isnan(other[1]).all() and one[[0, 2]].tobytes() == other[[0, 2]].tobytes()


@pytest.mark.parametrize("changes", KINDS)
def test_phi_is_all_weights_in_order_and_equal_networks_are_equal(make_tiny, changes):
    experiment = make_tiny(loss=changes)
    (loss, phi), (again, _) = make_loss(experiment), make_loss(experiment)
    assert again.network == loss.network and hash(again.network) == hash(loss.network)
    assert dataclasses.replace(again.network, update_period=M + 1) != loss.network
    weights = [part.reshape(P, -1) for part in loss.get_weights()]
    np.testing.assert_array_equal(np.concatenate(weights, axis=1), phi)
    assert list(loss.shapes.items()) == list(loss.network.shapes.items())


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("changes", [*KINDS[:2], {"reward": True, "memory_units": 0}])
def test_calling_the_model_equals_the_two_stages(
    make_tiny, make_agent, make_experience, changes, discrete
):
    """Values and gradients: named inputs in one go, and in two calls as in an update."""
    experiment = make_tiny(loss=changes)
    agent = make_agent(experiment, P, O, A, discrete=discrete)
    loss, _ = make_loss(experiment, discrete)
    met = make_experience(P, N, M, O, A, discrete=discrete)
    met = with_extra(met, experiment.loss.channels)
    found = []
    for score in (
        lambda: tf.reduce_mean(loss(inputs_by_name(loss, agent, met)), axis=1),
        lambda: scored(loss, agent, met),
    ):
        with tf.GradientTape() as tape:
            losses = score()
        found.append([losses, *tape.gradient(losses, agent.trainable_variables_of(True, False))])
    for one, other in zip(*found, strict=True):
        assert np.abs(other).max() > 1e-3
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
