"""Holds the state of an evolution between two epochs, and sends it from rank 0 to the others."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np

from epg_tf.core.communication import Communicator
from epg_tf.core.experiment import Experiment
from epg_tf.core.types import Array
from epg_tf.epg.meta_parameters import initial_phi


@dataclasses.dataclass(frozen=True)
class EvolutionState:
    """Everything that evolution continues from; keyed random streams need no state.

    Attributes:
      epoch: Epochs done.
      phi: [D] float32, what evolution moves: see `meta_parameters`.
      second_moment: [D] float32, of Adam.
      env_steps: Env steps spent so far, validation included.
      best_phi: [D] float32, the phi that did best in validation so far.
      best_return: Its mean return there; -inf before the first validation.
      last_update: [D] float32, the newest change of phi.
    """

    epoch: int
    phi: Array
    second_moment: Array
    env_steps: int
    best_phi: Array
    best_return: float
    last_update: Array


@dataclasses.dataclass(frozen=True)
class EpochResult:
    """Holds the state after an epoch, and the epoch's numbers by the name of their column."""

    state: EvolutionState
    metrics: dict[str, float]


def initial_state(experiment: Experiment, seed: int) -> EvolutionState:
    """Returns the state before the first epoch."""
    phi = initial_phi(experiment, seed)
    zeros = np.zeros_like(phi)
    return EvolutionState(
        epoch=0,
        phi=phi,
        second_moment=zeros,
        env_steps=0,
        best_phi=phi,
        best_return=-np.inf,
        last_update=zeros.copy(),
    )


def broadcast_state(state: EvolutionState, communicator: Communicator) -> EvolutionState:
    """Returns, on every rank, the state that rank 0 holds, to the bit."""
    arrays = np.stack([state.phi, state.second_moment, state.best_phi, state.last_update])
    best_return = np.float64(state.best_return).view(np.int64)
    numbers = np.array([state.epoch, state.env_steps, best_return])
    sent = communicator.broadcast(np.concatenate([numbers, arrays.view(np.int32).ravel()]))
    received = sent[3:].astype(np.int32).view(np.float32).reshape(arrays.shape)
    phi, second_moment, best_phi, last_update = received
    return EvolutionState(
        epoch=int(sent[0]),
        phi=phi,
        second_moment=second_moment,
        env_steps=int(sent[1]),
        best_phi=best_phi,
        best_return=float(sent[2:3].view(np.float64)[0]),
        last_update=last_update,
    )


def digest(state: EvolutionState) -> bytes:
    """Returns the SHA-256 of all in a state that ranks could disagree about."""
    arrays = (state.phi, state.second_moment, state.best_phi, np.float64(state.best_return))
    return hashlib.sha256(b"".join(values.tobytes() for values in arrays)).digest()
