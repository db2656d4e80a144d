"""Tests the product units of a learned loss, and the loss that begins as a policy gradient."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import parameter_count, split
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.initial_parameters import initial_parameters
from epg_tf.losses.product_units import bounded, product_units
from epg_tf.losses.temporal_conv import TemporalConvLoss
from tests import reference
from tests.losses.policy_gradient import assert_is_reinforce

P, O, A, M, N = 3, 4, 2, 8, 32  # noqa: E741 (the legend's letter)
STEPS = np.array([[7, 0, 3], [1, 2, 6], [5, 5, 4]], np.int32)


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


def make_loss(experiment, discrete=False, start=False):
    """Returns a loss of P fresh (or quite random) phi, and these, [P, D]."""
    channels = declared_channels(EnvironmentSpec(O, A, discrete), experiment.loss)
    loss = TemporalConvLoss(P, channels, experiment.loss, M)
    generators = [np.random.default_rng(life) for life in range(P)]
    if start:
        phi = [initial_parameters(one, channels, experiment.loss) for one in generators]
    else:
        size = parameter_count(loss.shapes)
        phi = [0.4 * one.standard_normal(size).astype(np.float32) for one in generators]
    loss.load(np.stack(phi))
    return loss, np.stack(phi)


def with_extra(experience, names, seed=4):
    """Returns the experience with random further channels, zero in the padding."""
    generator = np.random.default_rng(seed)
    lived = (np.abs(experience.observation.numpy()).sum(axis=2, keepdims=True) > 0).astype("f4")
    drawn = {name: generator.standard_normal((P, N, 1)).astype("f4") * lived for name in names}
    return experience._replace(extra={name: tf.constant(drawn[name]) for name in names})


def reference_losses(life, experiment, phi, experience, agent):
    """The losses of the newest M steps of one life, in float64."""
    config = experiment.loss
    observation, action, reward, termination, raw_action = (
        np.float64(part[life]) for part in experience[:5]
    )
    weights = [np.float64(variable[life]) for variable in agent.policy.variables_in_order]
    if len(weights) % 2:
        seen, log_std = reference.mlp(weights[:-1], observation), weights[-1]
        log_prob = [
            [
                reference.log_probability([a], [m], [d])
                for a, m, d in zip(actions, means, log_std, strict=True)
            ]
            for actions, means in zip(raw_action, seen[-M:], strict=True)
        ]
    else:
        logits, log_std = reference.mlp(weights, observation), []
        seen = reference.softmax(logits)
        log_prob = [
            [reference.categorical_log_probability(a, row)]
            for a, row in zip(raw_action, logits[-M:], strict=True)
        ]
    memory = agent.memory
    return reference.loss_network(
        np.float64(phi[life]),
        config,
        M,
        observation,
        action,
        reward[:, 0] if config.reward else None,
        termination[:, 0],
        seen,
        log_std,
        None if memory is None else reference.memory_output(np.float64(memory.kernel[life])),
        [np.float64(experience.extra[name][life]) for name in config.channels],
        np.array(log_prob),
    )


def scored(loss, agent, experience):
    """Returns the losses [P] of the minibatch."""
    return loss.minibatch_loss(agent, loss.prepare(agent, experience), tf.constant(STEPS))


@pytest.mark.parametrize(
    "changes",
    [
        {"products": 3},
        {"products": 5, "reward": True, "channels": ("future_reward", "novelty")},
        {"products": 2, "memory_units": 0, "pooling": "mean", "channels": ("time_in_life",)},
        {"products": 3, "factors": 2},
        {"products": 3, "factors": 1},
        {"products": 0, "channels": ("time_in_life", "novelty")},
    ],
)
@pytest.mark.parametrize("discrete", [False, True])
def test_values_equal_the_reference(make_tiny, make_agent, make_experience, changes, discrete):
    experiment = make_tiny(loss=changes)
    agent = make_agent(experiment, P, O, A, discrete=discrete)
    loss, phi = make_loss(experiment, discrete)
    experience = make_experience(P, N, M, O, A, discrete=discrete)
    experience = with_extra(experience, experiment.loss.channels)
    expected = [
        reference_losses(life, experiment, phi, experience, agent)[steps].mean()
        for life, steps in enumerate(STEPS)
    ]
    found = scored(loss, agent, experience).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
    assert np.std(found) > 1e-2


@pytest.mark.parametrize(
    "changes",
    [
        {"reward": True},
        {"reward": True, "factors": 2},
        {"channels": ("novelty", "future_reward")},
        {"reward": True, "channels": ("future_reward",)},  # which goes before the reward
    ],
)
@pytest.mark.parametrize("discrete", [False, True])
def test_a_fresh_loss_is_reinforce(make_tiny, make_agent, make_experience, changes, discrete):
    """Its value and its gradients of all policy weights are those of -mean(A log pi(a | s)), where
    nothing is beyond the bound; the memory gets none.
    """
    experiment = make_tiny(loss={"products": 4, "start": "policy_gradient", **changes})
    agent = make_agent(experiment, P, O, A, discrete=discrete)
    if not discrete:
        agent.policy.log_std.assign(np.linspace(-0.2, 0.8, P * A).reshape(P, A))
    loss, phi = make_loss(experiment, discrete, start=True)
    experience = make_experience(P, N, M, O, A, discrete=discrete)
    experience = with_extra(experience, experiment.loss.channels)
    name = "future_reward" if experiment.loss.channels else "reward"
    advantage = tf.gather(experience.channel(name)[:, -M:, 0], STEPS, batch_dims=1)
    observation, action = (
        tf.gather(part[:, -M:], STEPS, batch_dims=1)
        for part in (experience.observation, experience.raw_action)
    )
    parts = agent.policy.log_prob_from(
        agent.policy(observation), agent.policy.shared_output, action
    )
    assert max(np.abs(parts).max(), np.abs(advantage).max()) < 10.0
    losses, tape = assert_is_reinforce(
        lambda: scored(loss, agent, experience), agent, experience, name, STEPS
    )
    assert not tape.gradient(losses, agent.memory.kernel).numpy().any()
    slow = [
        reference_losses(life, experiment, phi, experience, agent)[steps].mean()
        for life, steps in enumerate(STEPS)
    ]
    np.testing.assert_allclose(losses, slow, rtol=1e-5, atol=1e-5)


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


def test_the_baseline_is_a_matter_of_the_context(make_tiny, make_agent, make_experience):
    """Weights of the advantage's factor on the context shift the advantage of all steps alike."""
    experiment = make_tiny(loss={"products": 2, "start": "policy_gradient", "reward": True})
    agent = make_agent(experiment, P, O, A)
    loss, _ = make_loss(experiment, start=True)
    experience = make_experience(P, N, M, O, A)
    width = sum(channel.width for channel in loss.network.channels if channel.kind != "scored")
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        kernel = loss.params["products/kernel"]
        tape.watch(kernel)
        losses = scored(loss, agent, experience)
    slope = tape.gradient(losses, kernel).numpy()[:, width : width + 5, 0]
    assert np.abs(slope).max() > 1e-2


def test_no_products_change_no_shape(make_tiny):
    """As before there were any: names and sizes of the parameters, and the declared channels."""
    config = make_tiny().loss
    channels = declared_channels(EnvironmentSpec(O, A), config)
    assert "policy_log_prob" not in [channel.name for channel in channels]
    loss = TemporalConvLoss(P, channels, config, M)
    assert [layer.name for layer in loss.layers] == [
        "convolution_1",
        "convolution_2",
        "context",
        "head",
        "output",
    ]
    assert loss.shapes["output/kernel"] == (4, 1)
    config = make_tiny(loss={"products": 3}).loss
    loss = TemporalConvLoss(P, declared_channels(EnvironmentSpec(O, A), config), config, M)
    assert [layer.name for layer in loss.layers][4:] == ["products", "output"]
    assert loss.shapes["products/kernel"] == (O + A + 1 + A + A + 3 + 5 + A, 9)
    again = TemporalConvLoss.from_config(loss.get_config())
    assert again.network == loss.network


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"products": 2}, r"config.loss.start='policy_gradient' .*config.loss.reward=True"),
        ({"reward": True}, r"config.loss.products=0 .*set at least one"),
    ],
)
def test_a_start_without_reward_or_products_is_refused(make_tiny, changes, message):
    with pytest.raises(ConfigError, match=message):
        make_tiny(loss={"start": "policy_gradient", **changes})


def test_too_few_products_are_refused(make_tiny):
    """One for each component, and one alone where an action is a choice."""
    config = make_tiny(loss={"start": "policy_gradient", "reward": True, "products": 1}).loss
    with pytest.raises(ConfigError, match=r"config.loss.products=1 is too few .* at least 2"):
        declared_channels(EnvironmentSpec(O, A), config)
    assert declared_channels(EnvironmentSpec(O, A, True), config)[-1].width == 1


def test_product_units_of_one_life_never_depend_on_another(make_tiny, make_agent, make_experience):
    experiment = make_tiny(loss={"products": 3, "channels": ("novelty",)})
    agent = make_agent(experiment, P, O, A)
    loss, _ = make_loss(experiment)
    experience = with_extra(make_experience(P, N, M, O, A), ("novelty",))
    poison = np.ones((P, 1, 1), np.float32)
    poison[1] = np.nan
    ill = experience._replace(raw_action=experience.raw_action * poison)
    one, other = (scored(loss, agent, met).numpy() for met in (experience, ill))
    assert np.isnan(other[1]) and one[[0, 2]].tobytes() == other[[0, 2]].tobytes()
