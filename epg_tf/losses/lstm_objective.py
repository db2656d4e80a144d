"""MetaGenRL's learned objective: an LSTM that runs backwards in time (Kirsch et al. 2019, section
3.2, Appendix B.1).

    e_t = mean over action dimensions d of conv(a_td, pi(s_t)_d)                 any number of dimensions, in any order
    h_t = LSTM(r_t, V(s_t), V(s_{t+1}), t, e_t; h_{t+1})
    L   = sum over t of bound * tanh((w h_t + b) / bound)

So a step's value depends on that step and later ones, never on earlier ones, and gradients reach
the policy through pi(s_t) alone. Where a chunk is shorter than the others the LSTM starts, from
zero, at its last step.

The paper does not say in which units rewards and values come. Here as in the authors' code each
input is standardised over an agent's batch (unlike there, without the padding), or one objective
could not serve environments whose rewards differ in scale. V(s_{t+1}) enters as the temporal
difference r + gamma V(s_{t+1}) - V(s_t): standardised by themselves, values would bury what one
action changes under what states differ in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from epg_tf.core.metagenrl_experiment import ObjectiveConfig
from epg_tf.core.parallel_layers import parallel_dense
from epg_tf.core.types import Array
from epg_tf.losses.objectives import Objective, Recipe, Trajectories, standardised

OUTPUT_SCALE = 0.01  # of a fresh objective


def parameter_shapes(config: ObjectiveConfig) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the objective's weights, in the order in which the flat vector holds
    them.
    """
    units, filters = config.lstm_units, config.action_filters
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(config.action_layers):
        shapes[f"action_{layer + 1}/kernel"] = (2 if layer == 0 else filters, filters)
        shapes[f"action_{layer + 1}/bias"] = (filters,)
    inputs = 1 + config.value_inputs + config.time + filters
    return {
        **shapes,
        "lstm/kernel": (inputs + units, 4 * units),
        "lstm/bias": (4 * units,),
        "output/kernel": (units, 1),
        "output/bias": (1,),
    }


def parameter_count(config: ObjectiveConfig) -> int:
    """Returns the number of the objective's weights."""
    return sum(int(np.prod(shape)) for shape in parameter_shapes(config).values())


def initial_parameters(generator: np.random.Generator, config: ObjectiveConfig) -> Array:
    """Draws a fresh objective, [D] float32: kernels ~ N(0, 1 / fan-in), biases 0, but 1 for the
    forget gate.

    The output kernel is `OUTPUT_SCALE` times that, so that a fresh objective says little beside
    DDPG's, which it is blended with, and learns a direction before it gets loud.
    """
    parts = []
    for name, shape in parameter_shapes(config).items():
        if name.endswith("kernel"):
            parts.append(generator.standard_normal(shape) / np.sqrt(shape[0]))
        else:
            parts.append(np.zeros(shape))
        if name == "output/kernel":
            parts[-1] *= OUTPUT_SCALE
        if name == "lstm/bias":
            parts[-1][config.lstm_units : 2 * config.lstm_units] = 1.0
    return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class LSTMRecipe(Recipe):
    """What an `LSTMObjective` is besides its weights.

    Attributes:
      config: Sizes and declared inputs.
      discount: gamma of the agents.
    """

    config: ObjectiveConfig
    discount: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the weights' parts, in the order of the flat vector."""
        return tuple(parameter_shapes(self.config))

    def objective(self, parts: Mapping[str, tf.Tensor]) -> BackwardLSTM:
        """Returns the objective with these weights; see `parameter_shapes`."""
        return BackwardLSTM(self, parts)


class LSTMObjective(tf.keras.Model, Objective):
    """P copies of the objective's network, one per agent, which in meta-training all hold the same
    weights.

    Copies, because then one backward pass gives every agent's gradient of its own, which is what
    gets clipped and sent to other processes.

    Args:
      population: P.
      config: Sizes and declared inputs.
      discount: gamma of the agents.
      dtype: Of the weights; float64 serves tests of gradients.
    """

    def __init__(
        self, population: int, config: ObjectiveConfig, discount: float, dtype: str = "float32"
    ):
        super().__init__(name="lstm_objective", dtype=dtype)
        self.recipe = LSTMRecipe(config, discount)
        self.parts = {
            name: self.add_weight(name=name, shape=(population, *shape), initializer="zeros")
            for name, shape in parameter_shapes(config).items()
        }

    def load(self, members: Array) -> None:
        """Takes every copy's weights, [P, D]."""
        sizes = [int(np.prod(variable.shape[1:])) for variable in self.parts.values()]
        for variable, part in zip(
            self.parts.values(), np.split(members, np.cumsum(sizes)[:-1], axis=1), strict=True
        ):
            variable.assign(part.reshape(variable.shape))

    def per_step(self, trajectories: Trajectories, predicted: tf.Tensor) -> tf.Tensor:
        """Scores every step, [P, B, T], within [-bound, bound]; 0 in the padding."""
        return self.recipe.objective(self.parts).per_step(trajectories, predicted)

    call = per_step


class BackwardLSTM(Objective):
    """The mathematics of an `LSTMObjective`; its weights are kept by whoever asks.

    Args:
      recipe: What it is.
      parts: Its weights.
    """

    def __init__(self, recipe: LSTMRecipe, parts: Mapping[str, tf.Tensor]):
        self.recipe, self.parts = recipe, parts
        self.config, self.discount = recipe.config, recipe.discount

    def per_step(self, trajectories: Trajectories, predicted: tf.Tensor) -> tf.Tensor:
        """Scores every step, [P, B, T], within [-bound, bound]; 0 in the padding."""
        mask = trajectories.mask
        embedded = self._embed(trajectories.action, predicted)
        inputs = tf.concat([self._scalars(trajectories), embedded], axis=-1)
        return self._outputs(self._run_backwards(inputs, mask)) * mask

    def _embed(self, action: tf.Tensor, predicted: tf.Tensor) -> tf.Tensor:
        """Maps two actions [P, B, T, A] to an embedding [P, B, T, filters]."""
        pairs = tf.stack([action, predicted], axis=-1)
        shape = tf.shape(pairs)
        hidden = tf.reshape(pairs, [shape[0], -1, 2])
        for layer in range(self.config.action_layers):
            hidden = parallel_dense(
                hidden,
                self.parts[f"action_{layer + 1}/kernel"],
                self.parts[f"action_{layer + 1}/bias"],
            )
            hidden = half_relu_half_square(hidden)
        return tf.reduce_mean(
            tf.reshape(hidden, [*tf.unstack(shape[:4]), self.config.action_filters]), axis=3
        )

    def _scalars(self, trajectories: Trajectories) -> tf.Tensor:
        """Returns the inputs other than actions, [P, B, T, 1 + value_inputs + time], in units of
        their own batch.
        """
        reward, value, next_value, mask = trajectories[1:]
        seen = (reward, value, reward + self.discount * next_value - value)
        channels = [standardised(part, mask) for part in seen[: 1 + self.config.value_inputs]]
        if self.config.time:
            steps = mask.shape[2]
            channels.append(
                tf.broadcast_to(tf.range(steps, dtype=mask.dtype) / steps, tf.shape(mask))
            )
        return tf.stack(channels, axis=-1)

    def _run_backwards(self, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Runs the LSTM over [P, B, T, I] from the last step to the first; returns hidden states
        [P, B, T, units].
        """
        units, width, steps = self.config.lstm_units, inputs.shape[-1], inputs.shape[2]
        kernel, bias = self.parts["lstm/kernel"], self.parts["lstm/bias"]
        shape = tf.shape(inputs)
        prepared = parallel_dense(
            tf.reshape(inputs, [shape[0], -1, width]), kernel[:, :width], bias
        )
        prepared = tf.unstack(tf.reshape(prepared, [shape[0], shape[1], steps, 4 * units]), axis=2)
        hidden = cell = tf.zeros([shape[0], shape[1], units], inputs.dtype)
        recurrent, outputs = kernel[:, width:], []
        for step in reversed(range(steps)):
            candidate, gates = tf.split(
                prepared[step] + tf.matmul(hidden, recurrent), [units, 3 * units], axis=-1
            )
            forget, take, give = tf.split(tf.sigmoid(gates), 3, axis=-1)
            there = mask[:, :, step, None]  # padding leaves the state at zero
            cell = (forget * cell + take * tf.tanh(candidate)) * there
            hidden = give * tf.tanh(cell) * there
            outputs.append(hidden)
        return tf.stack(outputs[::-1], axis=2)

    def _outputs(self, hidden: tf.Tensor) -> tf.Tensor:
        shape, bound = tf.shape(hidden), self.config.bound
        flat = tf.reshape(hidden, [shape[0], -1, self.config.lstm_units])
        scores = parallel_dense(flat, self.parts["output/kernel"], self.parts["output/bias"])
        return bound * tf.tanh(tf.reshape(scores, shape[:3]) / bound)


def half_relu_half_square(inputs: tf.Tensor) -> tf.Tensor:
    """Applies ReLU to the first half of the units, the square to the others (Appendix B.1)."""
    first, second = tf.split(
        inputs, [inputs.shape[-1] // 2, inputs.shape[-1] - inputs.shape[-1] // 2], axis=-1
    )
    return tf.concat([tf.nn.relu(first), tf.square(second)], axis=-1)


def stacked(parameters: Array, population: int) -> Array:
    """Repeats one objective's [D] parameters for P agents, [P, D]."""
    return np.repeat(parameters[None], population, axis=0)
