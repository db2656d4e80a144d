"""Makes TF-Agents policies of trained agents, and saves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.policies import policy_saver, tf_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from epg_tf.agents.deterministic import policy_action
from epg_tf.agents.distributions import diagonal_gaussian
from epg_tf.agents.policy_network import policy_network
from epg_tf.artifacts import saved_models
from epg_tf.core import files
from epg_tf.core.types import Array
from epg_tf.tasks.base import TaskFamily

MARKERS = ("policy.json",)  # of a saved policy
_NEVER = -1e30  # logit of a number that a part of an action does not have


def _specs(family: TaskFamily) -> tuple[ts.TimeStep, tensor_spec.BoundedTensorSpec]:
    """Returns the specs of time steps and of actions."""
    observation = tensor_spec.TensorSpec([family.observation_size], tf.float32, "observation")
    size = family.action_size
    if family.discrete_actions:
        first, last = family.choices
        action = tensor_spec.BoundedTensorSpec(first.shape, tf.int32, first, last, "action")
    else:
        limit = np.finfo(np.float32).max
        low, high = (
            np.clip(bound, -limit, limit).astype(np.float32) for bound in family.action_bounds
        )
        action = tensor_spec.BoundedTensorSpec([size], tf.float32, low, high, "action")
    return ts.time_step_spec(observation), action


class AgentPolicy(tf_policy.TFPolicy):
    """An agent that no longer learns.

    Args:
      family: Where it learned; gives the specs of observations and actions.
      clip: Whether TF-Agents clips actions to the family's bounds.
    """

    def __init__(self, family: TaskFamily, clip: bool):
        super().__init__(*_specs(family), clip=clip, name="trained_policy")

    def act(self, observation: Array) -> Array:
        """Returns actions of the environment, drawn at random where the policy is random.

        Args:
          observation: [O], or [K, O] for K independent ones, not normalised.

        Returns:
          [A] or [K, A] float32; where actions are discrete, their numbers, int32.

        Raises:
          ValueError: It has another shape.
        """
        size = self.time_step_spec.observation.shape[0]
        seen = np.asarray(observation, np.float32)
        if seen.ndim not in (1, 2) or seen.shape[-1] != size:
            raise ValueError(
                f"observation has shape {seen.shape}; it must be [{size}] or [K, {size}]"
            )
        rows = tf.constant(np.atleast_2d(seen))
        action: Array = self.action(ts.restart(rows, len(rows))).action.numpy()
        return action if seen.ndim == 2 else action[0]


class TrainedPolicy(AgentPolicy):
    """An agent of EPG that no longer learns.

    Gaussian actions are scaled to the family's bounds; discrete ones are the environment's own
    numbers, one for each part.

    Args:
      family: Where it learned.
      weights: Its policy's, in the order of `Policy.variables_in_order`, without the population
        axis.
      activation: Keras name of the activation between layers.
      shift: [O], of the normalisation of observations, (x - shift) * scale, x in a policy's units.
      scale: [O].
      clip: Whether continuous actions are clipped to the family's bounds.
    """

    def __init__(
        self,
        family: TaskFamily,
        weights: Sequence[Array],
        activation: str,
        shift: Array,
        scale: Array,
        clip: bool = True,
    ):
        self._discrete = family.discrete_actions
        self._action_units = _float32(family.action_units)
        first, last = (numbers[..., None] for numbers in family.choices)
        self._numbers = np.arange(first.min(), last.max() + 1, dtype=np.int32)
        known = (self._numbers >= first) & (self._numbers <= last)
        # Where logits have each number of each part; behind their end those that it does not have.
        places = np.cumsum(known).reshape(known.shape) - 1
        self._places = np.where(known, places, family.action_size)
        super().__init__(family, clip=clip and not self._discrete)
        # With a population axis of length 1, as the functions of populations take them.
        self._weights = [tf.Variable(weight[None], trainable=False) for weight in weights]
        self._activation = tf.keras.activations.get(activation)
        self._observation_units = family.observation_units
        self._shift, self._scale = (
            tf.Variable(part, trainable=False, dtype=tf.float32) for part in (shift, scale)
        )

    def assign(self, weights: Sequence[Array], shift: Array, scale: Array) -> None:
        """Takes other weights and another normalisation of the same shapes."""
        values = [*(weight[None] for weight in weights), shift, scale]
        for variable, value in zip(self._variables(), values, strict=True):
            variable.assign(value)

    def _variables(self) -> list[tf.Variable]:
        return [*self._weights, self._shift, self._scale]

    def _distribution(self, time_step: ts.TimeStep, policy_state: Any) -> policy_step.PolicyStep:
        observation = _seen(time_step.observation, self._observation_units)
        observation = (observation - self._shift) * self._scale
        shared = len(self._weights) % 2  # a last array without kernel: log_std of all states
        layers = self._weights[:-1] if shared else self._weights
        pairs = list(zip(layers[::2], layers[1::2], strict=True))
        policy_output = policy_network(observation[None], pairs, self._activation)
        if self._discrete:  # numbers, where agents have one-hot rows
            logits = tf.pad(policy_output[0], [[0, 0], [0, 1]], constant_values=_NEVER)
            logits = tf.gather(logits, self._places, axis=-1)
            parts = tfp.distributions.FiniteDiscrete(self._numbers, logits=logits)
            actions = tfp.distributions.Independent(parts, self._places.ndim - 1)
        else:
            both = (policy_output, self._weights[-1]) if shared else tf.split(policy_output, 2, 2)
            if self._action_units is not None:
                middle, half = self._action_units
                both = (middle + half * both[0], both[1] + tf.math.log(half))
            actions = diagonal_gaussian(*both)[0]
        return policy_step.PolicyStep(actions, policy_state)


class TrainedDeterministicPolicy(AgentPolicy):
    """An agent of MetaGenRL that no longer learns; it acts without exploration.

    Args:
      family: Where it learned; its actions are bounded.
      weights: Its policy's, as `agents.deterministic.Weights`, without the population axis.
    """

    def __init__(self, family: TaskFamily, weights: Sequence[Array]):
        super().__init__(family, clip=True)
        self._weights = [tf.Variable(weight[None], trainable=False) for weight in weights]
        self._action_units = _float32(family.action_units)
        self._observation_units = family.observation_units

    def _variables(self) -> list[tf.Variable]:
        return self._weights

    def _distribution(self, time_step: ts.TimeStep, policy_state: Any) -> policy_step.PolicyStep:
        observation = _seen(time_step.observation, self._observation_units)
        action = policy_action(observation[None], self._weights)[0]
        if self._action_units is not None:
            middle, half = self._action_units
            action = middle + half * action
        return policy_step.PolicyStep(tfp.distributions.Deterministic(action), policy_state)


def _seen(observation: tf.Tensor, units: tuple[Array, Array] | None) -> tf.Tensor:
    """Returns observations in a policy's units."""
    return observation if units is None else (observation - units[0]) * units[1]


def _float32(units: tuple[Array, Array] | None) -> tuple[Array, Array] | None:
    return None if units is None else (units[0].astype(np.float32), units[1].astype(np.float32))


def save_policy(policy: AgentPolicy, folder: files.PathLike, facts: Mapping[str, Any]) -> None:
    """Writes a policy as `PolicySaver` does, for any batch size, and `policy.json` with where it
    came from.

    Args:
      policy: The policy.
      folder: Exists; a policy that it holds is replaced, once the new one is whole.
      facts: For policy.json, which also has the first and the last choice of discrete actions.

    Raises:
      RecordError: A file cannot be written.
    """

    actions = policy.action_spec
    if actions.dtype.is_integer:
        facts = {**facts, "choices": [actions.minimum.tolist(), actions.maximum.tolist()]}

    def write(temporary: str) -> None:
        # A policy only acts; gradients of its layers would bring objects that are not opened.
        options = tf.saved_model.SaveOptions(
            save_debug_info=False, experimental_custom_gradients=False
        )
        policy_saver.PolicySaver(policy, batch_size=None).save(temporary, options=options)
        files.write_json(Path(temporary) / "policy.json", facts)

    saved_models.write_saved_model(folder, write)
