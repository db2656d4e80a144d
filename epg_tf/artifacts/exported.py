"""What was learned, for use outside this package: plain variables and functions of fixed, named
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from epg_tf.core.parameters import Params, split
from epg_tf.core.types import Array, EnvironmentSpec
from epg_tf.losses.backward_lstm import plain_backward_lstm
from epg_tf.losses.channels import CONSTANT, EFFECTS, HISTORY, MINIBATCH, Channel
from epg_tf.losses.extra_channels import GOAL_SIZE, Recorded, extra_values
from epg_tf.losses.lstm_objective import BackwardLSTM
from epg_tf.losses.objectives import Trajectories, total
from epg_tf.losses.settings import LossConfig
from epg_tf.losses.shared_conv import learned_network
from epg_tf.metagenrl.settings import MetaGenRLExperiment

Inputs = Mapping[str, tf.Tensor]

PREDICTED = "predicted_action"
_ACTIONS = ("action", PREDICTED)


def loss_inputs(channels: Sequence[Channel], config: LossConfig) -> dict[str, tf.TensorSpec]:
    """Returns name -> shape and type of what an exported loss is given, for any number P of agents.

    Recorded, policy and scored channels are [P, N, width], oldest step first, constants and effects
    [P, width], all float32; the minibatch is [P, B] int32, numbers of steps among the newest M.
    """
    specs = {}
    for channel in channels:
        steps = [] if channel.kind in (CONSTANT, EFFECTS) else [config.buffer_steps]
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


def examples(
    specs: Mapping[str, tf.TensorSpec], actions: int, update_period: int
) -> dict[str, tf.Tensor]:
    """Returns random inputs of an export, the same in every call, for three agents.

    Args:
      specs: What it is given.
      actions: Number of action dimensions, where it is free.
      update_period: Above the numbers of steps in a minibatch.
    """
    generator, found = np.random.default_rng(actions), {}
    for name, spec in specs.items():
        shape = [size or free for size, free in zip(spec.shape, (3, 4, 0, actions), strict=False)]
        values: Array = generator.standard_normal(shape)
        if spec.dtype.is_integer:
            values = generator.integers(update_period, size=shape)
        elif name == "mask":  # the last chunk is half padding
            values = np.ones(shape)
            values[:, -1, max(1, shape[2] // 2) :] = 0.0
        found[name] = tf.constant(values, spec.dtype)
    return found


class Scored(NamedTuple):
    """What agents minimise.

    Attributes:
      name: "loss" or "objective".
      params: Name -> weights [1, ...].
      scores: Function of such weights and a dict of inputs -> {name: [P], "per_step": [P, ...]}.
      specs: What it is given.
      moved: Names of the inputs that gradients are of.
    """

    name: str
    params: Mapping[str, Array]
    scores: Callable[[Params, Inputs], dict[str, tf.Tensor]]
    specs: dict[str, tf.TensorSpec]
    moved: list[str]


def scored_loss(
    phi: Array, channels: Sequence[Channel], config: LossConfig, update_period: int
) -> Scored:
    """Returns a loss of EPG; phi, [D] float32, is of the loss alone."""
    network = learned_network(channels, config, update_period)

    def scores(params: Params, inputs: Inputs) -> dict[str, tf.Tensor]:
        per_step = network.losses(params, inputs)
        return {"loss": tf.reduce_mean(per_step, axis=1), "per_step": per_step}

    moved = [channel.name for channel in channels if channel.kind not in (HISTORY, EFFECTS)]
    specs = loss_inputs(channels, config)
    return Scored("loss", split(phi[None], network.shapes), scores, specs, moved)


def further_channels(spec: EnvironmentSpec, config: LossConfig) -> Any:
    """Returns a function of what the buffer holds, by the names of `Recorded` but "turning" ->
    name -> values of the further channels of a loss, [P, N, width].
    """
    sizes = {"observation": spec.observation_size, "action": spec.action_size, "reward": 1}
    sizes |= {"ended": 1, "lived": 1, "time_in_life": 1, "goal": GOAL_SIZE}
    sizes |= {"raw_observation": spec.observation_size, "raw_reward": 1, "terminated": 1}
    specs = {
        name: tf.TensorSpec([None, config.buffer_steps, size], tf.float32, name)
        for name, size in sizes.items()
    }

    def values(inputs: Inputs) -> dict[str, tf.Tensor]:
        return extra_values(Recorded(**inputs, turning=spec.turning), config)

    return _function(values, [specs])


class _SavedLSTM(BackwardLSTM):
    """The same network with gradients that a SavedModel keeps."""

    def _states(self, params: Params, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return plain_backward_lstm(inputs, params["lstm/kernel"], params["lstm/bias"], mask)


def scored_objective(alpha: Array, experiment: MetaGenRLExperiment) -> Scored:
    """Returns an objective of MetaGenRL, differentiable in `PREDICTED` alone; alpha is [D]."""
    network = _SavedLSTM(experiment.objective, experiment.agent.discount)

    def scores(params: Params, inputs: Inputs) -> dict[str, tf.Tensor]:
        recorded = {name: tf.stop_gradient(inputs[name]) for name in Trajectories._fields}
        params = {name: tf.stop_gradient(weight) for name, weight in params.items()}
        per_step = network.per_step(params, Trajectories(**recorded), inputs[PREDICTED])
        return {"objective": total(per_step), "per_step": per_step}

    specs = objective_inputs(experiment.agent.chunk)
    return Scored("objective", split(alpha[None], network.shapes), scores, specs, [PREDICTED])


class Exported(tf.Module):
    """What was learned, shared by P agents; the numbers of an agent depend on its own row alone.

    By the name of what agents minimise, "loss" or "objective", it has a function of a dict of
    inputs -> {name: [P], "per_step": [P, ...]}.

    Args:
      description: What `describe` returns, JSON.
      start: Name -> weights of the policy that agents start from (EPG, section 4.2: PPO+I); empty
        where evolution did not move it.
      scored: What agents minimise; None where only the policy was learned.

    Attributes:
      gradients: Function of the same inputs -> gradients of each agent's by the name of the input.
      start: Name -> variable.
      params: Name -> variable.
      initial_policy: Function of nothing -> name -> weights; exported where there are some.
      describe: Function of nothing -> {"json": the description}.
    """

    def __init__(self, description: str, start: Mapping[str, Array], scored: Scored | None):
        super().__init__(name=f"learned_{scored.name}" if scored else "initial_policy")
        self.start = _variables(start)
        self.params = _variables(scored.params if scored else {})
        self.describe = _function(lambda: {"json": tf.constant(description)}, [])
        self.initial_policy = _function(self._initial_policy, [])
        self._names = ["describe"] + ["initial_policy"] * bool(start)
        if scored:
            self._add(scored)

    def _add(self, scored: Scored) -> None:
        def score(inputs: Inputs) -> dict[str, tf.Tensor]:
            return scored.scores(self.params, inputs)

        def gradients(inputs: Inputs) -> dict[str, tf.Tensor]:
            moved = {name: inputs[name] for name in scored.moved}
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(moved)
                found = tf.reduce_sum(score({**inputs, **moved})[scored.name])
            return tape.gradient(found, moved, unconnected_gradients="zero")

        setattr(self, scored.name, _function(score, [scored.specs]))
        self.gradients = _function(gradients, [scored.specs])
        self._names += [scored.name, "gradients"]

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Returns the named functions of the SavedModel."""
        return {name: getattr(self, name).get_concrete_function() for name in self._names}

    def _initial_policy(self) -> dict[str, tf.Tensor]:
        return {name: tf.identity(weight) for name, weight in self.start.items()}


def _function(function: Callable[..., Any], signature: list[Any]) -> Any:
    return tf.function(function, input_signature=signature, autograph=False)


def _variables(values: Mapping[str, Array]) -> dict[str, tf.Variable]:
    return {name: tf.Variable(value, trainable=False, name=name) for name, value in values.items()}
