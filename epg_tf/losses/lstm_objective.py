"""MetaGenRL's learned objective: an LSTM that runs backwards in time (Kirsch et al. 2019, section
3.2, Appendix B.1).

    e_t = mean over action dimensions d of conv(a_td, pi(s_t)_d)    any number of dimensions
    h_t = LSTM(r_t, V(s_t), V(s_{t+1}), t, e_t; h_{t+1})
    L   = sum over t of bound * tanh((w h_t + b) / bound)

Gradients reach the policy through pi(s_t) alone. The LSTM carries nothing from earlier steps to
later ones. Where a chunk is shorter than the others the LSTM starts, from zero, at its last step.

The paper does not say in which units rewards and values come. Here as in the authors' code each
input is standardised over an agent's batch (unlike there, without the padding), or one objective
could not serve environments whose rewards differ in scale. So a score depends, through mean and
deviation of these inputs, on all rewards and values of its batch. V(s_{t+1}) enters as the temporal
difference r + gamma V(s_{t+1}) - V(s_t) unless `next_value` says otherwise, because values hide
what one action changes under what states differ in; then both values are standardised together, as
in the authors' code.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from epg_tf.core import parameters
from epg_tf.core.parallel_layers import parallel_dense
from epg_tf.core.parallel_models import ParallelModel, layers_of
from epg_tf.core.parameters import Params
from epg_tf.core.types import Array
from epg_tf.losses.backward_lstm import backward_lstm
from epg_tf.losses.objectives import Objective, Trajectories, standardised
from epg_tf.losses.settings import ObjectiveConfig

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
    return parameters.parameter_count(parameter_shapes(config))


def initial_parameters(generator: np.random.Generator, config: ObjectiveConfig) -> Array:
    """Draws a fresh objective, [D] float32: kernels ~ N(0, 1 / fan-in), biases 0, but 1 for the
    forget gate.

    The output kernel is `OUTPUT_SCALE` times that, so that a fresh objective weighs little beside
    DDPG's, with which it is blended, and learns a direction before it grows.
    """
    params: dict[str, Array] = {}
    for name, shape in parameter_shapes(config).items():
        if name.endswith("kernel"):
            params[name] = generator.standard_normal(shape) / np.sqrt(shape[0])
        else:
            params[name] = np.zeros(shape)
    params["output/kernel"] *= OUTPUT_SCALE
    params["lstm/bias"][config.lstm_units : 2 * config.lstm_units] = 1.0
    flat: Array = np.concatenate([values.ravel() for values in params.values()])
    return flat.astype(np.float32)


@dataclasses.dataclass(frozen=True)
class BackwardLSTM(Objective):
    """The network as a pure function of (params, trajectories, predicted actions).

    Attributes:
      config: Sizes and declared inputs.
      discount: gamma of the agents.
    """

    config: ObjectiveConfig
    discount: float

    @functools.cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns name -> shape of the parameters, in the order of the flat vector."""
        return parameter_shapes(self.config)

    def per_step(
        self, params: Params, trajectories: Trajectories, predicted: tf.Tensor
    ) -> tf.Tensor:
        """Scores every step, [P, B, T], within [-bound, bound]; 0 in the padding."""
        mask = trajectories.mask
        embedded = self._embed(params, trajectories.action, predicted)
        inputs = tf.concat([self._scalars(trajectories), embedded], axis=-1)
        return self._outputs(params, self._states(params, inputs, mask)) * mask

    def _states(self, params: Params, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return backward_lstm(inputs, params["lstm/kernel"], params["lstm/bias"], mask)

    def _embed(self, params: Params, action: tf.Tensor, predicted: tf.Tensor) -> tf.Tensor:
        """Maps two actions [P, B, T, A] to an embedding [P, B, T, filters]."""
        pairs = tf.stack([action, predicted], axis=-1)
        shape = tf.shape(pairs)
        hidden = tf.reshape(pairs, [shape[0], -1, 2])
        for layer in range(self.config.action_layers):
            hidden = parallel_dense(
                hidden,
                params[f"action_{layer + 1}/kernel"],
                params[f"action_{layer + 1}/bias"],
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
        if self.config.next_value == "difference":
            difference = reward + self.discount * next_value - value
            values = [standardised(value, mask), standardised(difference, mask)]
        elif self.config.value_inputs < 2:
            values = [standardised(value, mask)]
        else:  # in the same units, so that their difference shows
            both = tf.concat([value, next_value], axis=2)
            values = tf.split(standardised(both, tf.concat([mask, mask], axis=2)), 2, axis=2)
        channels = [standardised(reward, mask), *values[: self.config.value_inputs]]
        if self.config.time:
            steps = mask.shape[2]
            channels.append(
                tf.broadcast_to(tf.range(steps, dtype=mask.dtype) / steps, tf.shape(mask))
            )
        return tf.stack(channels, axis=-1)

    def _outputs(self, params: Params, hidden: tf.Tensor) -> tf.Tensor:
        shape, bound = tf.shape(hidden), self.config.bound
        flat = tf.reshape(hidden, [shape[0], -1, self.config.lstm_units])
        scores = parallel_dense(flat, params["output/kernel"], params["output/bias"])
        return bound * tf.tanh(tf.reshape(scores, shape[:3]) / bound)


class LSTMObjective(ParallelModel):
    """P copies of the objective's network, one per agent, which in meta-training all hold the same
    weights.

    Copies, because then one backward pass gives every agent's own gradient, which is what gets
    clipped and sent to other processes. Called with trajectories and predicted actions it returns
    the scores of all steps, [P, B, T].

    Args:
      population: P.
      config: Sizes and declared inputs.
      discount: gamma of the agents.
      dtype: Of the weights; float64 serves tests of gradients.

    Attributes:
      function: The objective as a pure function.
    """

    def __init__(
        self, population: int, config: ObjectiveConfig, discount: float, dtype: str = "float32"
    ):
        super().__init__(population, "lstm_objective", dtype)
        self.function = BackwardLSTM(config, discount)
        self.stages = layers_of(population, self.function.shapes, dtype)
        self.build()

    def call(self, trajectories: Trajectories, predicted: tf.Tensor) -> tf.Tensor:
        """Scores every step, [P, B, T], within [-bound, bound]; 0 in the padding."""
        return self.function.per_step(self.params, trajectories, predicted)


def half_relu_half_square(inputs: tf.Tensor) -> tf.Tensor:
    """Applies ReLU to the first half of the units, the square to the others (Appendix B.1)."""
    first, second = tf.split(
        inputs, [inputs.shape[-1] // 2, inputs.shape[-1] - inputs.shape[-1] // 2], axis=-1
    )
    return tf.concat([tf.nn.relu(first), tf.square(second)], axis=-1)


def stacked(parameters: Array, population: int) -> Array:
    """Repeats one objective's [D] parameters for P agents, [P, D]."""
    return np.repeat(parameters[None], population, axis=0)
