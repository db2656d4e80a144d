"""Meta-trains an initialisation by MAML (Finn et al. 2017, Algorithm 3).

An iteration samples tasks, lets a copy of the initialisation adapt to each, and moves the
initialisation by steps of Adam on PPO's loss of the adapted policies, see `maml_gradient`.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from epg_tf.agents import normalizer
from epg_tf.baselines.maml_lives import Batch, MAMLLives
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.maml_state import IterationResult, MAMLState
from epg_tf.core.errors import RunFailed
from epg_tf.core.failures import mean_return
from epg_tf.core.optimizers import adam_update
from epg_tf.core.types import Array, LifeKey
from epg_tf.tasks.registry import make_family

FAILED = "failed_validation_lives"
"""Column of the lives that failed in validation; NaN in iterations without one."""

COLUMNS = (
    "epoch",
    "return_before_mean",
    "return_after_mean",
    "gain_mean",
    "validation_return_mean",
    "gradient_norm",
    "failed_lives",
    FAILED,
    "env_steps",
    "seconds",
)
"""Of metrics.csv; an epoch is an iteration."""


class MetaTraining:
    """Runs iterations. One thread at a time may use it.

    Args:
      experiment: Settings.
      seed: Of all randomness.
      stop: When set, an iteration ends early with `Interrupted`.
    """

    def __init__(self, experiment: MAMLExperiment, seed: int, stop: threading.Event | None = None):
        self._experiment, self._seed = experiment, seed
        tasks = experiment.outer.tasks
        self._lives = MAMLLives(experiment, make_family(experiment.task), tasks, stop)
        exact = experiment.in_physics("exact")
        self._validation = self._lives
        if exact != experiment:
            self._validation = MAMLLives(exact, make_family(exact.task), tasks, stop)

    def iterations(self, state: MAMLState) -> Iterator[IterationResult]:
        """Yields the result of each iteration after a state, to the last.

        Raises:
          RunFailed: All lives of an iteration failed.
          Interrupted: `stop` was set.
        """
        while state.iteration < self._experiment.outer.iterations:
            result = self._iteration(state)
            state = result.state
            yield result

    def _iteration(self, state: MAMLState) -> IterationResult:
        started = time.perf_counter()
        batches, after = self._live(state)
        succeeded = ~self._lives.failed
        self._check(succeeded, state)
        moved, norm, succeeded = self._move(state, batches, after, succeeded)
        self._check(succeeded, state)  # gradients that are not finite are failures, too
        observed = state.observed
        for batch in (*batches, after):
            rows = batch.observation[succeeded]
            observed = normalizer.merge(observed, rows.reshape(1, -1, rows.shape[-1]))
        moved = dataclasses.replace(
            moved,
            iteration=state.iteration + 1,
            observed=observed,
            env_steps=state.env_steps + self._experiment.iteration_steps,
        )
        moved, validation, failed = self._validated(moved)
        before = batches[0].returns[succeeded]
        numbers = {
            "epoch": moved.iteration,
            "return_before_mean": _mean(before),
            "return_after_mean": _mean(after.returns[succeeded]),
            "gain_mean": _mean(after.returns[succeeded] - before),
            "validation_return_mean": validation,
            "gradient_norm": norm,
            "failed_lives": int((~succeeded).sum()),
            FAILED: failed,
            "env_steps": moved.env_steps,
            "seconds": time.perf_counter() - started,
        }
        return IterationResult(moved, numbers)

    def _check(self, succeeded: Array, state: MAMLState) -> None:
        """Raises RunFailed if no life of an iteration succeeded."""
        if not succeeded.any():
            settings = self._experiment
            raise RunFailed(
                f"all {succeeded.size} lives of iteration {state.iteration + 1} failed; correct "
                "the environment, or make config.adaptation.learning_rate="
                f"{settings.adaptation.learning_rate} or config.outer.learning_rate="
                f"{settings.outer.learning_rate} smaller"
            )

    def _live(self, state: MAMLState) -> tuple[list[Batch], Batch]:
        """Returns the samples before each gradient step, and those after the last."""
        adaptation, lives = self._experiment.adaptation, self._lives
        numbers = range(self._experiment.outer.tasks)
        lives.begin(
            [LifeKey(self._seed, "evolution", state.iteration, number) for number in numbers],
            state.start,
        )
        batches = []
        for _ in range(adaptation.steps):
            batches.append(lives.sample(adaptation.env_steps, adaptation.env_steps))
            lives.adapt(batches[-1])
        return batches, lives.sample(adaptation.env_steps, adaptation.env_steps)

    def _move(
        self, state: MAMLState, batches: list[Batch], after: Batch, succeeded: Array
    ) -> tuple[MAMLState, float, Array]:
        """Returns the state with the initialisation moved by `outer.epochs` steps of Adam, the norm
        of the first gradient, and the lives that took part in all steps, [P] bool.
        """
        outer, norm = self._experiment.outer, np.nan
        weights, first, second = state.weights, state.first_moment, state.second_moment
        for epoch in range(outer.epochs):
            _, parts = self._lives.meta_gradient(weights, batches, after)
            rows = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
            succeeded = succeeded & np.isfinite(rows).all(axis=1)
            gradient = rows[succeeded].mean(axis=0) if succeeded.any() else np.zeros_like(weights)
            norm = float(np.linalg.norm(gradient)) if epoch == 0 else norm
            number = float(state.iteration * outer.epochs + epoch + 1)
            update, first, second = (
                part.numpy()
                for part in adam_update(
                    tf.constant(gradient), first, second, number, learning_rate=outer.learning_rate
                )
            )
            weights = weights + update
        moved = dataclasses.replace(
            state, weights=weights, first_moment=first, second_moment=second
        )
        return moved, norm, succeeded

    def _validated(self, state: MAMLState) -> tuple[MAMLState, float, float]:
        """Returns the state with its best start, the mean return in validation, and how many lives
        failed there; NaN without.

        Validation is in exact physics, always in the same tasks, which meta-training never meets.
        """
        outer, adaptation = self._experiment.outer, self._experiment.adaptation
        if not outer.validation_period or state.iteration % outer.validation_period:
            return state, np.nan, np.nan
        lives = self._validation
        keys = [LifeKey(self._seed, "validation", 0, number) for number in range(outer.tasks)]
        lives.begin(keys, state.start)
        for _ in range(adaptation.steps):
            lives.adapt(lives.sample(adaptation.env_steps, adaptation.env_steps))
        played = lives.play(outer.final_episodes)
        steps = outer.tasks * adaptation.steps * adaptation.env_steps + int(played.env_steps.sum())
        state = dataclasses.replace(state, env_steps=state.env_steps + steps)
        found = mean_return(np.where(lives.failed, np.nan, played.mean_return))
        if found > state.best_return:
            state = dataclasses.replace(
                state, best=state.start, best_return=found, best_iteration=state.iteration
            )
        return state, found, float(lives.failed.sum())


def _mean(returns: Array) -> float:
    """Returns the mean of the numbers among [K]; NaN where there are none."""
    known = returns[np.isfinite(returns)]
    return float(known.mean()) if known.size else np.nan
