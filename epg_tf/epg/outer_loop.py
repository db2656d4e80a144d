"""Runs the outer loop of Evolved Policy Gradients (Algorithm 1).

`run_epoch` follows the algorithm line by line; the inner loop, which is also Algorithm 2, is in
`epg/inner_loop.py`. Validation is an addition of this package.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.core.communication import Communicator, SingleProcess
from epg_tf.core.failures import mean_return
from epg_tf.core.optimizers import adam_update, annealed
from epg_tf.core.random_streams import noise_vector
from epg_tf.core.types import Array, LifeKey, LifeOutcomes
from epg_tf.epg import diagnostics, epoch_metrics, evolution_strategies
from epg_tf.epg.epoch_plan import (
    PerturbedPhi,
    life_keys,
    life_tasks,
    life_updates,
    pairs,
    return_units,
)
from epg_tf.epg.evolution_settings import EvolutionConfig
from epg_tf.epg.inner_loop import InnerLoopSettings, final_inner_settings
from epg_tf.epg.past_policies import PastPolicies, starts_of
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import RankedShards, Shards
from epg_tf.epg.state import EpochResult, EvolutionState, digest, initial_state


def evolve(
    experiment: Experiment,
    seed: int,
    state: EvolutionState | None = None,
    shards: Shards | None = None,
    done: Callable[[int], None] | None = None,
    communicator: Communicator | None = None,
) -> Iterator[EpochResult]:
    """Evolves a loss, an initial policy or both (Algorithm 1: for epoch e = 1, ..., E).

    Every rank computes all noise again and takes the same step; ranks send each other only the
    outcomes of lives.

    Args:
      experiment: Settings.
      seed: Of all randomness, >= 0.
      state: Where to continue; None starts afresh.
      shards: Runs the lives; None makes its own.
      done: Called with a number of lives whenever that many have ended on this rank.
      communicator: The ranks that share the work; the other arguments are the same on each. None:
        one process.

    Yields:
      An `EpochResult` per epoch until `experiment.evolution.epochs` are done, the same on every
      rank except for times.

    Raises:
      Disagreement: Ranks came to different states.
      Interrupted: `shards` were stopped.
    """
    state = initial_state(experiment, seed) if state is None else state
    communicator = SingleProcess() if communicator is None else communicator
    with contextlib.ExitStack() as stack:
        if shards is None:
            shards = stack.enter_context(Shards(experiment))
        runner = RankedShards(shards, communicator, done)
        while state.epoch < experiment.evolution.epochs:
            result = run_epoch(experiment, seed, state, runner)
            yield result
            state = result.state


def run_epoch(
    experiment: Experiment, seed: int, state: EvolutionState, runner: RankedShards
) -> EpochResult:
    """Runs one epoch of Algorithm 1, then validates and measures it.

    A worker of the paper is a *life* here: W lives per epoch, P of them in lockstep in a shard. The
    noise epsilon_v is drawn where a life needs it (`PerturbedPhi`), and again in `es_step`, so that
    it is neither kept nor sent.

    Args:
      experiment: Settings.
      seed: Of all randomness.
      state: Before the epoch.
      runner: Runs lives, on this rank and the others.

    Returns:
      The state after the epoch and the epoch's metrics.
    """
    evolution = experiment.evolution
    cost = epoch_metrics.Cost(runner.communicator)
    inner_settings = teaching_in(experiment, seed, state.epoch)
    # Sample epsilon_v ~ N(0, I); life w gets the loss phi + sigma epsilon_v, v = ceil(w V / W).
    phi_of_life = PerturbedPhi(evolution, seed, state, cached=2 * runner.threads)
    # Each life samples an MDP and trains a policy in it over U steps; its return is measured.
    keys = life_keys(evolution, seed, state.epoch)
    tasks = life_tasks(experiment)
    starts = starts_of(experiment, state.past, keys, keep=True)
    started = dataclasses.replace(inner_settings, starts=starts)
    lives = in_units(experiment, tasks, runner.run(keys, phi_of_life, started, tasks=tasks))
    # Update phi (Eq. 7).
    weights = evolution_strategies.shaped(
        lives.final_return, evolution.noise_vectors, evolution.fitness, pairs(evolution)
    )
    moved, signal_to_noise = es_step(state, weights, evolution, seed)
    spent = int(lives.env_steps.sum())
    moved = dataclasses.replace(moved, epoch=state.epoch + 1, env_steps=state.env_steps + spent)
    moved = dataclasses.replace(moved, past=with_final_agents(state.past, lives))
    moved, validation_return = validate(experiment, seed, moved, runner)
    runner.communicator.check_same(f"phi after epoch {moved.epoch}", digest(moved))
    metrics = {
        "epoch": moved.epoch,
        "alpha": inner_settings.alpha,
        "updates": inner_settings.updates or 0,
        **epoch_metrics.fitness(lives),
        "validation_return_mean": validation_return,
        **epoch_metrics.outcomes(lives),
        "env_steps": moved.env_steps,
        **cost.columns(moved.env_steps - state.env_steps),
        **epoch_metrics.movement(state, moved),
        "signal_to_noise": signal_to_noise,
        **epoch_metrics.lived(lives),
    }
    return EpochResult(moved, metrics)


def with_final_agents(past: PastPolicies | None, lives: LifeOutcomes) -> PastPolicies | None:
    """Returns the past policies with the agents of an epoch that were kept; failed lives have none
    to offer.
    """
    if past is None:
        return None
    entering = zip(lives.final_agent, lives.failed, strict=True)
    return past.with_agents([agent for agent, failed in entering if agent and not failed])


def in_units(experiment: Experiment, tasks: Sequence[int], lives: LifeOutcomes) -> LifeOutcomes:
    """Returns outcomes of L lives in units of their tasks, [L] numbers (`mix.return_units`)."""
    units = return_units(experiment)[np.asarray(tasks)]
    return dataclasses.replace(lives, final_return=lives.final_return / units)


def teaching_in(experiment: Experiment, seed: int, epoch: int) -> InnerLoopSettings:
    """Returns how the agents of an epoch learn."""
    evolution = experiment.evolution
    alpha = annealed(evolution.guidance, evolution.final_guidance, evolution.guidance_epochs, epoch)
    return InnerLoopSettings(
        alpha,
        experiment.inner.learning_rate,
        fitness_from=evolution.fitness_from,
        updates=life_updates(experiment, seed, epoch),
    )


def es_step(
    state: EvolutionState, weights: Array, evolution: EvolutionConfig, seed: int
) -> tuple[EvolutionState, float]:
    """Moves phi (Eq. 7, with Adam at beta_1 = 0 and L2 as in section 4). Where sigma anneals, the
    estimate is divided by its value at epoch 0, not by the newest.

    Args:
      state: Before the step; its epoch names the noise.
      weights: [V] of the noise vectors, from `evolution_strategies.shaped`.
      evolution: Settings.
      seed: Of the run.

    Returns:
      The state with new phi, second moment and last update, of the same epoch; and the
      signal-to-noise ratio of the gradient estimate.
    """
    noise = functools.partial(noise_vector, seed, state.epoch, size=state.phi.size)
    # sigma is that of epoch 0 also where it anneals: Adam averages squares over a thousand epochs,
    # so estimates that grow as 1 / sigma would make steps larger than the learning rate.
    ascent = evolution_strategies.gradient_estimate(
        weights, noise, evolution.sigma, evolution.antithetic
    )
    descent = (evolution.l2 * state.phi.astype(np.float64) - ascent).astype(np.float32)
    learning_rate = annealed(
        evolution.learning_rate,
        evolution.final_learning_rate,
        evolution.learning_rate_epochs,
        state.epoch,
    )
    with tf.device("CPU:0"):  # so that ranks with and without a GPU agree to the bit
        update, _, second_moment = adam_update(
            tf.constant(descent),
            tf.constant(np.zeros_like(descent)),
            tf.constant(state.second_moment),
            float(state.epoch + 1),
            learning_rate=learning_rate,
            beta_1=0.0,  # without momentum
        )
    moved = dataclasses.replace(
        state,
        phi=state.phi + update.numpy(),
        second_moment=second_moment.numpy(),
        last_update=update.numpy(),
    )
    return moved, diagnostics.signal_to_noise(
        ascent, weights, evolution.sigma, evolution.antithetic
    )


def validate(
    experiment: Experiment, seed: int, state: EvolutionState, runner: RankedShards
) -> tuple[EvolutionState, float]:
    """Tests phi without noise every `validation_period` epochs, in exact physics, on tasks that
    evolution never uses.

    Returns:
      The state, in which the best phi so far is kept; and the mean return, NaN in other epochs.
    """
    evolution = experiment.evolution
    if not evolution.validation_period or state.epoch % evolution.validation_period:
        if state.best_return == -np.inf:  # not validated yet: the newest is the best guess
            state = dataclasses.replace(state, best_phi=state.phi)
        return state, float("nan")
    keys = [LifeKey(seed, "validation", 0, index) for index in range(evolution.validation_lives)]
    inner_settings = final_inner_settings(experiment)
    tasks = [key.index % len(experiment.tasks) for key in keys]
    lives = runner.run(
        keys, lambda life: state.phi, inner_settings, report=False, exact=True, tasks=tasks
    )
    lives = in_units(experiment, tasks, lives)
    mean = mean_return(lives.final_return)
    state = dataclasses.replace(state, env_steps=state.env_steps + int(lives.env_steps.sum()))
    if mean > state.best_return:
        state = dataclasses.replace(state, best_phi=state.phi, best_return=mean)
    return state, mean
