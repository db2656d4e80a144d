"""What was learned, for use outside this package: plain variables and functions of fixed, named
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from epg_tf.core.loss_settings import LossConfig
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.parameters import Params, split
from epg_tf.core.types import Array
from epg_tf.losses.backward_lstm import plain_backward_lstm
from epg_tf.losses.channels import CONSTANT, HISTORY, MINIBATCH, Channel
from epg_tf.losses.lstm_objective import BackwardLSTM
from epg_tf.losses.objectives import Trajectories, total
from epg_tf.losses.shared_conv import learned_network

Inputs = Mapping[str, tf.Tensor]

PREDICTED = "predicted_action"
_ACTIONS = ("action", PREDICTED)


def loss_inputs(channels: Sequence[Channel], config: LossConfig) -> dict[str, tf.TensorSpec]:
    """Returns name -> shape and type of what an exported loss is given, for any number P of agents.

    Recorded, policy and scored channels are [P, N, width], oldest step first, constants [P,
    width], all float32; the minibatch is [P, B] int32, numbers of steps among the newest M.
    """
    specs = {}
    for channel in channels:
        steps = [] if channel.kind == CONSTANT else [config.buffer_steps]
        shape = [None, *steps, channel.width]
        specs[channel.name] = tf.TensorSpec(shape, tf.float32, channel.name)
    return specs | {MINIBATCH: tf.TensorSpec([None, None], tf.int32, MINIBATCH)}


def objective_inputs(chunk: int) -> dict[str, tf.TensorSpec]:
    """Returns name -> shape and type of what an exported objective is given.

    P agents, B chunks and A action dimensions are free; chunks have T = `chunk` steps. Actions are
    [P, B, T, A], all else is [P, B, T], all float32.
    """
    specs = {}
    for name in (*Trajectories._fields, PREDICTED):
        shape = [None, None, chunk, *[None] * (name in _ACTIONS)]
        specs[name] = tf.TensorSpec(shape, tf.float32, name)
    return specs


def loss_examples(specs: Mapping[str, tf.TensorSpec], update_period: int) -> dict[str, tf.Tensor]:
    """Returns random inputs of an exported loss, the same in every call, for three agents."""
    generator = np.random.default_rng(0)
    found: dict[str, Array] = {
        name: generator.standard_normal([3, *spec.shape[1:]])
        for name, spec in specs.items()
        if name != MINIBATCH
    }
    found[MINIBATCH] = generator.integers(update_period, size=(3, update_period))
    return {name: tf.constant(found[name], spec.dtype) for name, spec in specs.items()}


def objective_examples(specs: Mapping[str, tf.TensorSpec], actions: int) -> dict[str, tf.Tensor]:
    """Returns random inputs of an exported objective, the same in every call, for three agents.

    Actions are in [-1, 1], the rest is normal, the last chunk half padding.
    """
    generator, steps = np.random.default_rng(actions), specs["mask"].shape[2]
    found = {}
    for name, spec in specs.items():
        normal = generator.standard_normal((3, 4, steps, actions)[: len(spec.shape)])
        found[name] = np.tanh(normal) if name in _ACTIONS else normal
    found["mask"] = np.ones_like(found["mask"])
    found["mask"][:, -1, max(1, steps // 2) :] = 0.0
    return {name: tf.constant(values, tf.float32) for name, values in found.items()}


class Exported(tf.Module):
    """What was learned, shared by P agents; what an agent is told depends on its own row alone.

    This class alone is the policy that agents start from (EPG, section 4.2: PPO+I).

    Args:
      name: Of the module.
      description: What `describe` returns, JSON.
      start: Name -> weights of the policy that agents start from; empty where evolution did not
        move it.
      params: Name -> weights [1, ...] of a loss or an objective.
      specs: What it is given.
      moved: Names of the inputs that gradients are of.

    Attributes:
      score: Name of the function that agents minimise, "loss" or "objective"; empty: none. It is
        an attribute, too, a function of a dict of inputs -> {score: [P], "per_step": [P, ...]}, and
        is differentiable in the inputs that are `moved`.
      gradients: Function of the same -> gradients of each agent's score by the name of the input.
      start, params: Name -> variable.
      initial_policy: Function of nothing -> name -> weights; exported where there are some.
      describe: Function of nothing -> {"json": the description}.
    """

    score = ""

    def __init__(
        self,
        name: str,
        description: str,
        start: Mapping[str, Array],
        params: Mapping[str, Array] | None = None,
        specs: Mapping[str, tf.TensorSpec] | None = None,
        moved: Sequence[str] = (),
    ):
        super().__init__(name=name)
        self._description, self.moved = description, list(moved)
        self.start, self.params = _variables(start), _variables(params or {})
        self.describe = _function(self._describe, [])
        self.initial_policy = _function(self._initial_policy, [])
        if specs:
            setattr(self, self.score, _function(self.scores, [dict(specs)]))
            self.gradients = _function(self._gradients, [dict(specs)])

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Returns the named functions of the SavedModel."""
        names = [self.score, "gradients"] * bool(self.score) + ["describe"]
        names += ["initial_policy"] * bool(self.start)
        return {name: getattr(self, name).get_concrete_function() for name in names}

    def scores(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        """Returns the score of each agent, [P], and of each step."""
        raise NotImplementedError

    def _gradients(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        moved = {name: inputs[name] for name in self.moved}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(moved)
            found = tf.reduce_sum(self.scores({**inputs, **moved})[self.score])
        return tape.gradient(found, moved, unconnected_gradients="zero")

    def _initial_policy(self) -> dict[str, tf.Tensor]:
        return {name: tf.identity(weight) for name, weight in self.start.items()}

    def _describe(self) -> dict[str, tf.Tensor]:
        return {"json": tf.constant(self._description)}


def _function(function: Callable[..., Any], signature: list[Any]) -> Any:
    return tf.function(function, input_signature=signature, autograph=False)


def _variables(values: Mapping[str, Array]) -> dict[str, tf.Variable]:
    return {name: tf.Variable(value, trainable=False, name=name) for name, value in values.items()}


class ExportedLoss(Exported):
    """A learned loss of EPG.

    Args:
      phi: [D] float32, of the loss alone.
      channels: Declared inputs, from `declared_channels`.
      config: Sizes, slopes, pooling, reduction.
      update_period: M.
      description: As in `Exported`.
      start: As in `Exported`.
    """

    score = "loss"

    def __init__(
        self,
        phi: Array,
        channels: Sequence[Channel],
        config: LossConfig,
        update_period: int,
        description: str,
        start: Mapping[str, Array],
    ):
        network = learned_network(channels, config, update_period)
        super().__init__(
            "learned_loss",
            description,
            start,
            split(phi[None], network.shapes),
            loss_inputs(channels, config),
            [channel.name for channel in channels if channel.kind != HISTORY],
        )
        self._network = network

    def scores(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        """Returns {"loss": [P], "per_step": [P, B]}."""
        per_step = self._network.losses(self.params, inputs)
        return {"loss": self._network.reduced(per_step), "per_step": per_step}


class _SavedLSTM(BackwardLSTM):
    """The same network with gradients that a SavedModel keeps."""

    def _states(self, params: Params, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return plain_backward_lstm(inputs, params["lstm/kernel"], params["lstm/bias"], mask)


class ExportedObjective(Exported):
    """A learned objective of MetaGenRL; differentiable in `PREDICTED` alone.

    Args:
      parameters: alpha, [D] float32.
      experiment: What it was learned in.
      description: As in `Exported`.
    """

    score = "objective"

    def __init__(self, parameters: Array, experiment: MetaGenRLExperiment, description: str):
        network = _SavedLSTM(experiment.objective, experiment.agent.discount)
        super().__init__(
            "learned_objective",
            description,
            {},
            split(parameters[None], network.shapes),
            objective_inputs(experiment.agent.chunk),
            [PREDICTED],
        )
        self._network = network

    def scores(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        """Returns {"objective": [P], "per_step": [P, B, T]}."""
        recorded = {name: tf.stop_gradient(inputs[name]) for name in Trajectories._fields}
        params = {name: tf.stop_gradient(weight) for name, weight in self.params.items()}
        per_step = self._network.per_step(params, Trajectories(**recorded), inputs[PREDICTED])
        return {"objective": total(per_step), "per_step": per_step}
