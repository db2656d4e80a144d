"""Tests epg_tf.losses.temporal_conv."""

from __future__ import annotations

import dataclasses
import io
import json

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.settings import LossConfig
from epg_tf.losses.temporal_conv import TemporalConvLoss, parameter_shapes
from tests import reference

P, O, A, M = 3, 4, 2, 8  # noqa: E741 (the legend's letter)
STEPS = np.array([[7, 0, 3], [1, 2, 6], [5, 5, 4]], np.int32)


def make_loss(experiment, seed=2, discrete=False):
    """Returns a loss of P random phi, biases included, and these phi [P, D]."""
    config = experiment.loss
    channels = declared_channels(EnvironmentSpec(O, A, discrete), config)
    loss = TemporalConvLoss(P, channels, config, M)
    phi = 0.4 * np.random.default_rng(seed).standard_normal(
        (P, parameter_count(loss.shapes))
    ).astype(np.float32)
    loss.load(phi)
    return loss, phi


def reference_losses(life, config, phi, experience, weights, memory_kernel):
    """Reference losses of the newest M steps of one life, in float64; without a log deviation, of a
    discrete policy.
    """
    observation, action, reward, termination = (np.float64(part[life]) for part in experience[:4])
    if len(weights) % 2:
        seen, log_std = reference.mlp(weights[:-1], observation), weights[-1]
    else:
        seen, log_std = reference.softmax(reference.mlp(weights, observation)), []
    memory = reference.memory_output(memory_kernel) if config.memory_units else None
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
        memory,
    )


def life_variables(agent, life):
    """Returns policy weights and memory kernel (or None) of one life in float64."""
    weights = [np.float64(variable[life]) for variable in agent.policy.variables_in_order]
    return weights, None if agent.memory is None else np.float64(agent.memory.kernel[life])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"reward": True},
        {"memory_units": 0},
        {"pooling": "mean"},
        {"buffer_steps": 29},
        {"pooling": "mean", "reward": True, "buffer_steps": 37, "leaky_slope": 0.0},
        {"widths": (2, 4), "strides": (3, 2)},
        {"widths": (8, 2), "strides": (4, 1)},
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("discrete", [False, True])
def test_forward_equals_the_reference(
    make_tiny, make_agent, make_experience, changes, compiled, discrete
):
    """A discrete policy without memory unit leaves no constant channel at all."""
    experiment = make_tiny(loss=changes)
    agent, (loss, phi) = (
        make_agent(experiment, P, O, A, discrete=discrete),
        make_loss(experiment, discrete=discrete),
    )
    experience = make_experience(P, experiment.loss.buffer_steps, M, O, A)

    def score(experience, steps):
        return loss.minibatch_loss(agent, loss.prepare(agent, experience), steps)

    found = (tf.function(score) if compiled else score)(experience, tf.constant(STEPS)).numpy()
    expected = [
        np.mean(
            reference_losses(life, experiment.loss, phi, experience, *life_variables(agent, life))[
                steps
            ]
        )
        for life, steps in enumerate(STEPS)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
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
    config = experiment.loss
    agent, (loss, phi) = (
        make_agent(experiment, P, O, A, discrete=discrete),
        make_loss(experiment, discrete=discrete),
    )
    experience = make_experience(P, config.buffer_steps, M, O, A)
    variables = agent.moved_by(True, False)
    prepared = loss.prepare(agent, experience)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(loss.minibatch_loss(agent, prepared, tf.constant(STEPS)))
    gradients = tape.gradient(total, variables)
    for life in range(P):
        weights, kernel = life_variables(agent, life)

        def mean_loss(parameters, life=life):
            weights, memory = (
                (parameters[:-1], parameters[-1]) if config.memory_units else (parameters, None)
            )
            return reference_losses(life, config, phi, experience, weights, memory)[
                STEPS[life]
            ].mean()

        parameters = weights + ([] if kernel is None else [kernel])
        for gradient, expected in zip(
            gradients, reference.finite_differences(mean_loss, parameters), strict=True
        ):
            np.testing.assert_allclose(gradient[life], expected, rtol=1e-4, atol=2e-6)
            assert np.abs(expected).max() > 1e-4


def inputs_by_name(loss, agent, experience):
    """Returns what the loss is called with, as a dict of its channels and the minibatch."""
    policy, memory = agent.policy, agent.memory_output()
    values = {
        **experience._asdict(),
        "policy_mean": policy.loss_input(experience.observation),
        "policy_probability": policy.loss_input(experience.observation),
        "policy_log_std": policy.shared_output,
        "memory": memory,
        "minibatch": tf.constant(STEPS),
    }
    return {name: values[name] for name in [c.name for c in loss.network.channels] + ["minibatch"]}


@pytest.mark.parametrize("changes", [{}, {"reward": True, "memory_units": 0}])
@pytest.mark.parametrize("discrete", [False, True])
def test_calling_the_model_equals_the_two_stages(
    make_tiny, make_agent, make_experience, changes, discrete
):
    """Values and gradients: named inputs in one go, and in two calls as in an update."""
    experiment = make_tiny(loss=changes)
    agent = make_agent(experiment, P, O, A, discrete=discrete)
    loss, _ = make_loss(experiment, discrete=discrete)
    experience = make_experience(P, 32, M, O, A)
    variables = agent.moved_by(True, False)
    found = []
    for score in (
        lambda: tf.reduce_mean(loss(inputs_by_name(loss, agent, experience)), axis=1),
        lambda: loss.minibatch_loss(agent, loss.prepare(agent, experience), tf.constant(STEPS)),
    ):
        with tf.GradientTape() as tape:
            losses = score()
        found.append([losses, *tape.gradient(losses, variables)])
    for one, other in zip(*found, strict=True):
        assert np.abs(other).max() > 1e-3
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_parameters_of_a_leading_axis_of_one_are_shared(tiny, make_agent, make_experience):
    """As an exported loss has them: the pure function is the same."""
    agent, (loss, phi) = make_agent(tiny, P, O, A), make_loss(tiny)
    loss.load(np.repeat(phi[:1], P, axis=0))
    inputs = inputs_by_name(loss, agent, make_experience(P, 32, M, O, A))
    shared = {name: values[:1] for name, values in loss.params.items()}
    np.testing.assert_allclose(loss.network.losses(shared, inputs), loss(inputs), rtol=1e-5)


def test_a_keras_user_finds_what_he_expects(tiny, make_agent, make_experience):
    """Named layers with their parameters in the summary, and a round trip through plain JSON."""
    agent, (loss, phi) = make_agent(tiny, P, O, A), make_loss(tiny)
    names = ["convolution_1", "convolution_2", "context", "head", "output"]
    assert loss.built and [layer.name for layer in loss.layers] == names
    assert loss.count_params() == P * phi.shape[1]
    text = io.StringIO()
    loss.summary(print_fn=lambda line: text.write(line + "\n"))
    for layer in loss.layers:
        (line,) = [row for row in text.getvalue().splitlines() if row.startswith(f" {layer.name} ")]
        assert line.split()[-1] == str(layer.count_params()) != "0"
    assert loss.get_layer("head").kernel.name == "head/kernel:0"
    config = json.loads(json.dumps(loss.get_config()))
    again = TemporalConvLoss.from_config(config)
    assert again.network == loss.network and hash(again.network) == hash(loss.network)
    inputs = inputs_by_name(loss, agent, make_experience(P, 32, M, O, A))
    assert not again(inputs).numpy().any()
    again.set_weights(loss.get_weights())
    assert again(inputs).numpy().tobytes() == loss(inputs).numpy().tobytes()
    np.testing.assert_array_equal(
        np.concatenate([w.reshape(P, -1) for w in again.get_weights()], axis=1), phi
    )


def test_networks_that_differ_are_not_equal(tiny):
    loss, _ = make_loss(tiny)
    other = dataclasses.replace(loss.network, update_period=M + 1)
    assert other != loss.network and dataclasses.replace(other, update_period=M) == loss.network


@pytest.mark.parametrize("discrete", [False, True])
def test_gradient_reaches_the_policy_at_old_steps(tiny, make_agent, make_experience, discrete):
    """An observation older than the newest M, seen by the convolution alone, moves the policy."""
    agent, (loss, _) = (
        make_agent(tiny, P, O, A, discrete=discrete),
        make_loss(tiny, discrete=discrete),
    )
    prepared = loss.prepare(agent, make_experience(P, 32, M, O, A))
    observation = prepared[1]
    with tf.GradientTape() as tape:
        tape.watch(observation)
        total = tf.reduce_sum(loss.minibatch_loss(agent, prepared, tf.constant(STEPS)))
    by_step = tf.norm(tape.gradient(total, observation), axis=2).numpy()
    covered = ((32 - 4) // 3) * 3 + 4  # steps that the strided first convolution meets
    assert (by_step[:, :covered] > 0).mean() > 0.9 and (by_step[:, 0] > 0).all()


def test_undeclared_reward_changes_no_bit(tiny, make_agent, make_experience):
    agent, (loss, _) = make_agent(tiny, P, O, A), make_loss(tiny)
    experience = make_experience(P, 32, M, O, A)
    odd = experience._replace(
        reward=experience.reward * np.nan, raw_reward=experience.raw_reward + 1e9
    )
    one, other = (
        loss.minibatch_loss(agent, loss.prepare(agent, e), tf.constant(STEPS))
        for e in (experience, odd)
    )
    assert np.isfinite(one).all() and one.numpy().tobytes() == other.numpy().tobytes()


def test_declared_reward_reaches_the_loss(make_tiny, make_agent, make_experience):
    experiment = make_tiny(loss={"reward": True})
    agent, (loss, _) = make_agent(experiment, P, O, A), make_loss(experiment)
    experience = make_experience(P, 32, M, O, A)
    changed = experience._replace(reward=experience.reward + 1.0)
    one, other = (
        loss.minibatch_loss(agent, loss.prepare(agent, e), tf.constant(STEPS))
        for e in (experience, changed)
    )
    assert (np.abs(one - other) > 1e-3).all()


@pytest.mark.parametrize("discrete", [False, True])
def test_one_life_never_depends_on_another(tiny, make_agent, make_experience, discrete):
    """NaN in one life's phi and buffer changes no bit of loss or gradient of the others."""
    agent, (loss, phi) = (
        make_agent(tiny, P, O, A, discrete=discrete),
        make_loss(tiny, discrete=discrete),
    )
    experience = make_experience(P, 32, M, O, A)
    poison = np.ones((P, 1, 1), np.float32)
    poison[1] = np.nan

    def measure(experience):
        with tf.GradientTape() as tape:
            losses = loss.minibatch_loss(agent, loss.prepare(agent, experience), tf.constant(STEPS))
            total = tf.reduce_sum(losses)
        return [
            losses.numpy(),
            *(g.numpy() for g in tape.gradient(total, agent.moved_by(True, False))),
        ]

    healthy = measure(experience)
    loss.load(phi * poison[:, :, 0])
    ill = measure(experience._replace(observation=experience.observation * poison))
    for one, other in zip(healthy, ill, strict=True):
        assert np.isnan(other[1]).all() and one[[0, 2]].tobytes() == other[[0, 2]].tobytes()


def test_paper_sizes_give_17285_parameters():
    """Hopper: O 11, A 3, N 512, memory 32, no reward; sizes of section 4."""
    shapes = parameter_shapes(declared_channels(EnvironmentSpec(11, 3), LossConfig()), LossConfig())
    assert parameter_count(shapes) == 17285
    assert shapes["convolution_1/kernel"] == (8, 53, 10) and shapes["context/kernel"] == (350, 32)


def test_discrete_actions_leave_out_the_log_deviation():
    """Of 3 choices: 3 channels fewer, each with 8 * 10 weights in the first convolution and 16 in
    the head.
    """
    channels = declared_channels(EnvironmentSpec(11, 3, True), LossConfig())
    assert parameter_count(parameter_shapes(channels, LossConfig())) == 17285 - 3 * 96


def test_mean_pooling_frees_phi_from_the_buffer_length():
    channels = declared_channels(EnvironmentSpec(11, 3), LossConfig(reward=True))
    counts = {
        parameter_count(parameter_shapes(channels, LossConfig(pooling="mean", buffer_steps=n)))
        for n in (64, 512, 1024)
    }
    assert len(counts) == 1
    flat = [
        parameter_count(parameter_shapes(channels, LossConfig(buffer_steps=n))) for n in (512, 1024)
    ]
    assert (
        flat[1] - flat[0] == 320 * 36 + 320
    )  # 37 more steps after the second convolution, 10 filters, 32 units
