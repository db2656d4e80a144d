"""Tests the part of a loss that finds out what motors do, and the effects that it reads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import split
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.action_effects import action_effects
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.initial_parameters import initial_parameters
from epg_tf.losses.parameter_shapes import parameter_shapes
from tests.losses.learned import A, M, N, O, P, make_loss

IDENTIFYING = {"identifying": 3, "start": "identifying", "mean_limit": 0.0}


def _history(motors, steps=400, seed=0):
    """Returns observation, action, ended and lived of bodies o' = 0.9 o + motors a + noise, whose
    actions answer the observation.
    """
    draw = np.random.default_rng(seed).standard_normal
    state, answer = np.zeros((len(motors), motors.shape[2])), draw((motors.shape[2], 2))
    rows = []
    for _ in range(steps):
        action = 0.1 * state @ answer + draw((len(motors), 2))
        rows.append((state, action))
        state = 0.9 * state + np.einsum("pa,pao->po", action, motors) + 0.1 * draw(state.shape)
    observation, action = (np.stack(part, axis=1).astype("f4") for part in zip(*rows, strict=True))
    return (
        observation,
        action,
        np.zeros((len(motors), steps, 1), "f4"),
        np.ones((1, steps, 1), "f4"),
    )


def test_effects_have_the_signs_of_motors_though_the_policy_answers():
    """Reversed motors have opposite effects; what no motor moves has none."""
    motors = np.array([[[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]])
    motors = np.concatenate([motors, -motors])
    effects = action_effects(*_history(motors)).numpy().reshape(2, 2, 3)
    np.testing.assert_array_equal(np.sign(effects[:, [0, 1], [0, 1]]), [[1, -1], [-1, 1]])
    assert np.abs(effects[:, [0, 1], [0, 1]]).min() > 0.4
    assert np.abs(effects[:, [0, 1, 0, 1], [1, 0, 2, 2]]).max() < 0.1


def test_effects_are_those_of_ridge_regression():
    """A slow reference, with padding and an episode's end that count for nothing."""
    observation, action, ended, lived = _history(np.ones((1, 2, 3)), 12)
    ended[0, 7], lived[0, :4] = 1.0, 0.0
    used = [step for step in range(4, 11) if step != 7]

    def standard(values):
        return (values - values.mean(axis=0)) / values.std(axis=0)

    x = standard(np.concatenate([action[0, used], observation[0, used]], axis=1))
    y = standard(observation[0, [step + 1 for step in used]] - observation[0, used])
    ridge = np.eye(5) * (0.01 + 1 / len(used))
    expected = np.linalg.solve(x.T @ x / len(used) + ridge, x.T @ y / len(used))[:2]
    observation[0, :4] = action[0, :4] = 7.0  # nobody reads the padding
    found = action_effects(observation, action, ended, lived)
    np.testing.assert_allclose(found[0], expected.ravel(), rtol=1e-3, atol=1e-4)


def test_effects_of_a_life_do_not_depend_on_others():
    """To the bit, whatever is beside it and wherever it is; the number of lives is the same."""
    parts = _history(np.random.default_rng(1).standard_normal((4, 2, 3)), 40)
    moved = [part[[3, 1, 0]] if len(part) == 4 else part for part in parts]
    effects = action_effects(*(part[:3] for part in parts)).numpy()
    assert action_effects(*moved).numpy()[1:].tobytes() == effects[[1, 0]].tobytes()


def test_effects_of_nothing_are_zero():
    """A body that stands still, or a buffer without a second step, shows no effect."""
    observation, action, ended, lived = _history(np.ones((1, 2, 3)), 12)
    assert not np.any(action_effects(np.zeros_like(observation), action, ended, lived))
    assert not np.any(action_effects(observation, action, ended, 0.0 * lived))


@pytest.mark.parametrize("discrete", [False, True])
def test_the_floor_is_effects_times_changes_times_inputs(make_tiny, discrete):
    """Soft squares of means minus e U V^T [x; 1], with all else zero."""
    config = make_tiny(loss=IDENTIFYING)
    loss, phi = make_loss(config, discrete)
    channels = loss.network.channels
    params = {name: values.numpy() for name, values in loss.params.items()}
    for name in ("output/kernel", "output/bias"):
        loss.params[name].assign(np.zeros_like(params[name]))
    draw = np.random.default_rng(3).standard_normal
    inputs = {c.name: draw((P, N, c.width)).astype("f4") for c in channels}
    inputs |= {c.name: inputs[c.name][:, 0] for c in channels if c.kind in ("constant", "effects")}
    inputs["minibatch"] = np.array([[1, 4], [0, 7], [2, 2]])
    found = loss({name: tf.constant(values) for name, values in inputs.items()})
    outputs = inputs["policy_probability" if discrete else "policy_mean"]
    for life in range(P):
        changes, wanted = (params[f"identifying/{name}"][life] for name in ("changes", "inputs"))
        effects = inputs["action_effects"][life].reshape(A, O)
        for number, step in enumerate(inputs["minibatch"][life]):
            x = np.append(inputs["observation"][life, N - M + step], 1.0)
            lack = outputs[life, N - M + step] - effects @ changes @ wanted.T @ x
            expected = np.sum(2 * (np.sqrt(1 + lack**2) - 1))
            np.testing.assert_allclose(found[life, number], expected, rtol=1e-4)


@pytest.mark.parametrize("ranks", [2, O, O + 2])
def test_it_begins_as_a_valley_around_the_middle(make_tiny, ranks):
    """Nothing but the means counts at first, and changes that are wanted have size 1."""
    config = make_tiny(loss=IDENTIFYING | {"identifying": ranks}).loss
    channels = declared_channels(EnvironmentSpec(O, A), config)
    phi = initial_parameters(np.random.default_rng(0), channels, config)
    params = split(phi[None], parameter_shapes(channels, config))
    assert not np.any(params["output/kernel"]) and not np.any(params["identifying/inputs"])
    sizes = np.linalg.norm(params["identifying/changes"][0], axis=0)
    np.testing.assert_allclose(sizes[:O], 1.0, rtol=1e-6)
    if ranks >= O:
        np.testing.assert_array_equal(params["identifying/changes"][0, :, :O], np.eye(O))


def test_phi_does_not_grow_with_actions_and_needs_ranks(make_tiny):
    """The part has (O + O + 1) R parameters for any A."""
    config = make_tiny(loss=IDENTIFYING).loss
    for actions in (1, 8):
        shapes = parameter_shapes(declared_channels(EnvironmentSpec(O, actions), config), config)
        sizes = [np.prod(shape) for name, shape in shapes.items() if "identifying" in name]
        assert sum(sizes) == (O + O + 1) * 3
    with pytest.raises(ConfigError, match="identifying=0"):
        dataclasses.replace(config, identifying=0).check()


def test_a_keras_loss_has_the_parameters_of_its_network(make_tiny):
    """The same by name and shape, in order."""
    loss, _ = make_loss(make_tiny(loss=IDENTIFYING))
    assert list(loss.shapes.items()) == list(loss.network.shapes.items())
