"""Keeps what P agents of one environment have learned, and updates them from their replays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.agents.acting import ActingDeterministic
from epg_tf.agents.deterministic import initial_weights, weight_shapes
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, EnvironmentSpec, LifeKey
from epg_tf.losses.objectives import Chunks, ObjectiveModel
from epg_tf.metagenrl.settings import AgentConfig, MetaConfig
from epg_tf.metagenrl.update import (
    AgentState,
    Learned,
    UpdateInputs,
    UpdateResult,
    batches_needed,
    compiled_update,
    network_sizes,
)

# Field of `AgentState` -> its name in checkpoints. Those of the critics changed with their axes:
# "critics" held [2, P, ...], which for two agents has the shape of [P, 2, ...].
_SAVED_AS = {"policy": "policy", "critics": "twin_critics"}

# One hidden layer's outputs for the agents of a call (bytes). Larger ones fall out of the cache:
# ten agents of the paper's size in one call took 1.2 to 1.5 times as long as one by one.
_LAYER_BYTES = 4 * 2**20


def agents_at_once(population: int, agent: AgentConfig) -> int:
    """Returns how many agents one call updates; it depends on settings alone, as results do."""
    one = 4 * agent.batch * agent.chunk * max(agent.hidden)
    return max(1, min(population, _LAYER_BYTES // one))


class PopulationLearner:
    """P agents' policies, critics, targets and Adam moments, updated by one compiled function.

    Args:
      population: P.
      spec: Where the agents live.
      agent: Settings of agents.
      objective: What the policies minimise; an `LSTMObjective` can be learned. None: they follow
        DDPG's gradient.
      meta: How it is learned; None: it is frozen.

    Attributes:
      objective: As given.
      batches: K, batches of chunks that an update takes.
    """

    def __init__(
        self,
        population: int,
        spec: EnvironmentSpec,
        agent: AgentConfig,
        objective: ObjectiveModel | None,
        meta: MetaConfig | None,
    ):
        self.objective = objective
        self.batches = batches_needed(agent, meta)
        self._sizes = network_sizes(spec.observation_size, spec.action_size, agent)
        function = objective.function if objective else None
        self._update = compiled_update(agent, meta, function)
        step = agents_at_once(population, agent)
        self._groups = [
            slice(first, min(first + step, population)) for first in range(0, population, step)
        ]
        self._states: list[AgentState] = []
        self.load({name: np.zeros(shape, np.float32) for name, shape in self._shapes(population)})

    def _shapes(self, population: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yields the names of `arrays` with their shapes."""
        for network, saved_as in _SAVED_AS.items():
            shapes = weight_shapes(getattr(self._sizes, network))
            twins = (2,) if network == "critics" else ()
            for kind in Learned._fields:
                for place, shape in enumerate(shapes):
                    yield f"{saved_as}/{kind}/{place}", (population, *twins, *shape)
        yield "updates", (population,)

    def initialize_agents(self, ids: Iterable[int], keys: Sequence[LifeKey]) -> None:
        """Draws fresh weights for the agents `ids`, each from its own streams, and sets their
        moments to zero.
        """
        arrays = self.arrays()
        for agent, key in zip(ids, keys, strict=True):
            generator = life_generator(key, "critic")
            twins = [initial_weights(generator, self._sizes.critics) for _ in range(2)]
            fresh = {
                _SAVED_AS["policy"]: initial_weights(
                    life_generator(key, "policy"), self._sizes.policy
                ),
                _SAVED_AS["critics"]: [np.stack(pair) for pair in zip(*twins, strict=True)],
            }
            for network, weights in fresh.items():
                for place, weight in enumerate(weights):
                    for kind in Learned._fields:
                        drawn = kind in ("weights", "target")
                        arrays[f"{network}/{kind}/{place}"][agent] = weight if drawn else 0.0
            arrays["updates"][agent] = 0.0
        self.load(arrays)

    def arrays(self) -> dict[str, Array]:
        """Returns copies of everything that later updates depend on, by name, e.g.
        "policy/weights/0"; the first axis is the agents'.
        """
        found: dict[str, Array] = {}
        for network, saved_as in _SAVED_AS.items():
            for kind in Learned._fields:
                for place, part in enumerate(self._parts(network, kind)):
                    found[f"{saved_as}/{kind}/{place}"] = np.array(part)
        return {**found, "updates": np.concatenate([state.updates for state in self._states])}

    def _parts(self, network: str, kind: str) -> list[Array]:
        """Returns one kind of a network's vectors as `Weights`, of all agents."""
        flat = np.concatenate([getattr(getattr(s, network), kind) for s in self._states])
        shapes = weight_shapes(getattr(self._sizes, network))
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        return [
            part.reshape(*flat.shape[:-1], *shape)
            for part, shape in zip(np.split(flat, ends, axis=-1), shapes, strict=True)
        ]

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Takes what `arrays` returned."""
        flat = {
            network: Learned(*(_joined(arrays, f"{saved_as}/{kind}") for kind in Learned._fields))
            for network, saved_as in _SAVED_AS.items()
        }
        whole = AgentState(**flat, updates=arrays["updates"])
        self._states = [
            tf.nest.map_structure(lambda part, own=group: tf.constant(part[own]), whole)
            for group in self._groups
        ]

    def policy_weights(self) -> list[Array]:
        """Returns copies of the policies' weights, as `agents.deterministic.Weights`."""
        return self._parts("policy", "weights")

    def acting_policy(self) -> ActingDeterministic:
        """Returns copies of the policies, for acting."""
        return ActingDeterministic(self.policy_weights())

    def update(
        self,
        chunks: Mapping[str, Array],
        target_noise: Array,
        blend: float,
        policy_rate: float,
        active: Array,
    ) -> UpdateResult:
        """Updates the agents once, critics `policy_delay` times; arguments as in `UpdateInputs`.

        Args:
          chunks: Fields of `Chunks`, each [K, P, B, T, ...].
          target_noise: [policy_delay, P, B, T, A].
          blend: In [0, 1].
          policy_rate: Learning rate.
          active: [P] bool.

        Returns:
          Arrays.
        """
        results = []
        own = self.objective.params if self.objective else {}
        params = {name: tf.convert_to_tensor(part) for name, part in own.items()}
        # Arrays, because TensorFlow keeps every Python number that it has ever seen.
        share, rate = (tf.constant(np.array(n, np.float32)) for n in (blend, policy_rate))
        for place, group in enumerate(self._groups):
            inputs = UpdateInputs(
                Chunks(**{name: tf.constant(part[:, group]) for name, part in chunks.items()}),
                tf.constant(target_noise[:, group]),
                share,
                rate,
                tf.constant(active[group].astype(np.float32)),
            )
            mine = params if len(self._groups) == 1 else {n: p[group] for n, p in params.items()}
            self._states[place], result = self._update(self._states[place], mine, inputs)
            results.append(result)
        return UpdateResult(*(np.concatenate(parts) for parts in zip(*results, strict=True)))


def _joined(arrays: Mapping[str, Array], prefix: str) -> Array:
    """Returns weights of P networks side by side, from `arrays` named prefix/0, prefix/1, ..."""
    names = [name for name in arrays if name.startswith(f"{prefix}/")]
    names.sort(key=lambda name: int(name.removeprefix(f"{prefix}/")))
    leading = arrays[names[-1]].shape[:-1]  # the last part is a bias
    return np.concatenate([arrays[name].reshape(*leading, -1) for name in names], axis=-1)
