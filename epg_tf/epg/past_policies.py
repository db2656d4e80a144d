"""Keeps final policies of earlier epochs, for lives to start from (EPG, section 4.3, Figure 12 B).

A life that starts from one is the second (or third, ...) part of a longer life, in another task: it
takes over policy, memory and normalisation, while buffer, optimiser and value network begin afresh.
Which lives do, and from which policy, are draws keyed by the life; which lives are kept is the same
in every epoch. So neither threads, processes nor ranks have an influence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from epg_tf.core.communication import Communicator
from epg_tf.core.parameters import parameter_count
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey, SavedAgent
from epg_tf.epg.meta_parameters import start_shapes
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.registry import make_family


@dataclasses.dataclass(frozen=True, eq=False)
class PastPolicies:
    """The newest final agents of earlier epochs; S rows, of which the first `entered` are in use.

    Attributes:
      entered: Agents that have entered so far; number n is in row n modulo S.
      weights: [S, K] float32, see `SavedAgent`.
      moments: [S, 1 + 2 (O + A + 1)] float64.
    """

    entered: int
    weights: Array
    moments: Array

    def __len__(self) -> int:
        return min(self.entered, len(self.weights))

    def arrays(self) -> dict[str, Array]:
        """Returns all of it by names, for a checkpoint."""
        return {
            "past_entered": np.array(self.entered, np.int64),
            "past_weights": self.weights,
            "past_moments": self.moments,
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, Array]) -> PastPolicies:
        """Reads what `arrays` returned.

        Raises:
          KeyError: An array is missing.
        """
        entered, weights, moments = (
            arrays[f"past_{name}"] for name in ("entered", "weights", "moments")
        )
        return PastPolicies(int(entered), weights, moments)

    def with_agents(self, agents: Sequence[SavedAgent]) -> PastPolicies:
        """Returns the same with more agents, which replace the oldest once all rows are in use."""
        weights, moments = self.weights.copy(), self.moments.copy()
        for number, agent in enumerate(agents, start=self.entered):
            weights[number % len(weights)] = agent.weights
            moments[number % len(moments)] = agent.moments
        return PastPolicies(self.entered + len(agents), weights, moments)


@dataclasses.dataclass(frozen=True, eq=False)
class Starts:
    """Says of L lives which of them go on where others ended, and whose agents are to be kept.

    Attributes:
      agents: L agents to start from, None where a life begins afresh.
      kept: Numbers of the lives whose final agents are returned.
    """

    agents: Sequence[SavedAgent | None]
    kept: Sequence[int]

    def of(self, lives: Sequence[int]) -> Starts:
        """Returns the same for some of the lives, numbered from 0 in the given order."""
        kept = [number for number, life in enumerate(lives) if life in self.kept]
        return Starts([self.agents[life] for life in lives], kept)


def no_past_policies(experiment: Experiment) -> PastPolicies | None:
    """Returns what there is before the first epoch; None where none are ever kept."""
    rows = experiment.past.policies
    if not rows:
        return None
    weights, moments = agent_sizes(experiment)
    return PastPolicies(0, np.zeros((rows, weights), np.float32), np.zeros((rows, moments)))


def agent_sizes(experiment: Experiment) -> tuple[int, int]:
    """Returns the sizes of the two arrays of a `SavedAgent`."""
    spec, loss = make_family(experiment.task).spec, experiment.loss
    policy = parameter_count(start_shapes(experiment))
    moments = 1 + 2 * (spec.observation_size + spec.action_size + 1)
    return policy + loss.memory_inputs * loss.memory_units, moments


def starts_of(
    experiment: Experiment, past: PastPolicies | None, keys: Sequence[LifeKey], keep: bool
) -> Starts | None:
    """Draws from which of the past policies lives start.

    Args:
      experiment: Settings.
      past: The policies; None: there never are any.
      keys: Of L lives; lives that share a key start from the same policy.
      keep: Whether the final agents of some of the lives will enter.
    """
    if past is None:
        return None
    drawn = {key: _draw(key, past, experiment.past.share) for key in set(keys)}
    return Starts([drawn[key] for key in keys], kept_lives(experiment) if keep else ())


def _draw(key: LifeKey, past: PastPolicies, share: float) -> SavedAgent | None:
    generator = life_generator(key, "start")
    if generator.random() >= share or not len(past):
        return None
    row = int(generator.integers(len(past)))
    return SavedAgent(past.weights[row], past.moments[row])


def kept_lives(experiment: Experiment) -> list[int]:
    """Returns the numbers of the lives of an epoch whose final agents enter, evenly spread."""
    count, lives = experiment.past.per_epoch, experiment.evolution.lives
    return [number * lives // count for number in range(count)]


def shared(
    agents: Array, kept: Sequence[int], sizes: tuple[int, int], communicator: Communicator
) -> Array:
    """Returns, on every rank, the agents that some rank holds.

    Args:
      agents: [L] objects, `SavedAgent` of lives of this rank that are kept, None of others.
      kept: Numbers of the lives whose agents are sent.
      sizes: Of the arrays of an agent.
      communicator: The ranks.

    Returns:
      [L] objects, None of lives that are not kept.
    """
    pairs = (sizes[0] + 1) // 2  # of float32, as one int64
    sent = np.zeros((len(kept), pairs + sizes[1]), np.int64)
    for row, life in enumerate(kept):
        if agents[life] is not None:
            weights = np.zeros(2 * pairs, np.float32)
            weights[: sizes[0]] = agents[life].weights
            sent[row, :pairs] = weights.view(np.int64)
            sent[row, pairs:] = np.asarray(agents[life].moments, np.float64).view(np.int64)
    received = communicator.sum(sent)
    found = np.full(len(agents), None)
    for life, row in zip(kept, received, strict=True):
        weights = row[:pairs].copy().view(np.float32)[: sizes[0]]
        found[life] = SavedAgent(weights, row[pairs:].copy().view(np.float64))
    return found
