"""Evolved Policy Gradients, the outer loop (Algorithm 1): perturb phi, run lives, rank, step."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.core.communication import Communicator, SingleProcess
from epg_tf.core.experiment import EvolutionConfig, Experiment
from epg_tf.core.optimizers import adam_update, annealed
from epg_tf.core.random_streams import lifetime_generator, loss_generator, noise_vector
from epg_tf.core.types import Array, LifeKey, LifeOutcomes
from epg_tf.epg import diagnostics, evolution_strategies
from epg_tf.epg.inner_loop import Teaching
from epg_tf.epg.shards import Shards, run_on_ranks
from epg_tf.losses.channels import Channel, declared_channels
from epg_tf.losses.initial_parameters import initial_parameters
from epg_tf.losses.temporal_conv import parameter_shapes
from epg_tf.tasks.registry import make_family


@dataclasses.dataclass(frozen=True)
class EvolutionState:
    """Everything evolution goes on from; keyed randomness needs nothing else.

    Attributes:
      epoch: Epochs done.
      phi: [D] float32, loss parameters.
      second_moment: [D] float32, of Adam.
      env_steps: Env steps spent so far, validation included.
      best_phi: [D] float32, the phi that did best in validation so far.
      best_return: Its mean return there; -inf before the first.
      last_update: [D] float32, by which the newest step moved phi.
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
    """One epoch: the state after it, and its numbers by the name of their column."""

    state: EvolutionState
    metrics: dict[str, float]


def loss_channels(experiment: Experiment) -> tuple[Channel, ...]:
    """Returns what the loss of an experiment declares."""
    return declared_channels(make_family(experiment.task).spec, experiment.loss)


def loss_shapes(experiment: Experiment) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of phi's parts for an experiment."""
    return parameter_shapes(loss_channels(experiment), experiment.loss)


def initial_phi(experiment: Experiment, seed: int) -> Array:
    """Returns the parameters evolution starts from, [D] float32."""
    return initial_parameters(loss_generator(seed), loss_channels(experiment), experiment.loss)


def initial_state(experiment: Experiment, seed: int) -> EvolutionState:
    """Returns the state before the first epoch."""
    phi = initial_phi(experiment, seed)
    return EvolutionState(0, phi, np.zeros_like(phi), 0, phi, -np.inf, np.zeros_like(phi))


def life_keys(evolution: EvolutionConfig, seed: int, epoch: int) -> list[LifeKey]:
    """Names the W lives of an epoch.

    With common random numbers both lives of a pair share one key; with `tasks` set, so many are
    dealt out in turn.
    """
    index = pairs(evolution) if evolution.common_random_numbers else np.arange(evolution.lives)
    index = index % evolution.tasks if evolution.tasks else index
    return [LifeKey(seed, "evolution", epoch, int(number)) for number in index]


def pairs(evolution: EvolutionConfig) -> Array:
    """Numbers the antithetic pairs of lives: entry w is the pair of life w, [W]."""
    lives, per_vector = np.arange(evolution.lives), evolution.lives // evolution.noise_vectors
    vectors = lives // per_vector
    return vectors // 2 * per_vector + lives % per_vector


def fitness_weights(evolution: EvolutionConfig, keys: Sequence[LifeKey], returns: Array) -> Array:
    """Returns the weight of each noise vector, [V], from the returns of the W lives, NaN where one
    failed.
    """
    groups = (
        pairs(evolution)
        if evolution.fitness == "rank_in_pair"
        else np.array([key.index for key in keys])
    )
    return evolution_strategies.shaped(returns, evolution.noise_vectors, evolution.fitness, groups)


def life_updates(experiment: Experiment, seed: int, epoch: int) -> int:
    """Returns how many updates each life of an epoch has; all the same, lest long lives be compared
    with short ones.
    """
    longest, shortest = experiment.inner.updates, experiment.evolution.shortest_life
    if not shortest:
        return longest
    return evolution_strategies.lifetime(
        lifetime_generator(seed, epoch).random(), shortest, longest
    )


def es_step(
    state: EvolutionState, weights: Array, evolution: EvolutionConfig, seed: int
) -> tuple[EvolutionState, float]:
    """Moves phi (Eq. 7, with Adam at beta_1 = 0 and L2 as in section 4).

    Args:
      state: Before the step; its epoch names the noise.
      weights: [V] of the noise vectors, from `fitness_weights`.
      evolution: Settings.
      seed: Of the run.

    Returns:
      The state with phi, second moment and last update moved, of the same epoch, and the gradient's
      `signal_to_noise`.
    """
    noise = functools.partial(noise_vector, seed, state.epoch, size=state.phi.size)
    ascent = evolution_strategies.gradient_estimate(
        weights, noise, evolution.sigma, evolution.antithetic
    )
    descent = (evolution.l2 * state.phi.astype(np.float64) - ascent).astype(np.float32)
    rate = annealed(
        evolution.learning_rate,
        evolution.final_learning_rate,
        evolution.learning_rate_epochs,
        state.epoch,
    )
    number = float(state.epoch + 1)
    update, _, second = adam_update(
        tf.constant(descent),
        tf.zeros_like(descent),
        tf.constant(state.second_moment),
        number,
        learning_rate=rate,
        beta_1=0.0,
    )
    moved = dataclasses.replace(
        state,
        phi=state.phi + update.numpy(),
        second_moment=second.numpy(),
        last_update=update.numpy(),
    )
    return moved, diagnostics.signal_to_noise(
        ascent, weights, evolution.sigma, evolution.antithetic
    )


def share_state(state: EvolutionState, communicator: Communicator) -> EvolutionState:
    """Returns, on every rank, the state that rank 0 holds, to the bit."""
    arrays = np.stack([state.phi, state.second_moment, state.best_phi, state.last_update])
    numbers = np.array([state.epoch, state.env_steps, np.float64(state.best_return).view(np.int64)])
    shared = communicator.broadcast(np.concatenate([numbers, arrays.view(np.int32).ravel()]))
    phi, second_moment, best_phi, last_update = (
        shared[3:].astype(np.int32).view(np.float32).reshape(arrays.shape)
    )
    return EvolutionState(
        int(shared[0]),
        phi,
        second_moment,
        int(shared[1]),
        best_phi,
        float(shared[2:3].view(np.float64)[0]),
        last_update,
    )


def digest(state: EvolutionState) -> bytes:
    """Returns the SHA-256 of what ranks could disagree about in a state."""
    arrays = (state.phi, state.second_moment, state.best_phi, np.float64(state.best_return))
    return hashlib.sha256(b"".join(values.tobytes() for values in arrays)).digest()


def evolve(
    experiment: Experiment,
    seed: int,
    state: EvolutionState | None = None,
    shards: Shards | None = None,
    done: Callable[[int], None] | None = None,
    communicator: Communicator | None = None,
) -> Iterator[EpochResult]:
    """Evolves a loss, one result per epoch.

    Every rank rebuilds all noise and takes the same step; outcomes of lives are all that is sent.

    Args:
      experiment: Settings.
      seed: Of all randomness, >= 0.
      state: Where to go on; None starts afresh.
      shards: Who runs the lives; None makes its own.
      done: Called with a number of lives whenever that many have ended on this rank.
      communicator: The ranks that share the work; the other arguments are the same on each. None
        works alone.

    Yields:
      An `EpochResult` per epoch until `experiment.evolution.epochs` are done, the same on every
      rank but for times.

    Raises:
      Disagreement: Ranks came to different states.
    """
    state = initial_state(experiment, seed) if state is None else state
    communicator = SingleProcess() if communicator is None else communicator
    own = Shards(experiment) if shards is None else None
    try:
        while state.epoch < experiment.evolution.epochs:
            yield (result := _epoch(experiment, seed, state, shards or own, done, communicator))
            state = result.state
    finally:
        if own is not None:
            own.close()


def _epoch(
    experiment, seed, state: EvolutionState, shards: Shards, done, communicator: Communicator
) -> EpochResult:
    evolution, started = experiment.evolution, time.perf_counter()
    waited, sent = communicator.seconds, communicator.bytes_sent
    alpha = annealed(
        evolution.guidance, evolution.final_guidance, evolution.guidance_epochs, state.epoch
    )
    keys, updates = (
        life_keys(evolution, seed, state.epoch),
        life_updates(experiment, seed, state.epoch),
    )
    perturbed = _Perturbed(evolution, seed, state, 2 * shards.threads)
    teaching = Teaching(alpha, experiment.inner.learning_rate, fitness_from=evolution.fitness_from)
    live = functools.partial(
        run_on_ranks, shards, communicator, phi=perturbed, teaching=teaching, updates=updates
    )
    lives = live(keys, done=done)
    env_steps, correlation = _diagnose(evolution, state.epoch, keys, lives, live)
    moved, signal_to_noise = es_step(
        state, fitness_weights(evolution, keys, lives.final_return), evolution, seed
    )
    moved = dataclasses.replace(
        moved,
        epoch=state.epoch + 1,
        env_steps=state.env_steps + int(lives.env_steps.sum()) + env_steps,
    )
    moved, validation = _validate(experiment, seed, moved, shards, communicator)
    communicator.check_same(f"phi after epoch {moved.epoch}", digest(moved))
    seconds = time.perf_counter() - started
    metrics = {
        "epoch": moved.epoch,
        "alpha": alpha,
        "updates": updates,
        **_spread(lives.final_return),
        **validation,
        "success_rate": float(np.mean(lives.success)),
        "failed_lives": int(lives.failed.sum()),
        "env_steps": moved.env_steps,
        "seconds": round(seconds, 3),
        "env_steps_per_second": round((moved.env_steps - state.env_steps) / seconds, 1),
        "communication_seconds": round(communicator.seconds - waited, 3),
        "communication_bytes": communicator.bytes_sent - sent,
        "phi_norm": float(np.linalg.norm(moved.phi)),
        "update_norm": float(np.linalg.norm(moved.phi - state.phi)),
        "update_cosine": diagnostics.cosine(state.last_update, moved.last_update),
        "signal_to_noise": signal_to_noise,
        "pair_correlation": correlation,
    }
    return EpochResult(moved, metrics)


class _Perturbed:
    """Maps a life to its loss: phi and the epoch's noise."""

    def __init__(self, evolution: EvolutionConfig, seed: int, state: EvolutionState, cached: int):
        self.phi, self._evolution = state.phi, evolution
        self._noise = functools.lru_cache(maxsize=cached)(
            lambda vector: noise_vector(seed, state.epoch, vector, state.phi.size)
        )

    def __call__(self, life: int) -> Array:
        evolution = self._evolution
        vector = evolution_strategies.vector_of_life(life, evolution.lives, evolution.noise_vectors)
        return self.phi + np.float32(evolution.sigma) * evolution_strategies.perturbation(
            self._noise, vector, evolution.antithetic
        )


def _diagnose(
    evolution: EvolutionConfig,
    epoch: int,
    keys: Sequence[LifeKey],
    lives: LifeOutcomes,
    live: Callable[[Sequence[LifeKey]], LifeOutcomes],
) -> tuple[int, float]:
    """Lives the lives of every so many epochs again, with other random numbers; returns env steps
    and correlation.
    """
    if not evolution.diagnosis_period or (epoch + 1) % evolution.diagnosis_period:
        return 0, float("nan")
    again = live([dataclasses.replace(key, phase="diagnosis") for key in keys])
    one, other = (
        diagnostics.pair_differences(each.final_return, evolution.noise_vectors)
        for each in (lives, again)
    )
    return int(again.env_steps.sum()), diagnostics.correlation(one, other)


def _spread(returns: Array) -> dict[str, float]:
    """Sums up the fitness of an epoch's lives; all NaN if every life failed."""
    alive = returns[np.isfinite(returns)]
    alive = alive if alive.size else np.array([np.nan])
    return {
        "fitness_mean": float(alive.mean()),
        "fitness_std": float(alive.std()),
        "fitness_min": float(alive.min()),
        "fitness_q25": float(np.quantile(alive, 0.25)),
        "fitness_median": float(np.median(alive)),
        "fitness_q75": float(np.quantile(alive, 0.75)),
        "fitness_max": float(alive.max()),
    }


def _validate(
    experiment, seed, state: EvolutionState, shards: Shards, communicator: Communicator
) -> tuple[EvolutionState, dict[str, float]]:
    """Tests phi itself on tasks of its own, every `validation_period` epochs; keeps the best."""
    evolution = experiment.evolution
    if not evolution.validation_period or state.epoch % evolution.validation_period:
        if state.best_return == -np.inf:  # nothing tested yet: the newest is the best guess
            state = dataclasses.replace(state, best_phi=state.phi)
        return state, {"validation_return_mean": float("nan")}
    keys = [LifeKey(seed, "validation", 0, index) for index in range(evolution.validation_lives)]
    lives = run_on_ranks(
        shards,
        communicator,
        keys,
        lambda life: state.phi,
        Teaching(0.0, experiment.inner.learning_rate),
    )
    mean = mean_return(lives)
    state = dataclasses.replace(state, env_steps=state.env_steps + int(lives.env_steps.sum()))
    if mean > state.best_return:
        state = dataclasses.replace(state, best_phi=state.phi, best_return=mean)
    return state, {"validation_return_mean": mean}


def mean_return(lives: LifeOutcomes) -> float:
    """Returns the mean final return; lives that failed count as the worst of the others, NaN if all
    failed.
    """
    return (
        float(np.mean(evolution_strategies.raw_weights(lives.final_return)))
        if not lives.failed.all()
        else float("nan")
    )
