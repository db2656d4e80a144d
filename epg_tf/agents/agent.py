"""Puts P agents together: policy, memory, and a value network for the surrogates that need one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.agents.memory import Memory
from epg_tf.agents.policies import Policy, policy_class
from epg_tf.agents.settings import PolicyConfig
from epg_tf.agents.values import ValueNetwork
from epg_tf.core.parallel_layers import initial_mlp
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, EnvironmentSpec, LifeKey


class Agent(tf.Module):
    """P agents side by side.

    Args:
      population: P.
      spec: Where the agents live.
      policy: Settings of the policy.
      memory: Ones that the memory takes as input, and its units; no unit: no memory.
      value_hidden: Units of each hidden layer of the value network.

    Attributes:
      policy: A `CategoricalPolicy` where actions are discrete, else a `GaussianPolicy` or, with
        `policy.state_dependent_std`, a `StateGaussianPolicy`.
      memory: A `Memory`, or None without one.
      value: A `ValueNetwork`.
    """

    def __init__(
        self,
        population: int,
        spec: EnvironmentSpec,
        policy: PolicyConfig,
        memory: tuple[int, int],
        value_hidden: Sequence[int],
    ):
        super().__init__(name="agent")
        self.policy: Policy = policy_class(spec, policy)(population, spec, policy)
        self.memory = Memory(population, *memory) if memory[1] else None
        self.value = ValueNetwork(population, spec, value_hidden)

    def memory_output(self) -> tf.Tensor | None:
        """Returns the memory's content [P, units], or None without a memory unit."""
        return None if self.memory is None else self.memory(None)

    def memory_norms(self) -> Array:
        """Returns the Euclidean norm of each memory's weights, [P]; NaN without a memory unit."""
        if self.memory is None:
            return np.full(self.policy.population, np.nan)
        weights = self.memory.kernel.numpy().reshape(self.policy.population, -1)
        norms: Array = np.linalg.norm(weights.astype(np.float64), axis=1)
        return norms

    def trainable_variables_of(self, learned: bool, surrogate: bool) -> list[tf.Variable]:
        """Lists the variables that a learned loss, a surrogate or their blend moves."""
        variables = list(self.policy.variables_in_order)
        if learned and self.memory is not None:
            variables += self.memory.trainable_variables
        if surrogate:
            variables += self.value.trainable_variables
        return variables

    def weights_of(self, member: int) -> Array:
        """Returns one agent's policy and memory as a row, [K] float32."""
        return np.concatenate(
            [v[member].numpy().ravel() for v in self.trainable_variables_of(True, False)]
        )

    def load_weights(self, rows: Mapping[int, Array]) -> None:
        """Gives some agents policies and memories from `weights_of`.

        Args:
          rows: Number of an agent -> [K].
        """
        start = 0
        for variable in self.trainable_variables_of(True, False) if rows else ():
            values = variable.numpy()
            end = start + values[0].size
            for member, row in rows.items():
                values[member] = row[start:end].reshape(values.shape[1:])
            variable.assign(values)
            start = end

    def initialize_agents(self, keys: Sequence[LifeKey]) -> None:
        """Draws fresh weights for every agent from its own streams; memories start empty."""
        policy = self.policy
        sizes = self.value.sizes
        policy.load_members([policy.initial_weights(life_generator(key, "policy")) for key in keys])
        self.value.load_members(
            [initial_mlp(life_generator(key, "critic"), sizes, 1.0) for key in keys]
        )
        if self.memory is not None:
            self.memory.kernel.assign(np.zeros(self.memory.kernel.shape, np.float32))
