"""A learned objective for use outside this package: plain variables and functions of fixed, named
inputs.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.parameters import Params, split
from epg_tf.core.types import Array
from epg_tf.losses.backward_lstm import plain_backward_lstm
from epg_tf.losses.lstm_objective import BackwardLSTM
from epg_tf.losses.objectives import Trajectories, total

Inputs = Mapping[str, tf.Tensor]

PREDICTED = "predicted_action"
_ACTIONS = ("action", PREDICTED)


def input_specs(chunk: int) -> dict[str, tf.TensorSpec]:
    """Returns name -> shape and type of what an exported objective is given.

    P agents, B chunks and A action dimensions are free; chunks have T = `chunk` steps. Actions are
    [P, B, T, A], all else is [P, B, T], all float32.
    """
    names = (*Trajectories._fields, PREDICTED)
    return {
        name: tf.TensorSpec(
            [None, None, chunk, *([None] if name in _ACTIONS else [])], tf.float32, name
        )
        for name in names
    }


class _SavedLSTM(BackwardLSTM):
    """The same network with gradients that a SavedModel keeps."""

    def _states(self, params: Params, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return plain_backward_lstm(inputs, params["lstm/kernel"], params["lstm/bias"], mask)


class ExportedObjective(tf.Module):
    """One learned objective that P agents share; each agent's depends on its own row alone.

    Args:
      parameters: alpha, [D] float32.
      experiment: What it was learned in.
      description: What `describe` returns, JSON.

    Attributes:
      objective: Function of a dict of `input_specs` -> {"objective": [P], what a policy minimises;
        "per_step": [P, B, T]}; differentiable in `PREDICTED` alone.
      gradients: Function of the same -> {`PREDICTED`: [P, B, T, A]}, gradients of each agent's
        objective.
      describe: Function of nothing -> {"json": the description}.
      params: Name -> variable [1, ...], the weights.
    """

    def __init__(self, parameters: Array, experiment: MetaGenRLExperiment, description: str):
        super().__init__(name="learned_objective")
        self._function = _SavedLSTM(experiment.objective, experiment.agent.discount)
        self._description = description
        self.params = {
            name: tf.Variable(values, trainable=False, name=name)
            for name, values in split(parameters[None], self._function.shapes).items()
        }
        specs = [input_specs(experiment.agent.chunk)]
        self.objective = tf.function(self._objective, input_signature=specs, autograph=False)
        self.gradients = tf.function(self._gradients, input_signature=specs, autograph=False)
        self.describe = tf.function(self._describe, input_signature=[], autograph=False)

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Returns the named functions of the SavedModel."""
        names = ("objective", "gradients", "describe")
        return {name: getattr(self, name).get_concrete_function() for name in names}

    def _objective(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        recorded = {name: tf.stop_gradient(inputs[name]) for name in Trajectories._fields}
        params = {name: tf.stop_gradient(weight) for name, weight in self.params.items()}
        per_step = self._function.per_step(params, Trajectories(**recorded), inputs[PREDICTED])
        return {"objective": total(per_step), "per_step": per_step}

    def _gradients(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        predicted = inputs[PREDICTED]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(predicted)
            found = tf.reduce_sum(self._objective({**inputs, PREDICTED: predicted})["objective"])
        return {PREDICTED: tape.gradient(found, predicted)}

    def _describe(self) -> dict[str, tf.Tensor]:
        return {"json": tf.constant(self._description)}
