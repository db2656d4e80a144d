"""Tests epg_tf.losses.lstm_objective and backward_lstm."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.parameters import flattened
from epg_tf.losses.backward_lstm import backward_lstm
from epg_tf.losses.lstm_objective import (
    OUTPUT_SCALE,
    LSTMObjective,
    initial_parameters,
    parameter_count,
    parameter_shapes,
)
from epg_tf.losses.objectives import Trajectories
from epg_tf.losses.settings import ObjectiveConfig
from tests import metagenrl_reference as slow

P, B, T, A = 3, 4, 6, 2
DISCOUNT = 0.9
SMALL = {"lstm_units": 4, "action_layers": 2, "action_filters": 5}


def make_objective(seed=0, dtype="float64", scale=0.5, **changes):
    """Returns an objective of P random alpha and these alpha [P, D]."""
    config = ObjectiveConfig(**{**SMALL, **changes})
    alpha = scale * np.random.default_rng(seed).standard_normal((P, parameter_count(config)))
    objective = LSTMObjective(P, config, DISCOUNT, dtype)
    objective.load(alpha)
    return objective, alpha


def make_trajectories(actions=A, dtype=np.float64):
    """Returns ragged trajectories and predicted actions."""
    seen, predicted = slow.random_trajectories(P, B, steps=T, action_size=actions, dtype=dtype)
    return Trajectories(*seen), predicted


def scores_and_slopes(objective, seen, predicted):
    """Returns scores [P, B, T], their sum's gradient by predicted actions, and by the weights, [P,
    D].
    """
    parts, predicted = list(objective.params.values()), tf.constant(predicted)
    with tf.GradientTape() as tape:
        tape.watch(predicted)
        scores = objective(Trajectories(*map(tf.constant, seen)), predicted)
        value = tf.reduce_sum(scores)
    by_predicted, *by_weights = tape.gradient(value, [predicted, *parts])
    return scores.numpy(), by_predicted.numpy(), flattened(by_weights).numpy()


def score(objective, seen, predicted):
    """Returns scores [P, B, T]."""
    return objective(Trajectories(*map(tf.constant, seen)), tf.constant(predicted)).numpy()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"time": False},
        {"value_inputs": 1},
        {"next_value": "value"},
        {"value_inputs": 0, "time": False},
        {"action_layers": 1},
        {"action_layers": 3},
        {"action_filters": 2},
        {"lstm_units": 1},
        {"bound": 0.3},
    ],
)
@pytest.mark.parametrize("actions", [1, 3, 6])
def test_scores_equal_the_reference(changes, actions):
    """Whatever the number of action dimensions, the weights are the same."""
    objective, alpha = make_objective(**changes)
    seen, predicted = make_trajectories(actions=actions)
    for run in (objective, tf.function(objective)):
        found = run(Trajectories(*map(tf.constant, seen)), tf.constant(predicted)).numpy()
        for member in range(P):
            chunks = slow.without_padding(
                seen.mask[member],
                seen.action[member],
                predicted[member],
                *(part[member] for part in seen[1:4]),
            )
            config = objective.function.config
            for chunk, expected in enumerate(
                slow.objective(alpha[member], config, DISCOUNT, T, chunks)
            ):
                np.testing.assert_allclose(
                    found[member, chunk, : len(expected)], expected, rtol=1e-6, atol=1e-9
                )
                assert not found[member, chunk, len(expected) :].any()
    assert np.std(found[seen.mask > 0]) > 1e-2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_in_the_padding_changes_no_bit(dtype):
    objective, _ = make_objective(dtype=dtype)
    seen, predicted = make_trajectories(dtype=dtype)
    there = seen.mask > 0
    *spoilt, odd = (slow.with_garbage(part, seen.mask) for part in (*seen[:4], predicted))
    healthy = scores_and_slopes(objective, seen, predicted)
    found = scores_and_slopes(objective, Trajectories(*spoilt, seen.mask), odd)
    for one, other in zip(healthy, found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not found[0][~there].any() and not found[1][~there].any()
    assert (np.abs(found[1]).max(axis=3)[there] > 0).all()


@pytest.mark.parametrize(
    ("values", "sees"), [(0, []), (1, ["value"]), (2, ["value", "next_value"])]
)
def test_undeclared_values_change_no_bit(values, sees):
    objective, _ = make_objective(value_inputs=values)
    seen, predicted = make_trajectories()
    before, generator = score(objective, seen, predicted), np.random.default_rng(7)
    for field in ("value", "next_value"):
        other = (
            generator.standard_normal(seen.mask.shape)
            if field in sees
            else np.full(seen.mask.shape, np.nan)
        )
        after = score(objective, seen._replace(**{field: other}), predicted)
        assert (
            (after != before)[seen.mask > 0].all()
            if field in sees
            else after.tobytes() == before.tobytes()
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_agent_never_depends_on_another(dtype):
    objective, alpha = make_objective(dtype=dtype)
    seen, predicted = make_trajectories(dtype=dtype)
    healthy = scores_and_slopes(objective, seen, predicted)
    for part in (*seen[:4], predicted, alpha):
        part[1] = np.nan
    objective.load(alpha)
    for one, other in zip(healthy, scores_and_slopes(objective, seen, predicted), strict=True):
        assert one[[0, 2]].tobytes() == other[[0, 2]].tobytes() and np.isnan(other[1]).any()


def test_initial_parameters():
    """Kernels of deviation 1 / sqrt(fan-in), a fresh objective that says little, forget gates that
    remember.
    """
    config = ObjectiveConfig()
    parameters = initial_parameters(np.random.default_rng(0), config)
    assert parameters.dtype == np.float32 and parameters.shape == (parameter_count(config),)
    again, other = (initial_parameters(np.random.default_rng(seed), config) for seed in (0, 1))
    assert parameters.tobytes() == again.tobytes() != other.tobytes()
    ends = np.cumsum([math.prod(shape) for shape in parameter_shapes(config).values()])
    for (name, shape), part in zip(
        parameter_shapes(config).items(), np.split(parameters, ends[:-1]), strict=True
    ):
        if name.endswith("kernel"):
            scale = OUTPUT_SCALE if name == "output/kernel" else 1.0
            assert abs(part.std() * math.sqrt(shape[0]) / scale - 1.0) < 4 / math.sqrt(
                2 * part.size
            ), name
        else:
            expected = (
                np.repeat([0.0, 1.0, 0.0, 0.0], config.lstm_units)
                if name == "lstm/bias"
                else np.zeros(shape)
            )
            np.testing.assert_array_equal(part, expected, name)


def test_sizes_of_table_3():
    """3 layers of 32 filters on pairs; an LSTM of 32 units on reward, 2 values, time and 32
    features; one output.
    """
    assert (
        parameter_count(ObjectiveConfig())
        == (2 + 1 + 2 * (32 + 1)) * 32 + (4 + 32 + 32 + 1) * 4 * 32 + 32 + 1
    )
    assert (
        parameter_count(ObjectiveConfig(value_inputs=0, time=False))
        == parameter_count(ObjectiveConfig()) - 3 * 128
    )


WIDTH, UNITS = 4, 3


def plain_lstm(inputs, kernel, bias, mask):
    """The same network, from its definition."""
    hidden = cell = tf.zeros([P, B, UNITS], inputs.dtype)
    found = []
    for step in reversed(range(T)):
        seen = tf.concat([inputs[:, :, step], hidden], axis=-1)
        candidate, forget, take, give = tf.split(seen @ kernel + bias[:, None], 4, axis=-1)
        present = mask[:, :, step, None]
        cell = tf.sigmoid(forget) * cell + tf.sigmoid(take) * tf.tanh(candidate)
        hidden = present * tf.sigmoid(give) * tf.tanh(cell)
        cell *= present
        found.append(hidden)
    return tf.stack(found[::-1], axis=2)


def derivatives(lstm, arrays):
    """Outputs, first derivatives of a sum of squares, and those of the sum of their squares."""
    *weights, mask = map(tf.constant, arrays)
    with tf.GradientTape() as outer:
        outer.watch(weights)
        with tf.GradientTape() as inner:
            inner.watch(weights)
            outputs = lstm(*weights, mask)
            value = tf.reduce_sum(tf.square(outputs))
        slopes = inner.gradient(value, weights)
        steepness = tf.add_n([tf.reduce_sum(tf.square(slope)) for slope in slopes])
    return [outputs, *slopes, *outer.gradient(steepness, weights)]


@pytest.mark.parametrize("compiled", [False, True])
def test_outputs_and_two_derivatives_are_those_of_the_plain_network(compiled):
    generator = np.random.default_rng(0)
    shapes = (P, B, T, WIDTH), (P, WIDTH + UNITS, 4 * UNITS), (P, 4 * UNITS)
    mask = np.ones((P, B, T))
    mask[0, 1, 3:] = 0.0
    mask[1, 2, 1:] = 0.0
    arrays = [*(generator.standard_normal(shape) for shape in shapes), mask]

    def found(lstm):
        return derivatives(lstm, arrays)

    ours = (tf.function(found) if compiled else found)(backward_lstm)
    for one, other in zip(ours, found(plain_lstm), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
