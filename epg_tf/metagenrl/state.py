"""Holds the state of a learned objective between two rounds, and moves it."""

from __future__ import annotations

import dataclasses

import numpy as np

from epg_tf.core.optimizers import BETA_1, BETA_2, EPSILON
from epg_tf.core.random_streams import loss_generator
from epg_tf.core.types import Array
from epg_tf.losses.lstm_objective import initial_parameters
from epg_tf.metagenrl.settings import MetaGenRLExperiment


@dataclasses.dataclass(frozen=True)
class ObjectiveState:
    """The objective after a round.

    With the shards' own arrays and replays it is all that a run continues from.

    Attributes:
      round: Rounds done.
      parameters: alpha, [D] float32.
      first_moment: [D] float32, of Adam.
      second_moment: [D] float32.
      updates: Steps of Adam taken.
    """

    round: int
    parameters: Array
    first_moment: Array
    second_moment: Array
    updates: int


@dataclasses.dataclass(frozen=True)
class RoundResult:
    """Holds the state after a round, and the round's numbers by the name of their column."""

    state: ObjectiveState
    metrics: dict[str, float]


def initial_state(experiment: MetaGenRLExperiment, seed: int) -> ObjectiveState:
    """Returns the state before the first round."""
    parameters = initial_parameters(loss_generator(seed), experiment.objective)
    zeros = np.zeros_like(parameters)
    return ObjectiveState(0, parameters, zeros, zeros.copy(), 0)


def objective_step(state: ObjectiveState, gradient: Array, learning_rate: float) -> ObjectiveState:
    """Moves the objective by one step of Adam against the gradient [D] of the agents' meta-loss.

    In NumPy (the formulas are those of `core.optimizers.adam_update`), so that ranks with and
    without a GPU agree to the bit, and since every tensor outside a graph costs memory to the end
    (docs/benchmarks.md).
    """
    updates = state.updates + 1
    first = np.float32(BETA_1) * state.first_moment + np.float32(1.0 - BETA_1) * gradient
    second = np.float32(BETA_2) * state.second_moment
    second += np.float32(1.0 - BETA_2) * np.square(gradient)
    scale = np.float32(learning_rate / (1.0 - BETA_1**updates))
    deviation = np.sqrt(second * np.float32(1.0 / (1.0 - BETA_2**updates)))
    return dataclasses.replace(
        state,
        parameters=state.parameters - scale * first / (deviation + np.float32(EPSILON)),
        first_moment=first,
        second_moment=second,
        updates=updates,
    )
