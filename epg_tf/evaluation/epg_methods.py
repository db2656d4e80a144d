"""Meta-testing (Algorithm 2): fresh agents, unseen tasks, a frozen loss, beside what it is compared
with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from epg_tf.core.experiment import Experiment
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey, LifeResults
from epg_tf.epg import evolution_strategies
from epg_tf.epg.inner_loop import InnerLoop, Teaching
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.shards import Shards
from epg_tf.evaluation import statistics
from epg_tf.tasks.quantities import Task
from epg_tf.tasks.registry import make_family

METHODS = ("epg", "ppo", "untrained", "random_loss")
_UNEVOLVED = 2**31  # seeds of unevolved losses start here, far from the seeds people choose


@dataclasses.dataclass(frozen=True)
class Score:
    """How one method did; returns are undiscounted sums of reward per episode.

    Attributes:
      final_return_mean: Mean over lives; a failed life counts as the worst of the others.
      final_return_iqm: Interquartile mean.
      ci95: 95 % confidence interval of the mean.
      auc_mean: Area under the learning curve: return of the newest episode, averaged over a life's
        updates, then over lives; a failed life counts as the worst of the others.
      auc_ci95: 95 % confidence interval of that.
      success_rate: Mean share of final episodes that ended at the goal; NaN in families without
        one.
      lives: Number of lives, one unseen task each.
      failed_lives: How many of them failed.
      env_steps: Env steps of learning in each life, the same for every method.
    """

    final_return_mean: float
    final_return_iqm: float
    ci95: tuple[float, float]
    auc_mean: float
    auc_ci95: tuple[float, float]
    success_rate: float
    lives: int
    failed_lives: int
    env_steps: int


@dataclasses.dataclass(frozen=True)
class TrainedAgent:
    """An agent at the end of its life.

    Attributes:
      weights: Of its policy, in the order of `Policy.variables_in_order`, without the population
      axis.
      shift: [O], of the normalisation of observations, (x - shift) * scale.
      scale: [O].
      task: What it lived in, name -> values.
      final_return: Mean return of its final episodes; NaN where it failed.
      policy_hash: SHA-256 of its policy and memory.
    """

    weights: list[Array]
    shift: Array
    scale: Array
    task: Task
    final_return: float
    policy_hash: str


def meta_test(
    experiment: Experiment,
    phi: Array,
    seed: int,
    lives: int = 64,
    updates: int | None = None,
    methods: Sequence[str] = METHODS,
    done: Callable[[str], None] | None = None,
) -> dict[str, LifeResults]:
    """Trains fresh agents with a frozen loss, and by the other methods on the very same tasks.

    Args:
      experiment: Settings.
      phi: [D] float32, the evolved loss.
      seed: Names the tasks; whatever it is, evolution, validation and tuning met none of them.
      lives: Number of lives per method.
      updates: Updates per life, or None for the experiment's number.
      methods: Of `METHODS`: "epg"; "ppo" with its own tuned learning rate and passes; "untrained",
        an agent that never learns; "random_loss", a loss drawn afresh for each life and never
        evolved.
      done: Called with each method's name when its lives have ended.

    Returns:
      Results by method; lives with the same number met the same task, start and action noise.
    """
    inner, surrogate = experiment.inner, experiment.surrogate
    experiment = dataclasses.replace(
        experiment, surrogate=dataclasses.replace(surrogate, kind="ppo")
    )
    keys = [LifeKey(seed, "test", 0, index) for index in range(lives)]
    frozen = phi.copy()
    frozen.flags.writeable = False
    plans = {
        "epg": (lambda life: frozen, Teaching(0.0, inner.learning_rate)),
        "ppo": (
            lambda life: frozen,
            Teaching(1.0, surrogate.baseline_learning_rate, surrogate.baseline_epochs),
        ),
        "untrained": (lambda life: frozen, Teaching(0.0, 0.0)),
        "random_loss": (
            lambda life: initial_phi(experiment, _UNEVOLVED + life),
            Teaching(0.0, inner.learning_rate),
        ),
    }
    results = {}
    with Shards(experiment, measure_kl=True) as shards:
        for method in methods:
            loss, teaching = plans[method]
            results[method] = shards.run(keys, loss, teaching, updates)
            if done is not None:
                done(method)
    return results


def trained_agent(
    experiment: Experiment, phi: Array, seed: int, lives: int, updates: int | None = None
) -> TrainedAgent:
    """Trains the first agent of a test once more, bit for bit, to keep it; arguments as in
    `meta_test`.

    Its neighbours in the shard are trained, too, for the size of a shard is part of the numbers.
    """
    family = make_family(experiment.task)
    keys = [
        LifeKey(seed, "test", 0, min(index, lives - 1))
        for index in range(experiment.compute.shard_lives)
    ]
    loop = InnerLoop(experiment, family, measure_kl=True)
    results = loop.run(
        keys,
        np.repeat(phi[None], len(keys), axis=0),
        Teaching(0.0, experiment.inner.learning_rate),
        updates,
    )
    shift, scale = (part[0] for part in loop.observation_scaling)
    return TrainedAgent(
        [weight[0] for weight in loop.learner.weights()],
        shift,
        scale,
        family.sample_task(life_generator(keys[0], "task")),
        float(results.final_return[0]),
        str(results.policy_hash[0]),
    )


def score(lives: LifeResults, env_steps: int) -> Score:
    """Sums up the lives of one method; all numbers are NaN if every life failed."""
    if lives.failed.all():
        nan = float("nan")
        return Score(nan, nan, (nan, nan), nan, (nan, nan), nan, len(lives), len(lives), env_steps)
    returns, areas = evolution_strategies.raw_weights(lives.final_return), _areas(lives)
    areas = evolution_strategies.raw_weights(areas) if np.isfinite(areas).any() else areas
    return Score(
        float(np.mean(returns)),
        statistics.interquartile_mean(returns),
        statistics.confidence_interval(returns),
        float(np.mean(areas)),
        statistics.confidence_interval(areas),
        float(np.mean(lives.success)),
        len(lives),
        int(lives.failed.sum()),
        env_steps,
    )


def _areas(lives: LifeResults) -> Array:
    """Averages each life's learning curve from its first finished episode on; NaN where it failed
    or none finished.
    """
    known = np.isfinite(lives.episode_return)
    total = np.where(known, lives.episode_return, 0.0).sum(axis=1)
    return np.where(
        lives.failed | ~known.any(axis=1), np.nan, total / np.maximum(known.sum(axis=1), 1)
    )
