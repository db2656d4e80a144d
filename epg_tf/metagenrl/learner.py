"""Keeps what P agents of one environment have learned, and teaches them from their replays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.agents.deterministic import ActingDeterministic, initial_weights
from epg_tf.core.metagenrl_experiment import AgentConfig, MetaConfig
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.losses.objectives import Chunks, Objective
from epg_tf.metagenrl.update import (
    AgentState,
    Learned,
    UpdateResult,
    batches_needed,
    compiled_update,
)


class ActorLearner:
    """P agents' policies, critics, targets and Adam moments, updated by one compiled function.

    Args:
      population: P.
      observation_size: O.
      action_size: A.
      agent: Settings of agents.
      objective: What the policies follow; an `LSTMObjective` can be learned.
      meta: How it is learned; None: it is frozen.

    Attributes:
      objective: As given.
      batches: K, batches of chunks that an update takes.
      state: All that is learned.
    """

    def __init__(
        self,
        population: int,
        observation_size: int,
        action_size: int,
        agent: AgentConfig,
        objective: Objective,
        meta: MetaConfig | None,
    ):
        self.objective, self.batches = objective, batches_needed(agent, meta)
        self._policy_sizes = (observation_size, *agent.hidden, action_size)
        self._critic_sizes = (observation_size + action_size, *agent.hidden, 1)
        self._update = compiled_update(agent, meta, objective.recipe)
        policy = [np.stack([part] * population) for part in self._zeros(self._policy_sizes)]
        critics = [
            np.stack([np.stack([part] * population)] * 2)
            for part in self._zeros(self._critic_sizes)
        ]
        self.state = _tensors(
            AgentState(
                Learned(*[policy] * 4), Learned(*[critics] * 4), np.zeros(population, np.float32)
            )
        )

    @staticmethod
    def _zeros(sizes: Sequence[int]) -> list[Array]:
        return [np.zeros_like(part) for part in initial_weights(np.random.default_rng(0), sizes)]

    def initialize_agents(self, ids: Sequence[int], keys: Sequence[LifeKey]) -> None:
        """Draws fresh weights for the agents `ids`, each from its own streams, and forgets their
        moments.
        """
        arrays = self.arrays()
        for agent, key in zip(ids, keys, strict=True):
            generator = life_generator(key, "critic")
            twins = [initial_weights(generator, self._critic_sizes) for _ in range(2)]
            fresh = {
                "policy": initial_weights(life_generator(key, "policy"), self._policy_sizes),
                "critics": [np.stack(pair) for pair in zip(*twins, strict=True)],
            }
            for name, array in arrays.items():
                network, *rest = name.split("/")
                if rest:
                    own = array[:, agent] if network == "critics" else array[agent]
                    own[...] = (
                        fresh[network][int(rest[1])] if rest[0] in ("weights", "target") else 0.0
                    )
            arrays["updates"][agent] = 0.0
        self.load(arrays)

    def arrays(self) -> dict[str, Array]:
        """Returns copies of everything that learning goes on from, by name, e.g.
        "policy/weights/0".
        """
        return {name: np.array(part) for name, part in _named(self.state)}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Takes what `arrays` returned."""
        names = iter([name for name, _ in _named(self.state)])
        self.state = tf.nest.map_structure(
            lambda part: tf.constant(arrays[next(names)]), self.state
        )

    def acting_policy(self) -> ActingDeterministic:
        """Returns copies of the policies, for acting."""
        return ActingDeterministic([part.numpy() for part in self.state.policy.weights])

    def update(
        self,
        chunks: Mapping[str, Array],
        smoothing: Array,
        blend: float,
        policy_rate: float,
        active: Array,
    ) -> UpdateResult:
        """Updates the agents once, critics `policy_delay` times; arguments as of `compiled_update`.

        Args:
          chunks: Fields of `Chunks`, each [K, P, B, T, ...].
          smoothing: [policy_delay, P, B, T, A].
          blend: In [0, 1].
          policy_rate: Learning rate.
          active: [P] bool.
        """
        batches = Chunks(**{name: tf.constant(values) for name, values in chunks.items()})
        scalars = [tf.constant(value, tf.float32) for value in (blend, policy_rate, active)]
        parts = {name: tf.convert_to_tensor(part) for name, part in self.objective.parts.items()}
        self.state, taught = self._update(
            self.state, parts, batches, tf.constant(smoothing), *scalars
        )
        return taught


def _named(state: AgentState) -> Iterator[tuple[str, tf.Tensor]]:
    """Yields the parts of a state with their names, in the order in which tf.nest flattens it."""
    for network in ("policy", "critics"):
        for kind in Learned._fields:
            for place, part in enumerate(getattr(getattr(state, network), kind)):
                yield f"{network}/{kind}/{place}", part
    yield "updates", state.updates


def _tensors(state: AgentState) -> AgentState:
    return tf.nest.map_structure(tf.constant, state)
