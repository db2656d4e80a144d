"""Holds the state of a learned objective between two rounds, and moves it."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.optimizers import adam_update
from epg_tf.core.random_streams import loss_generator
from epg_tf.core.types import Array
from epg_tf.losses.lstm_objective import initial_parameters


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

    On the CPU, so that ranks with and without a GPU agree to the bit.
    """
    updates = state.updates + 1
    with tf.device("CPU:0"):
        update, first_moment, second_moment = adam_update(
            tf.constant(gradient),
            tf.constant(state.first_moment),
            tf.constant(state.second_moment),
            float(updates),
            learning_rate=learning_rate,
        )
    return dataclasses.replace(
        state,
        parameters=state.parameters + update.numpy(),
        first_moment=first_moment.numpy(),
        second_moment=second_moment.numpy(),
        updates=updates,
    )
