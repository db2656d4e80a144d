"""Tests epg_tf.core.parallel_models, and that every model of the package is what Keras expects."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents.memory import Memory
from epg_tf.agents.policies import CategoricalPolicy, GaussianPolicy, StateGaussianPolicy
from epg_tf.agents.settings import PolicyConfig
from epg_tf.agents.values import ValueNetwork
from epg_tf.core.parallel_models import ParallelModel, layers_of
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.lstm_objective import LSTMObjective
from epg_tf.losses.settings import LossConfig, ObjectiveConfig
from epg_tf.losses.shared_conv import SharedConvLoss
from epg_tf.losses.temporal_conv import TemporalConvLoss

P = 3
SPEC = EnvironmentSpec(4, 2)
TINY = LossConfig(
    buffer_steps=16,
    widths=(4, 2),
    strides=(3, 2),
    filters=(3, 3),
    context=5,
    head=4,
    memory_units=3,
)
SHARED = dataclasses.replace(TINY, shared_over_actions=True, products=2)
MODELS = {
    "temporal_conv": lambda: TemporalConvLoss(P, declared_channels(SPEC, TINY), TINY, 8),
    "shared_conv": lambda: SharedConvLoss(P, declared_channels(SPEC, SHARED), SHARED, 8),
    "lstm_objective": lambda: LSTMObjective(P, ObjectiveConfig(4, 2, 6), 0.9),
    "gaussian_policy": lambda: GaussianPolicy(P, SPEC, PolicyConfig(hidden=(7, 6))),
    "state_gaussian_policy": lambda: StateGaussianPolicy(
        P, SPEC, PolicyConfig(hidden=(7, 6), state_dependent_std=True)
    ),
    "categorical_policy": lambda: CategoricalPolicy(
        P, EnvironmentSpec(4, 3, True), PolicyConfig(hidden=(7,), activation="relu")
    ),
    "value_network": lambda: ValueNetwork(P, SPEC, (6, 5)),
    "memory": lambda: Memory(P, 4, 3),
}
CONVOLUTIONS = "convolution_1 convolution_2 context head"
LAYERS = {
    "temporal_conv": f"{CONVOLUTIONS} output",
    "shared_conv": f"{CONVOLUTIONS} products output features",
    "lstm_objective": "action_1 action_2 lstm output",
    "gaussian_policy": "hidden_1 hidden_2 output log_std",
    "state_gaussian_policy": "hidden_1 hidden_2 output",
    "categorical_policy": "hidden_1 output",
    "value_network": "hidden_1 hidden_2 output",
    "memory": "fed_with_ones",
}


def draw(*shape, seed=0):
    """Returns standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def arguments(model):
    """Returns random inputs for a call."""
    if isinstance(model, TemporalConvLoss):
        specs = {c.name: (P, c.width) for c in model.network.channels if c.kind == "constant"}
        specs |= {c.name: (P, 16, c.width) for c in model.network.channels if c.kind != "constant"}
        inputs = {name: tf.constant(draw(*shape)) for name, shape in specs.items()}
        return [inputs | {"minibatch": tf.constant([[0, 7], [3, 3], [5, 1]], tf.int32)}]
    if isinstance(model, LSTMObjective):
        from epg_tf.losses.objectives import Trajectories
        from tests import metagenrl_reference as slow

        seen, predicted = slow.random_trajectories(P, 4, steps=5, action_size=2, dtype=np.float32)
        return [Trajectories(*map(tf.constant, seen)), tf.constant(predicted)]
    return [None] if isinstance(model, Memory) else [tf.constant(draw(P, 5, 4))]


def test_every_model_is_on_the_list():
    """A new network is added to `MODELS`."""

    def below(kind):
        return {kind} | {kind for child in kind.__subclasses__() for kind in below(child)}

    made = {type(make()) for make in MODELS.values()}
    concrete = {k for k in below(ParallelModel) if not getattr(k, "__abstractmethods__", None)}
    assert {k for k in concrete if k.__module__.startswith("epg_tf")} - {ParallelModel} == made


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_summary_lists_named_layers_with_their_parameters(name):
    model = MODELS[name]()
    assert model.built and [layer.name for layer in model.layers] == LAYERS[name].split()
    lines: list[str] = []
    model.summary(print_fn=lines.append)
    rows = "\n".join(lines).splitlines()
    for layer in model.layers:
        (row,) = [row for row in rows if row.startswith(f" {layer.name} ")]
        assert row.split()[-1] == str(layer.count_params()) != "0"
    assert model.count_params() == P * parameter_count(model.shapes)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_of_the_same_weights_are_the_same(name):
    """The outputs are the same to the bit, and nearly so when compiled."""
    model = MODELS[name]()
    for number, variable in enumerate(model.params.values()):
        variable.assign(0.5 * draw(*variable.shape, seed=number))
    again, given = MODELS[name](), arguments(model)
    assert model(*given).numpy().any()
    assert (again(*given).numpy() != model(*given).numpy()).any()
    again.set_weights(model.get_weights())
    assert again(*given).numpy().tobytes() == model(*given).numpy().tobytes()
    compiled = tf.function(lambda: model(*given))().numpy()
    np.testing.assert_allclose(compiled, model(*given), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_parameters_are_loaded_in_the_order_of_the_layers(name):
    model = MODELS[name]()
    size = parameter_count(model.shapes)
    flat = draw(P, size)
    model.load(flat)
    found = [values.numpy().reshape(P, -1) for values in model.params.values()]
    np.testing.assert_array_equal(np.concatenate(found, axis=1), flat)
    assert [key.split("/")[0] for key in model.params] == [
        layer.name for layer in model.layers for _ in layer.weights
    ]
    with pytest.raises(ValueError):
        model.load(draw(P, size + 1))


def test_layers_hold_weights_in_the_order_of_their_names():
    """Also without a bias, and in double precision."""
    shapes = {"b/kernel": (4, 3), "b/bias": (3,), "a/value": (2,)}
    layers = layers_of(P, shapes, "float64")
    assert [layer.name for layer in layers] == ["b", "a"]
    weights = [weight for layer in layers for weight in layer.weights]
    assert [weight.name for weight in weights] == [f"{name}:0" for name in shapes]
    assert [weight.shape for weight in weights] == [(P, *shape) for shape in shapes.values()]
    assert {weight.dtype for weight in weights} == {tf.float64}
    assert [layer.params.keys() for layer in layers] == [{"kernel", "bias"}, {"value"}]
    assert layers[0].kernel is weights[0] and not any(weight.numpy().any() for weight in weights)
