"""Tests epg_tf.losses.surrogates."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.losses.surrogates import (
    ProximalPolicyOptimization,
    Reinforce,
    ReinforceWithValues,
    Steps,
    advantages,
    standardised,
)
from tests import reference

P, O, A, M, N = 3, 4, 2, 12, 20  # noqa: E741 (the legend's letter)
STEPS = np.array([[7, 0, 3], [1, 2, 11], [5, 5, 4]], np.int32)


def both_ways(function):
    """Returns the function as it is and compiled."""
    return function, tf.function(function)


def random_steps(seed=0):
    """Returns reward, value, next_value, terminated, truncated, each [P, M], with every mixture of
    ends.
    """
    generator = np.random.default_rng(seed)
    reward, value, next_value = generator.standard_normal((3, P, M)).astype(np.float32)
    terminated = (generator.random((P, M)) < 0.2).astype(np.float32)
    truncated = ((generator.random((P, M)) < 0.2) * (1 - terminated)).astype(np.float32)
    terminated[0, -1], truncated[0, -1] = 0.0, 1.0
    terminated[1, -1], truncated[1, -1] = 1.0, 0.0
    terminated[2, -1], truncated[2, -1] = 0.0, 0.0
    going_on = (terminated + truncated)[:, :-1] == 0
    next_value[:, :-1][going_on] = value[:, 1:][
        going_on
    ]  # the state reached is the state acted in next
    return reward, value, next_value, terminated, truncated


@pytest.mark.parametrize(
    ("discount", "gae_lambda"), [(0.99, 0.95), (0.9, 0.0), (0.9, 1.0), (0.0, 0.95), (1.0, 1.0)]
)
def test_advantages_equal_the_reference(discount, gae_lambda):
    parts = random_steps()
    expected = np.array(
        [reference.gae(*(part[life] for part in parts), discount, gae_lambda) for life in range(P)]
    )
    for function in both_ways(lambda *a: advantages(Steps(*a), discount, gae_lambda)):
        np.testing.assert_allclose(
            function(*map(tf.constant, parts)), expected, rtol=1e-5, atol=1e-5
        )


def test_literal_advantages():
    """gamma 0.5, lambda 1: three steps, one end in the middle; by hand."""
    one = np.ones((1, 3), np.float32)
    never, middle = np.zeros((1, 3), np.float32), np.array([[0.0, 1.0, 0.0]], np.float32)
    ended = advantages(Steps(one, 0 * one, 4 * one, middle, never), 0.5, 1.0)
    np.testing.assert_allclose(ended, [[1.5, 1.0, 3.0]])  # 1 + 0.5 * 1; 1; 1 + 0.5 * 4
    cut = advantages(Steps(one, 0 * one, 4 * one, never, middle), 0.5, 1.0)
    np.testing.assert_allclose(cut, [[2.5, 3.0, 3.0]])  # 1 + 0.5 * 3; 1 + 0.5 * 4; 1 + 0.5 * 4


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, -5.3, 1e-20, 3e6])
def test_what_does_not_vary_has_no_advantage(constant):
    """Its rounding errors are not scaled up to a deviation of 1."""
    found = standardised(tf.fill([2, 1000], constant)).numpy()
    np.testing.assert_allclose(found, np.zeros((2, 1000)), atol=0.05)
    rounded = constant * (1 + 1e-7 * np.random.default_rng(0).standard_normal((2, 1000)))
    assert np.abs(standardised(tf.constant(rounded, tf.float32)).numpy()).max() < 0.1


def life_parts(agent, experience, life):
    """Returns policy weights, value weights, newest observations and raw parts of one life in
    float64.
    """
    weights = [np.float64(v[life]) for v in agent.policy.variables_in_order]
    value = [np.float64(w[life]) for layer in agent.value.dense for w in (layer.kernel, layer.bias)]
    return (
        weights,
        value,
        np.float64(experience.observation[life, -M:]),
        [np.float64(p[life]) for p in experience[4:9]],
    )


def estimates(config, value_weights, observation, parts):
    """Returns generalised advantage estimates and values of one life.

    Between ends the next state is the next row; the random test data does not respect that, so the
    rows' values are taken.
    """
    _, reward, terminated, truncated, following = parts
    value = reference.mlp(value_weights, observation)[:, 0]
    next_value = reference.mlp(value_weights, following)[:, 0]
    going_on = (terminated + truncated)[:-1] == 0
    next_value[:-1][going_on] = value[1:][going_on]
    advantage = reference.gae(
        reward, value, next_value, terminated, truncated, config.discount, config.gae_lambda
    )
    return advantage, value


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"clip": 0.02, "kl_coefficient": 0.5},
        {"value_coefficient": 0.0},
        {"discount": 0.5, "gae_lambda": 0.0},
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_ppo_equals_the_reference(make_tiny, make_agent, make_experience, changes, compiled):
    """Targets from the agent as it was at `prepare`; ratio and values from the agent as it is."""
    experiment = make_tiny(surrogate=changes)
    config, experience = experiment.surrogate, make_experience(P, N, M, O, A)
    agent, loss = make_agent(experiment, P, O, A), ProximalPolicyOptimization(config)
    before = [life_parts(agent, experience, life) for life in range(P)]
    prepared = loss.prepare(agent, experience)
    for number, variable in enumerate(agent.moved_by(False, True)):
        variable.assign_add(0.1 * np.random.default_rng(number).standard_normal(variable.shape))
    score = both_ways(lambda steps: loss.minibatch_loss(agent, prepared, steps))[compiled]
    found, expected = score(tf.constant(STEPS)).numpy(), []
    for life, steps in enumerate(STEPS):
        old, old_value, observation, parts = before[life]
        action = parts[0]
        new, new_value, _, _ = life_parts(agent, experience, life)
        advantage, value = estimates(config, old_value, observation, parts)
        expected.append(
            reference.ppo_loss(
                action[steps],
                reference.standardised(advantage)[steps],
                (advantage + value)[steps],
                (reference.mlp(old[:-1], observation)[steps], old[-1]),
                (reference.mlp(new[:-1], observation)[steps], new[-1]),
                reference.mlp(new_value, observation)[steps, 0],
                config.clip,
                config.kl_coefficient,
                config.value_coefficient,
            )
        )
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


def discrete_case(make_tiny, make_agent, make_experience, changes):
    """Returns settings, P agents with three choices and few weights, and their experience."""
    experiment = make_tiny(surrogate=changes, policy={"hidden": (3,)})
    return (
        experiment.surrogate,
        make_agent(experiment, P, O, 3, discrete=True),
        make_experience(P, N, M, O, 3, discrete=True),
    )


def assert_gradients(loss, agent, prepared, slow):
    """Compares losses and policy gradients at STEPS with slow(life, policy weights) and its finite
    differences.
    """
    for score in both_ways(lambda: loss.minibatch_loss(agent, prepared, tf.constant(STEPS))):
        with tf.GradientTape() as tape:
            losses = score()
        gradients = tape.gradient(losses, agent.policy.variables_in_order)
        for life in range(P):
            weights = [np.float64(v[life]) for v in agent.policy.variables_in_order]
            assert losses[life].numpy() == pytest.approx(slow(life, weights), rel=2e-5, abs=1e-5)
            expected = reference.finite_differences(
                lambda moved, life=life: slow(life, moved), weights
            )
            for found, other in zip(gradients, expected, strict=True):
                np.testing.assert_allclose(found[life], other, rtol=1e-3, atol=1e-5)
                assert np.abs(other).max() > 1e-3


@pytest.mark.parametrize("changes", [{}, {"clip": 0.02, "kl_coefficient": 0.5}])
def test_ppo_with_discrete_actions_equals_the_reference(
    make_tiny, make_agent, make_experience, changes
):
    """Value and gradient, away from the old policy: ratio, clip and KL are all at work."""
    config, agent, experience = discrete_case(make_tiny, make_agent, make_experience, changes)
    loss = ProximalPolicyOptimization(config)
    old = [life_parts(agent, experience, life)[0] for life in range(P)]
    prepared = loss.prepare(agent, experience)
    for number, variable in enumerate(agent.policy.variables_in_order):
        variable.assign_add(0.1 * np.random.default_rng(number).standard_normal(variable.shape))

    def slow(life, weights):
        _, value, observation, (action, *_) = life_parts(agent, experience, life)
        steps, targets = (
            STEPS[life],
            [np.float64(part[life]) for part in (prepared.advantage, prepared.value_target)],
        )
        return reference.ppo_loss(
            action[steps],
            *(target[steps] for target in targets),
            (reference.mlp(old[life], observation)[steps],),
            (reference.mlp(weights, observation)[steps],),
            reference.mlp(value, observation)[steps, 0],
            config.clip,
            config.kl_coefficient,
            config.value_coefficient,
            reference.categorical_log_probability,
            reference.categorical_kl,
        )

    assert_gradients(loss, agent, prepared, slow)


def test_reinforce_with_discrete_actions_equals_the_reference(
    make_tiny, make_agent, make_experience
):
    config, agent, experience = discrete_case(
        make_tiny, make_agent, make_experience, {"kind": "reinforce"}
    )
    loss = Reinforce(config)

    def slow(life, weights):
        _, _, observation, (action, reward, terminated, truncated, _) = life_parts(
            agent, experience, life
        )
        returns = reference.discounted_returns(reward, terminated + truncated, config.discount)
        return reference.reinforce_loss(
            action[STEPS[life]],
            reference.standardised(returns)[STEPS[life]],
            (reference.mlp(weights, observation)[STEPS[life]],),
            reference.categorical_log_probability,
        )

    assert_gradients(loss, agent, loss.prepare(agent, experience), slow)


@pytest.mark.parametrize("discrete", [False, True])
def test_first_ppo_gradient_is_the_policy_gradient(tiny, make_agent, make_experience, discrete):
    """At ratio 1, where nothing is clipped and KL is flat, PPO's gradient is that of -A log pi."""
    agent = make_agent(tiny, P, O, A, discrete=discrete)
    experience = make_experience(P, N, M, O, A, discrete=discrete)
    loss, steps = ProximalPolicyOptimization(tiny.surrogate), tf.constant(STEPS)
    prepared, policy = loss.prepare(agent, experience), agent.policy.trainable_variables
    observation, action, advantage = (tf.gather(part, steps, batch_dims=1) for part in prepared[:3])
    with tf.GradientTape(persistent=True) as tape:
        ppo = loss.minibatch_loss(agent, prepared, steps)
        textbook = -tf.reduce_mean(
            advantage * agent.policy.distribution(observation).log_prob(action), axis=1
        )
    for one, other in zip(tape.gradient(ppo, policy), tape.gradient(textbook, policy), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"value_coefficient": 0.3, "gae_lambda": 0.5}])
def test_reinforce_with_values_equals_the_reference(
    make_tiny, make_agent, make_experience, changes
):
    """Targets from the values at `prepare`, errors of the values as they are."""
    experiment = make_tiny(surrogate={"kind": "reinforce_with_values", **changes})
    config, experience = experiment.surrogate, make_experience(P, N, M, O, A)
    agent, loss = make_agent(experiment, P, O, A), ReinforceWithValues(config)
    before = [life_parts(agent, experience, life)[1] for life in range(P)]
    prepared = loss.prepare(agent, experience)
    for number, variable in enumerate(agent.moved_by(False, True)):
        variable.assign_add(0.1 * np.random.default_rng(number).standard_normal(variable.shape))
    found, expected = loss.minibatch_loss(agent, prepared, tf.constant(STEPS)), []
    for life, steps in enumerate(STEPS):
        weights, value, observation, parts = life_parts(agent, experience, life)
        advantage, old_value = estimates(config, before[life], observation, parts)
        policy = reference.mlp(weights[:-1], observation)[steps], weights[-1]
        error = reference.mlp(value, observation)[steps, 0] - (advantage + old_value)[steps]
        expected.append(
            reference.reinforce_loss(
                parts[0][steps], reference.standardised(advantage)[steps], policy
            )
            + config.value_coefficient * np.mean(np.square(error))
        )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("compiled", [False, True])
def test_reinforce_equals_the_reference(make_tiny, make_agent, make_experience, discount, compiled):
    experiment = make_tiny(surrogate={"discount": discount, "kind": "reinforce"})
    agent, experience = make_agent(experiment, P, O, A), make_experience(P, N, M, O, A)
    loss = Reinforce(experiment.surrogate)
    score = both_ways(
        lambda steps: loss.minibatch_loss(agent, loss.prepare(agent, experience), steps)
    )[compiled]
    expected = []
    for life, steps in enumerate(STEPS):
        weights, _, observation, (action, reward, terminated, truncated, _) = life_parts(
            agent, experience, life
        )
        returns = reference.discounted_returns(reward, terminated + truncated, discount)
        expected.append(
            reference.reinforce_loss(
                action[steps],
                reference.standardised(returns)[steps],
                (reference.mlp(weights[:-1], observation)[steps], weights[-1]),
            )
        )
    np.testing.assert_allclose(score(tf.constant(STEPS)), expected, rtol=1e-5, atol=1e-5)
