"""Meta-trains the recurrent policy of RL² (Duan et al. 2016, section 2) or of E-RL² (Stadie et
al. 2018, section 3): PPO on trials, each in a task of its own.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import numpy as np

from epg_tf.baselines.played_trials import Trials, play_trials, without_exploration
from epg_tf.baselines.recurrent_ppo import RecurrentAgent
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import ConfigError, RunFailed
from epg_tf.core.random_streams import life_generator
from epg_tf.core.threads import configure_tensorflow, threads_of
from epg_tf.core.types import Array, LifeKey
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig
from epg_tf.tasks.trials import TrialEnvironment

_LOSSES = ("policy_loss", "value_loss", "clipped_share")

FAILED = "failed_validation_trials"
"""Column of the trials in which physics failed; NaN in iterations without a validation."""


@dataclasses.dataclass(frozen=True)
class IterationResult:
    """Holds what is known after an iteration.

    Attributes:
      iteration: Iterations done.
      best_return: Of all validations so far; -inf before the first.
      is_best: Whether this iteration's validation gave it.
      metrics: Numbers by the name of their column.
    """

    iteration: int
    best_return: float
    is_best: bool
    metrics: dict[str, float]


def metric_columns(experiment: RL2Experiment) -> tuple[str, ...]:
    """Returns the names of an iteration's numbers: episodes count from 1."""
    return (
        "epoch",
        "env_steps",
        *_episode_columns("training_return", experiment),
        *_episode_columns("validation_return", experiment),
        "diverged_trials",
        FAILED,
        *_LOSSES,
        "seconds",
    )


def _episode_columns(name: str, experiment: RL2Experiment) -> list[str]:
    return [f"{name}/episode_{number + 1}" for number in range(experiment.trial.episodes)]


def rl2_family(task: TaskConfig) -> TaskFamily:
    """Returns the family of a task.

    Raises:
      ConfigError: There is no such family, or its actions have no bounds.
    """
    family = make_family(task)
    if not (family.discrete_actions or np.isfinite(family.action_bounds).all()):
        raise ConfigError(
            f"config.task.family={task.family!r}: RL² needs actions with finite bounds, which "
            f"{family.name} does not have; {family.how_to_bound}"
        )
    return family


class RL2Trainer:
    """Moves one recurrent policy from iteration to iteration.

    Args:
      experiment: Settings.
      seed: Of all randomness.

    Attributes:
      experiment: As given.
      agent: What learns.

    Raises:
      ConfigError: The family does not fit.
    """

    def __init__(self, experiment: RL2Experiment, seed: int) -> None:
        configure_tensorflow(threads_of(experiment.threads))
        self.experiment, self._seed = experiment, seed
        family = rl2_family(experiment.task)
        self._environment = TrialEnvironment(family, experiment.trials, experiment.trial_steps)
        self.agent = RecurrentAgent(family, experiment.network, experiment.ppo, seed)
        self._validation: TrialEnvironment | None = None

    def iterate(self, done: int, best_return: float) -> Iterator[IterationResult]:
        """Meta-trains to the end.

        Args:
          done: Iterations that the agent has behind it.
          best_return: Of its validations.

        Yields:
          A result per iteration.

        Raises:
          RunFailed: A loss is not finite, or all trials of an iteration failed.
        """
        for iteration in range(done + 1, self.experiment.iterations + 1):
            started = time.perf_counter()
            metrics = self._learn(iteration)
            due = iteration % self.experiment.validation_period == 0
            nothing = np.full(self.experiment.trial.episodes, np.nan), np.nan
            returns, metrics[FAILED] = self._validate() if due else nothing
            metrics |= self._by_episode("validation_return", returns)
            is_best = bool(returns[-1] > best_return)
            best_return = float(returns[-1]) if is_best else best_return
            metrics["seconds"] = time.perf_counter() - started
            yield IterationResult(iteration, best_return, is_best, metrics)

    def _learn(self, iteration: int) -> dict[str, float]:
        """Plays trials and learns from them; returns numbers."""
        experiment, count = self.experiment, self.experiment.trials
        keys = [LifeKey(self._seed, "rl2", iteration, number) for number in range(count)]
        trials = play_trials(self._environment, self.agent, keys)
        if trials.diverged.all():
            raise RunFailed(
                f"all {count} trials of iteration {iteration} failed: "
                f"{self._environment.divergence}; correct the environment"
            )
        trajectory = without_exploration(trials, experiment.trial.exploratory_episodes)
        if iteration == 1:
            self.agent.observe(trajectory)
            losses = dict.fromkeys(_LOSSES, float("nan"))
        else:
            order = life_generator(keys[0], "minibatch")
            orders = [order.permutation(count) for _ in range(experiment.ppo.epochs)]
            losses = self.agent.update(trajectory, orders)
            if not np.isfinite(list(losses.values())).all():
                raise RunFailed(
                    f"a loss is not finite in iteration {iteration}; make "
                    f"config.ppo.learning_rate={experiment.ppo.learning_rate} smaller"
                )
        returns = mean_returns(trials, experiment.trial.episodes)
        return {
            "epoch": iteration,
            "env_steps": experiment.env_steps_after(iteration),
            **self._by_episode("training_return", returns),
            "diverged_trials": int(trials.diverged.sum()),
            **losses,
        }

    def _by_episode(self, name: str, returns: Array) -> dict[str, float]:
        columns = _episode_columns(name, self.experiment)
        return dict(zip(columns, map(float, returns), strict=True))

    def _validate(self) -> tuple[Array, float]:
        """Returns the mean return of each episode of trials in exact physics, [K], and the number
        of trials that failed.
        """
        experiment = self.experiment
        count = experiment.validation_trials
        if self._validation is None:
            task = dataclasses.replace(experiment.task, physics="exact")
            family = make_family(task)
            self._validation = TrialEnvironment(family, count, experiment.trial_steps)
        keys = [LifeKey(self._seed, "validation", 0, number) for number in range(count)]
        trials = play_trials(self._validation, self.agent, keys)
        return mean_returns(trials, experiment.trial.episodes), float(trials.diverged.sum())


def mean_returns(trials: Trials, episodes: int) -> Array:
    """Returns the mean return of each of the first K episodes; where trials diverged, they count as
    the worst of the others.

    Args:
      trials: P of them.
      episodes: K.

    Returns:
      [K], NaN for an episode that no trial has ended.
    """
    table = episode_table(trials, episodes)
    worst = np.where(np.isnan(table), np.inf, table).min(axis=0)
    table[trials.diverged] = np.where(np.isinf(worst), np.nan, worst)
    known = ~np.isnan(table)
    sums = np.where(known, table, 0.0).sum(axis=0)
    counts = known.sum(axis=0)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


def episode_table(trials: Trials, episodes: int) -> Array:
    """Returns the returns of the first K episodes of P trials, [P, K].

    NaN where an episode did not end, or physics failed in the trial.
    """
    table = np.full((len(trials.returns), episodes), np.nan)
    for row, values in enumerate(trials.returns):
        if not trials.diverged[row]:
            kept = values[:episodes]
            table[row, : len(kept)] = kept
    return table
