"""Tests epg_tf.core.parallel_layers: a stacked layer equals P separate ones."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.parallel_layers import (
    initial_mlp,
    parallel_convolution,
    parallel_dense,
    parallel_matmul,
    parallel_mlp,
)
from epg_tf.core.parallel_models import mlp_layers
from epg_tf.core.shapes import convolution_length
from tests import reference

P = 3


def draw(*shape, seed=0):
    """Returns standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("bias", [True, False])
def test_dense_equals_separate_keras_layers(bias):
    inputs, kernel, biases = draw(P, 7, 4), draw(P, 4, 5, seed=1), draw(P, 5, seed=2)
    found = parallel_dense(inputs, kernel, biases if bias else None)
    for member in range(P):
        layer = tf.keras.layers.Dense(5, use_bias=bias)
        layer.build((None, 4))
        layer.set_weights([kernel[member], biases[member]] if bias else [kernel[member]])
        np.testing.assert_allclose(found[member], layer(inputs[member]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernels", [1, P, 2 * P])
@pytest.mark.parametrize("known", [True, False])
def test_a_kernel_serves_members_that_follow_each_other(kernels, known):
    """As if it were repeated, in products and convolutions, also where shapes are not known."""
    inputs, kernel = draw(2 * P, 9, 4), draw(kernels, 3, 4, 5, seed=1)
    repeated = np.repeat(kernel, 2 * P // kernels, axis=0)

    def compute(inputs, kernel):
        return parallel_matmul(inputs, kernel[:, 0]), parallel_convolution(inputs, kernel, 2)

    spec = tf.TensorSpec([2 * P if known else None, 9, 4])
    function = tf.function(compute, input_signature=[spec, tf.TensorSpec(kernel.shape)])
    for found, expected in zip(function(inputs, kernel), compute(inputs, repeated), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


# Width above stride, as in tests and paper; equal; several pieces, whole and not; a rest piece;
# width below stride; a single output or two.
SHAPES = """
32 4 3, 512 8 7, 73 4 2, 20 3 3, 21 3 3, 20 6 3, 22 9 3, 20 8 2, 20 5 1, 20 7 3, 19 2 5, 20 1 4,
16 1 5, 8 8 7, 8 8 3, 9 8 1, 5 5 9
"""


@pytest.mark.parametrize("shape", [text.strip() for text in SHAPES.split(",")])
def test_convolution_equals_separate_keras_layers(shape):
    steps, width, stride = map(int, shape.split())
    channels, filters = 4, 5
    inputs, kernel = draw(P, steps, channels), draw(P, width, channels, filters, seed=1)
    compiled = steps in (32, 22, 19)  # of several pieces, with a rest, with gaps
    function = tf.function(parallel_convolution) if compiled else parallel_convolution
    found = function(tf.constant(inputs), tf.constant(kernel), stride)
    assert found.shape == (P, convolution_length(steps, width, stride), filters)
    for member in range(P):
        layer = tf.keras.layers.Conv1D(filters, width, stride, "valid", use_bias=False)
        layer.build((None, steps, channels))
        layer.set_weights([kernel[member]])
        np.testing.assert_allclose(
            found[member], layer(inputs[member : member + 1])[0], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(("steps", "width", "stride"), [(32, 4, 3), (20, 6, 3), (19, 2, 5)])
def test_convolution_gradients_equal_finite_differences(steps, width, stride):
    inputs, kernel = draw(1, steps, 2), draw(1, width, 2, 3, seed=1)
    weight = draw(convolution_length(steps, width, stride), 3, seed=2)
    with tf.GradientTape() as tape:
        variables = [tf.Variable(inputs), tf.Variable(kernel)]
        total = tf.reduce_sum(parallel_convolution(*variables, stride)[0] * weight)

    def slow(parameters):
        return np.sum(
            reference.convolution(parameters[0][0], parameters[1][0], np.zeros(3), stride) * weight
        )

    expected = reference.finite_differences(slow, [np.float64(inputs), np.float64(kernel)])
    for found, other in zip(tape.gradient(total, variables), expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-5)


def test_convolution_length_counts_outputs():
    for steps in range(1, 30):
        for width in range(1, 12):
            for stride in range(1, 12):
                starts = [s for s in range(0, steps, stride) if s + width <= steps]
                assert convolution_length(steps, width, stride) == len(starts)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_mlp_equals_separate_keras_models(activation):
    sizes = (4, 6, 5, 2)
    stacked = mlp_layers(P, sizes)
    assert [layer.name for layer in stacked] == ["hidden_1", "hidden_2", "output"]
    for number, layer in enumerate(stacked):
        layer.set_weights(
            [draw(*w.shape, seed=2 * number + k) for k, w in enumerate(layer.weights)]
        )
    weights = [(layer.kernel, layer.bias) for layer in stacked]
    inputs = draw(P, 7, 4)
    for member in range(P):
        layers = [tf.keras.layers.Dense(size, activation) for size in sizes[1:-1]] + [
            tf.keras.layers.Dense(sizes[-1])
        ]
        model = tf.keras.Sequential([tf.keras.Input((4,)), *layers])
        for number, layer in enumerate(layers):
            layer.set_weights([weight[member].numpy() for weight in weights[number]])
        found = parallel_mlp(inputs, weights, tf.keras.activations.get(activation))
        np.testing.assert_allclose(found[member], model(inputs[member]), rtol=1e-4, atol=1e-5)


def test_members_do_not_mix():
    """NaN in one member leaves every bit of the others."""
    inputs, kernel, bias = draw(P, 20, 4), draw(P, 6, 4, 5), draw(P, 5)
    spoilt, broken = inputs.copy(), kernel.copy()
    spoilt[1], broken[1] = np.nan, np.inf
    for one, other in (
        (parallel_dense(inputs, kernel[:, 0], bias), parallel_dense(spoilt, kernel[:, 0], bias)),
        (parallel_convolution(inputs, kernel, 4), parallel_convolution(spoilt, broken, 4)),
    ):
        for member in (0, 2):
            assert one[member].numpy().tobytes() == other[member].numpy().tobytes()
        assert not np.isfinite(other[1]).any()


def test_initial_mlp_matches_the_layer_and_its_scales():
    weights = initial_mlp(np.random.default_rng(0), (4, 6, 2), 0.5)
    assert [w.shape for w in weights] == [
        tuple(weight.shape[1:]) for layer in mlp_layers(1, (4, 6, 2)) for weight in layer.weights
    ]
    np.testing.assert_allclose(np.linalg.norm(weights[0], axis=0), 1.0, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(weights[2], axis=0), 0.5, rtol=1e-6)
    assert not weights[1].any() and not weights[3].any()
