"""Tests epg_tf.losses.objectives, lstm_objective and backward_lstm."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.losses.backward_lstm import backward_lstm
from epg_tf.losses.lstm_objective import (
    OUTPUT_SCALE,
    LSTMObjective,
    initial_parameters,
    parameter_count,
    parameter_shapes,
)
from epg_tf.losses.objectives import OffPolicyReinforce, Trajectories, standardised, total
from epg_tf.losses.settings import ObjectiveConfig
from tests import metagenrl_reference as slow
from tests import reference

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
    """Returns scores [P, B, T], their sum's gradient by predicted actions, and by each weight."""
    params, predicted = objective.params, tf.constant(predicted)
    parts = list(params.values())
    with tf.GradientTape() as tape:
        tape.watch(predicted)
        seen = Trajectories(*map(tf.constant, seen))
        scores = objective.function.per_step(params, seen, predicted)
        value = tf.reduce_sum(scores)
    by_predicted, *by_weights = tape.gradient(value, [predicted, *parts])
    return scores.numpy(), by_predicted.numpy(), *(part.numpy() for part in by_weights)


@pytest.mark.parametrize(
    ("changes", "actions"),
    [
        *(({}, actions) for actions in (1, 3, 6)),
        ({"time": False}, 3),
        ({"value_inputs": 1}, 3),
        ({"next_value": "value"}, 3),
        ({"next_value": "value", "value_inputs": 1}, 3),
        ({"value_inputs": 0, "time": False}, 1),
        ({"action_layers": 1, "lstm_units": 1}, 3),
        ({"action_layers": 3, "action_filters": 2}, 6),
        ({"bound": 0.3}, 3),
    ],
)
def test_scores_equal_the_reference(changes, actions):
    """Whatever the number of action dimensions, the weights are the same."""
    objective, alpha = make_objective(**changes)
    seen, predicted = make_trajectories(actions=actions)
    for run in (objective,) if changes else (objective, tf.function(objective)):
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


KINDS = {
    "lstm": lambda: make_objective(dtype="float32")[0],
    "reinforce": lambda: OffPolicyReinforce(0.99, 0.97),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_the_padding_changes_no_bit(kind):
    objective = KINDS[kind]()
    seen, predicted = make_trajectories(dtype=np.float32)
    there = seen.mask > 0
    *spoilt, odd = (slow.with_garbage(part, seen.mask) for part in (*seen[:4], predicted))
    healthy = scores_and_slopes(objective, seen, predicted)
    found = scores_and_slopes(objective, Trajectories(*spoilt, seen.mask), odd)
    for one, other in zip(healthy, found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not found[0][~there].any() and not found[1][~there].any()
    assert (np.abs(found[1]).max(axis=3)[there] > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_one_agent_never_depends_on_another(kind):
    objective = KINDS[kind]()
    seen, predicted = make_trajectories(dtype=np.float32)
    healthy = scores_and_slopes(objective, seen, predicted)
    for part in (*seen[:4], predicted):
        part[1] = np.nan
    for weight in objective.params.values():
        weight[1].assign(np.nan * weight[1])
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


def reference_advantages(seen, member, discount, gae_lambda):
    """Advantages of one agent's chunks, each estimated alone, standardised over all steps."""
    raw = []
    for reward, value, following in slow.without_padding(
        seen.mask[member], *(part[member] for part in seen[1:4])
    ):
        cut = np.zeros(len(reward))
        cut[-1] = 1.0
        raw.append(reference.gae(reward, value, following, 0.0 * cut, cut, discount, gae_lambda))
    mean, deviation = np.concatenate(raw).mean(), np.concatenate(raw).std()
    return [(part - mean) / deviation for part in raw]


@pytest.mark.parametrize(
    ("discount", "gae_lambda"), [(0.99, 0.97), (0.9, 0.0), (0.9, 1.0), (0.0, 0.9), (1.0, 1.0)]
)
def test_off_policy_reinforce_equals_the_reference(discount, gae_lambda):
    objective, (seen, predicted) = OffPolicyReinforce(discount, gae_lambda), make_trajectories()
    for run in (objective.per_step, tf.function(objective.per_step))[: 1 + (discount == 0.99)]:
        found = run({}, Trajectories(*map(tf.constant, seen)), tf.constant(predicted)).numpy()
        for member in range(P):
            for chunk, expected in enumerate(
                reference_advantages(seen, member, discount, gae_lambda)
            ):
                for step in range(T):
                    distance = sum(
                        (a - p) ** 2
                        for a, p in zip(
                            seen.action[member, chunk, step],
                            predicted[member, chunk, step],
                            strict=True,
                        )
                    )
                    score = expected[step] * distance / 2 if step < len(expected) else 0.0
                    assert found[member, chunk, step] == pytest.approx(score, rel=1e-6, abs=1e-9)


def test_a_time_limit_bootstraps_and_a_termination_does_not():
    """gamma 0.5, V = 0: of two single steps with reward 1, one is worth 1 + 0.5 * 4 = 3, one 1;
    standardised 1, -1.
    """
    zero, one = np.zeros((1, 2, 1)), np.ones((1, 2, 1))
    action = np.array([[[[0.6]], [[0.6]]]])
    seen = Trajectories(action, one, zero, np.array([[[4.0], [0.0]]]), one)
    scores = OffPolicyReinforce(0.5, 0.97).per_step(
        {}, Trajectories(*map(tf.constant, seen)), tf.constant(action - 0.4)
    )
    np.testing.assert_allclose(scores, [[[0.08], [-0.08]]], rtol=1e-6)


@pytest.mark.parametrize("constant", [0.0, 1.0, -0.1, 5.3])
def test_what_does_not_vary_is_standardised_to_zero(constant):
    """As the rewards of an environment that pays the same for every step."""
    values = tf.fill([1, 100, 20], constant)
    np.testing.assert_allclose(
        standardised(values, tf.ones_like(values)), np.zeros(values.shape), atol=0.0
    )


def test_total_sums_over_steps_and_averages_over_chunks():
    per_step = tf.constant(
        [[[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]]
    )
    np.testing.assert_array_equal(total(per_step), [5.0, -0.5])


def test_an_objective_without_parameters_is_its_own_model():
    objective = OffPolicyReinforce(0.99, 0.97)
    assert objective.function is objective and not objective.params and not objective.shapes
    assert hash(objective) == hash(OffPolicyReinforce(0.99, 0.97))
    assert objective != OffPolicyReinforce(0.99, 0.9)
