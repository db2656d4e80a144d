"""MAML as a method of a test: fresh agents adapt an initialisation that was meta-trained before."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from epg_tf.baselines.maml_lives import Initialisation, MAMLLives
from epg_tf.baselines.method import LABELS, LearningCurves, LossName, Request
from epg_tf.baselines.own_period import nearest_divisor
from epg_tf.core.maml_experiment import MAMLExperiment
from epg_tf.core.threads import configure_tensorflow, cpus
from epg_tf.core.types import Array
from epg_tf.tasks.registry import make_family

STEPS = {"maml": 1, "maml10": 10}
"""Gradient steps at test, by the method's name (EPG, Figure 18: MAML and MAML10)."""

_CURVE_STEPS = 64  # about so many env steps are between points of the curve


@dataclasses.dataclass(frozen=True)
class MAMLMethod:
    """Lets agents adapt by gradient steps, each on samples of as many env steps as requested.

    Its curve is of the newest episode of the samples, with exploration, and so are its final
    episodes; as those of EPG.

    Attributes:
      name: Of `STEPS`.
      experiment: Settings of meta-training, of which policy, adaptation and `outer.tasks` apply.
      start: Of all agents.
      threads: Shards of `outer.tasks` agents at once; 0: one per CPU.
      loss: Names where the initialisation was read from.
    """

    name: str
    experiment: MAMLExperiment
    start: Initialisation
    threads: int
    loss: LossName | None = None

    @property
    def label(self) -> str:
        """Name of the method in pictures and tables."""
        return LABELS[self.name]

    @property
    def explores(self) -> bool:
        """True: the curve is of the newest episode of the samples."""
        return True

    def train(self, request: Request) -> LearningCurves:
        """Lets L agents adapt; NaN where one failed. U is the request's `env_steps`."""
        threads = self.threads or cpus(1)
        configure_tensorflow(threads)
        size, keys = self.experiment.outer.tasks, request.keys()
        filled = request.keys(-(-len(keys) // size) * size)  # a shard's size is part of the numbers
        shards = [filled[first : first + size] for first in range(0, len(filled), size)]
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(lambda shard: self._adapt(shard, request), shards))
        returns, final, success = (
            np.concatenate(part)[: len(keys)] for part in zip(*found, strict=True)
        )
        period = _period(request)
        return LearningCurves(
            (np.arange(returns.shape[1]) + 1) * period,
            returns,
            np.full(returns.shape, np.nan),
            final,
            success,
            np.full(len(keys), "", object),
        )

    def _adapt(self, keys: list, request: Request) -> tuple[Array, Array, Array]:
        """Returns curves [P, T], final returns [P] and successes [P] of a shard."""
        family = make_family(request.task)
        settings = dataclasses.replace(self.experiment, task=request.task)
        lives = MAMLLives(settings, family, len(keys))
        lives.begin(keys, self.start)
        curves = [np.zeros((len(keys), 0))]
        for _ in range(STEPS[self.name] if request.env_steps else 0):
            batch = lives.sample(request.env_steps, _period(request))
            lives.adapt(batch)
            curves.append(batch.curve)
        played = lives.play(request.episodes)
        failed = lives.failed
        success = np.where(failed, 0.0, played.success_rate)
        return (
            np.where(failed[:, None], np.nan, np.concatenate(curves, axis=1)),
            np.where(failed, np.nan, played.mean_return),
            success if family.goal_reaching else np.full(len(keys), np.nan),
        )


def _period(request: Request) -> int:
    """Returns the env steps between points of the curve."""
    return nearest_divisor(max(1, request.env_steps), _CURVE_STEPS)
