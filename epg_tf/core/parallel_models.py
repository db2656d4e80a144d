"""Owns the variables of P networks side by side: Keras layers and the model they belong to.

Layers and models are built when they are made, since their sizes are known then. Layers only hold
weights; models compute with pure functions, which serve tensors as well as these variables.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from epg_tf.core.parameters import Params, Shapes, split
from epg_tf.core.types import Array


class ParallelLayer(tf.keras.layers.Layer):
    """The weights of P layers side by side, as attributes; all zero at first.

    Args:
      population: P.
      shapes: Name of a weight -> its shape without the population axis.
      name: Keras name.
      dtype: Of the weights.
    """

    def __init__(self, population: int, shapes: Shapes, name: str, dtype: str = "float32"):
        super().__init__(name=name, dtype=dtype)
        self.population = population
        self.shapes = dict(shapes)
        with tf.name_scope(name):
            self.build()

    def build(self, input_shape: Any = None) -> None:
        """Creates the weights; their shapes do not depend on the input's."""
        if not self.built:
            for name, shape in self.shapes.items():
                weight = self.add_weight(
                    name=name, shape=(self.population, *shape), initializer="zeros"
                )
                setattr(self, name, weight)
        super().build(input_shape)

    @property
    def params(self) -> dict[str, tf.Variable]:
        """Returns name -> [P, ...] of the weights."""
        return {name: getattr(self, name) for name in self.shapes}


def layers_of(population: int, shapes: Shapes, dtype: str = "float32") -> list[ParallelLayer]:
    """Returns the layers of weights that are named "layer/weight", in their order.

    Args:
      population: P.
      shapes: Name of a weight -> its shape without the population axis.
      dtype: Of the weights.
    """
    layers: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        layer, _, weight = name.partition("/")
        layers.setdefault(layer, {})[weight] = shape
    return [ParallelLayer(population, parts, name, dtype) for name, parts in layers.items()]


def mlp_shapes(sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the weights of a multilayer perceptron: kernels and biases of
    hidden_1, ..., output.

    Args:
      sizes: From input to output, at least two.
    """
    names = [*(f"hidden_{number}" for number in range(1, len(sizes) - 1)), "output"]
    shapes: dict[str, tuple[int, ...]] = {}
    for name, inputs, units in zip(names, sizes[:-1], sizes[1:], strict=True):
        shapes |= {f"{name}/kernel": (inputs, units), f"{name}/bias": (units,)}
    return shapes


def mlp_layers(population: int, sizes: Sequence[int]) -> list[ParallelLayer]:
    """Returns the layers of P multilayer perceptrons; arguments as in `mlp_shapes`."""
    return layers_of(population, mlp_shapes(sizes))


class ParallelModel(tf.keras.Model):
    """P networks of one kind: named layers whose weights are the params of a pure function.

    A subclass adds its layers in its constructor, in the order of the flat vector, and ends the
    constructor with `build()`.

    Args:
      population: P.
      name: Keras name.
      dtype: Of the weights.
    """

    def __init__(self, population: int, name: str, dtype: str = "float32"):
        super().__init__(name=name, dtype=dtype)
        self.population = population

    def build(self, input_shape: Any = None) -> None:
        """Marks the model as built: its layers are, whatever the inputs' shape."""
        self._build_input_shape = input_shape
        self.built = True

    @functools.cached_property
    def params(self) -> Params:
        """Returns "layer/weight" -> [P, ...], in the order of the flat vector."""
        return {
            f"{layer.name}/{name}": weight
            for layer in self.layers
            for name, weight in layer.params.items()
        }

    @functools.cached_property
    def shapes(self) -> Shapes:
        """Returns "layer/weight" -> shape without the population axis, in the same order."""
        return {name: tuple(weight.shape[1:]) for name, weight in self.params.items()}

    def load(self, flat: Array) -> None:
        """Takes the parameters of all members, [P, D].

        Raises:
          ValueError: The array has another shape.
        """
        for name, values in split(flat, self.shapes).items():
            self.params[name].assign(values)

    def load_members(self, members: Sequence[Sequence[Array]]) -> None:
        """Takes the weights of every member, each in the order of `params`."""
        for variable, values in zip(self.params.values(), zip(*members, strict=True), strict=True):
            variable.assign(np.stack(values))
