"""Saves a trained agent as a TF-Agents policy: normalisation, network and standard deviation."""

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

from epg_tf.agents.distributions import diagonal_gaussian
from epg_tf.artifacts import saved_models
from epg_tf.core import files
from epg_tf.core.parallel_layers import parallel_mlp
from epg_tf.core.types import Array
from epg_tf.tasks.base import TaskFamily

MARKERS = ("policy.json",)  # of a saved policy


class TrainedPolicy(tf_policy.TFPolicy):
    """An agent that no longer learns.

    Gaussian actions are clipped to the family's bounds; discrete ones are numbers.

    Args:
      family: Where it learned.
      weights: Its policy's, in the order of `Policy.variables_in_order`, without the population
        axis.
      activation: Keras name of the activation between layers.
      shift: [O], of the normalisation of observations, (x - shift) * scale.
      scale: [O].
    """

    def __init__(
        self,
        family: TaskFamily,
        weights: Sequence[Array],
        activation: str,
        shift: Array,
        scale: Array,
    ):
        observation = tensor_spec.TensorSpec([family.observation_size], tf.float32, "observation")
        limit = np.finfo(np.float32).max
        low, high = (
            np.clip(bound, -limit, limit).astype(np.float32) for bound in family.action_bounds
        )
        action = (
            tensor_spec.BoundedTensorSpec([], tf.int32, 0, family.action_size - 1, "action")
            if family.discrete_actions
            else tensor_spec.BoundedTensorSpec(
                [family.action_size], tf.float32, low, high, "action"
            )
        )
        self._discrete = family.discrete_actions
        super().__init__(
            ts.time_step_spec(observation), action, clip=not self._discrete, name="trained_policy"
        )
        # With a population axis of length 1, as the functions of populations take them.
        self._weights = [tf.Variable(weight[None], trainable=False) for weight in weights]
        self._activation = tf.keras.activations.get(activation)
        self._shift, self._scale = (tf.Variable(part, trainable=False) for part in (shift, scale))

    def _variables(self) -> list[tf.Variable]:
        return [*self._weights, self._shift, self._scale]

    def _distribution(self, time_step: ts.TimeStep, policy_state: Any) -> policy_step.PolicyStep:
        observation = (time_step.observation - self._shift) * self._scale
        layers = self._weights if self._discrete else self._weights[:-1]
        pairs = list(zip(layers[::2], layers[1::2], strict=True))
        policy_output = parallel_mlp(observation[None], pairs, self._activation)
        if self._discrete:  # numbers, where agents have one-hot rows
            actions = tfp.distributions.Categorical(logits=policy_output[0], dtype=tf.int32)
        else:
            actions = diagonal_gaussian(policy_output, self._weights[-1])[0]
        return policy_step.PolicyStep(actions, policy_state)


def save_policy(policy: TrainedPolicy, folder: files.PathLike, facts: Mapping[str, Any]) -> None:
    """Writes a policy as `PolicySaver` does, for any batch size, and `policy.json` with where it
    came from.

    Args:
      policy: The policy.
      folder: Exists; a policy that it holds is replaced, once the new one is whole.
      facts: For policy.json.

    Raises:
      RecordError: A file cannot be written.
    """

    def write(temporary: str) -> None:
        policy_saver.PolicySaver(policy, batch_size=None).save(
            temporary, options=tf.saved_model.SaveOptions(save_debug_info=False)
        )
        files.write_json(Path(temporary) / "policy.json", facts)

    saved_models.write_saved_model(folder, write)
