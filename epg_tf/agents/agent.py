"""What P agents are made of: policy, memory, and a value network for the surrogates that need one."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from epg_tf.agents.memory import Memory
from epg_tf.agents.policies import CategoricalPolicy, GaussianPolicy
from epg_tf.agents.values import ValueNetwork
from epg_tf.core.experiment import Experiment
from epg_tf.core.parallel_layers import initial_mlp
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey


class Agent(tf.Module):
    """P agents side by side.

    Args:
      population: P.
      observation_size: O.
      action_size: A.
      discrete_actions: Whether an action is one of A choices.
      experiment: Settings.

    Attributes:
      policy: A `CategoricalPolicy` where actions are discrete, else a `GaussianPolicy`.
      memory: A `Memory`, or None without one.
      value: A `ValueNetwork`.
    """

    def __init__(
        self,
        population: int,
        observation_size: int,
        action_size: int,
        discrete_actions: bool,
        experiment: Experiment,
    ):
        super().__init__(name="agent")
        loss = experiment.loss
        kind = CategoricalPolicy if discrete_actions else GaussianPolicy
        self.policy = kind(population, observation_size, action_size, experiment.policy)
        self.memory = (
            Memory(population, loss.memory_inputs, loss.memory_units) if loss.memory_units else None
        )
        self.value = ValueNetwork(population, observation_size, experiment.surrogate.value_hidden)

    def memory_output(self) -> tf.Tensor | None:
        """Returns the memory's content [P, units], or None without a memory unit."""
        return None if self.memory is None else self.memory(None)

    def moved_by(self, learned: bool, surrogate: bool) -> list[tf.Variable]:
        """Lists the variables that a learned loss, a surrogate or their blend has a gradient for."""
        variables = list(self.policy.variables_in_order)
        if learned and self.memory is not None:
            variables += self.memory.trainable_variables
        if surrogate:
            variables += self.value.trainable_variables
        return variables

    def initialize_agents(self, keys: Sequence[LifeKey]) -> None:
        """Draws fresh weights for every agent from its own streams; memories start empty."""
        policy, value = self.policy, self.value
        policy.load([policy.initial_weights(life_generator(key, "policy")) for key in keys])
        value.load([initial_mlp(life_generator(key, "critic"), value.sizes, 1.0) for key in keys])
        if self.memory is not None:
            self.memory.kernel.assign(tf.zeros_like(self.memory.kernel))
