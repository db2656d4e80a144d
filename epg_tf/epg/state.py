"""Holds the state of an evolution between two epochs, and sends it from rank 0 to the others."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np

from epg_tf.core.communication import Communicator
from epg_tf.core.types import Array
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.past_policies import PastPolicies, no_past_policies
from epg_tf.epg.settings import Experiment


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
      past: Policies of earlier epochs that lives start from; None where they never do.
    """

    epoch: int
    phi: Array
    second_moment: Array
    env_steps: int
    best_phi: Array
    best_return: float
    last_update: Array
    past: PastPolicies | None = None


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
        past=no_past_policies(experiment),
    )


def broadcast_state(state: EvolutionState, communicator: Communicator) -> EvolutionState:
    """Returns, on every rank, the state that rank 0 holds, to the bit."""
    arrays = np.stack([state.phi, state.second_moment, state.best_phi, state.last_update])
    best_return = np.float64(state.best_return).view(np.int64)
    numbers = np.array([state.epoch, state.env_steps, best_return])
    sent = communicator.broadcast(np.concatenate([numbers, _as_integers(arrays)]))
    received = _as_floats(sent[3:], arrays)
    phi, second_moment, best_phi, last_update = received
    return EvolutionState(
        epoch=int(sent[0]),
        phi=phi,
        second_moment=second_moment,
        env_steps=int(sent[1]),
        best_phi=best_phi,
        best_return=float(sent[2:3].view(np.float64)[0]),
        last_update=last_update,
        past=None if state.past is None else _broadcast_past(state.past, communicator),
    )


def _broadcast_past(past: PastPolicies, communicator: Communicator) -> PastPolicies:
    parts = [np.array([past.entered]), _as_integers(past.weights), past.moments.view(np.int64)]
    sizes = np.cumsum([part.size for part in parts])[:-1]
    sent = communicator.broadcast(np.concatenate([part.ravel() for part in parts]))
    entered, weights, moments = np.split(sent, sizes)
    return PastPolicies(
        int(entered[0]),
        _as_floats(weights, past.weights),
        moments.view(np.float64).reshape(past.moments.shape),
    )


def _as_integers(floats: Array) -> Array:
    """Returns the bits of float32 as a row of integers."""
    return floats.view(np.int32).ravel()


def _as_floats(integers: Array, like: Array) -> Array:
    """Reads what `_as_integers` made of an array of the same shape."""
    return integers.astype(np.int32).view(np.float32).reshape(like.shape)


def digest(state: EvolutionState) -> bytes:
    """Returns the SHA-256 of all in a state that ranks could disagree about."""
    arrays = [state.phi, state.second_moment, state.best_phi, np.float64(state.best_return)]
    arrays += [] if state.past is None else state.past.arrays().values()
    return hashlib.sha256(b"".join(values.tobytes() for values in arrays)).digest()
