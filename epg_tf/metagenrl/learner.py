"""Keeps what P agents of one environment have learned, and updates them from their replays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.agents.acting import ActingDeterministic
from epg_tf.agents.deterministic import initial_weights
from epg_tf.core.errors import VersionError
from epg_tf.core.metagenrl_experiment import AgentConfig, MetaConfig
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, EnvironmentSpec, LifeKey
from epg_tf.losses.objectives import Chunks, ObjectiveModel
from epg_tf.metagenrl.update import (
    AgentState,
    Learned,
    UpdateInputs,
    UpdateResult,
    batches_needed,
    compiled_update,
)

# Field of `AgentState` -> its name in checkpoints. Those of the critics changed with their axes:
# "critics" held [2, P, ...], which for two agents has the shape of [P, 2, ...].
_SAVED_AS = {"policy": "policy", "critics": "twin_critics"}


class PopulationLearner:
    """P agents' policies, critics, targets and Adam moments, updated by one compiled function.

    Args:
      population: P.
      spec: Where the agents live.
      agent: Settings of agents.
      objective: What the policies minimise; an `LSTMObjective` can be learned.
      meta: How it is learned; None: it is frozen.

    Attributes:
      objective: As given.
      batches: K, batches of chunks that an update takes.
      state: All that is learned.
    """

    def __init__(
        self,
        population: int,
        spec: EnvironmentSpec,
        agent: AgentConfig,
        objective: ObjectiveModel,
        meta: MetaConfig | None,
    ):
        self.objective = objective
        self.batches = batches_needed(agent, meta)
        self._policy_sizes = (spec.observation_size, *agent.hidden, spec.action_size)
        self._critic_sizes = (spec.observation_size + spec.action_size, *agent.hidden, 1)
        self._update = compiled_update(agent, meta, objective.function)
        policy = _zeros(self._policy_sizes, (population,))
        critics = _zeros(self._critic_sizes, (population, 2))
        self.state = AgentState(
            Learned(*[policy] * 4), Learned(*[critics] * 4), tf.zeros([population])
        )

    def initialize_agents(self, ids: Iterable[int], keys: Sequence[LifeKey]) -> None:
        """Draws fresh weights for the agents `ids`, each from its own streams, and sets their
        moments to zero.
        """
        arrays = self.arrays()
        for agent, key in zip(ids, keys, strict=True):
            generator = life_generator(key, "critic")
            twins = [initial_weights(generator, self._critic_sizes) for _ in range(2)]
            fresh = {
                _SAVED_AS["policy"]: initial_weights(
                    life_generator(key, "policy"), self._policy_sizes
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
        return {name: np.array(part) for name, part in _named(self.state)}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Takes what `arrays` returned.

        Raises:
          VersionError: An array is missing or has another shape, as in checkpoints of versions
            whose twin critics had the axes [2, P, ...].
        """
        names = []
        for name, part in _named(self.state):
            if name not in arrays:
                raise VersionError(
                    f"agents' array {name} is missing, so another version of epg_tf wrote them; "
                    f"begin a new run"
                )
            if arrays[name].shape != tuple(part.shape):
                raise VersionError(
                    f"agents' array {name} has shape {arrays[name].shape} instead of "
                    f"{tuple(part.shape)}, so it belongs to other agents; begin a new run"
                )
            names.append(name)
        self.state = tf.nest.pack_sequence_as(
            self.state, [tf.constant(arrays[name]) for name in names]
        )

    def policy_weights(self) -> list[Array]:
        """Returns copies of the policies' weights, as `agents.deterministic.Weights`."""
        return [weight.numpy() for weight in self.state.policy.weights]

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
        """
        inputs = UpdateInputs(
            Chunks(**{name: tf.constant(values) for name, values in chunks.items()}),
            tf.constant(target_noise),
            # Arrays, because TensorFlow keeps a tensor of every float that it has met.
            *(tf.constant(np.float32(value)) for value in (blend, policy_rate, active)),
        )
        params = {name: tf.convert_to_tensor(part) for name, part in self.objective.params.items()}
        self.state, result = self._update(self.state, params, inputs)
        return result


def _zeros(sizes: Sequence[int], leading: tuple[int, ...]) -> list[tf.Tensor]:
    """Returns weights of networks [*leading], all zero, in the order of `initial_weights`."""
    drawn = initial_weights(np.random.default_rng(0), sizes)
    return [tf.zeros([*leading, *weight.shape]) for weight in drawn]


def _named(state: AgentState) -> Iterator[tuple[str, tf.Tensor]]:
    """Yields the parts of a state with their names, in the order in which tf.nest flattens it."""
    for network, saved_as in _SAVED_AS.items():
        for kind in Learned._fields:
            for place, part in enumerate(getattr(getattr(state, network), kind)):
                yield f"{saved_as}/{kind}/{place}", part
    yield "updates", state.updates
