"""MAML as a method of a test: fresh agents adapt an initialisation that was meta-trained before."""

from __future__ import annotations

import dataclasses

import numpy as np

from epg_tf.baselines.lived_shards import LivedShard, live_in_shards, outcome
from epg_tf.baselines.maml_lives import Initialisation, MAMLLives
from epg_tf.baselines.maml_settings import TEST_STEPS, MAMLExperiment
from epg_tf.baselines.method import LearningCurves, Method, Request
from epg_tf.baselines.policy_gradient import nearest_divisor
from epg_tf.core.types import LifeKey
from epg_tf.tasks.registry import make_family

_CURVE_STEPS = 64  # about so many env steps are between points of the curve


@dataclasses.dataclass(frozen=True)
class MAMLMethod(Method):
    """Lets agents adapt by gradient steps, each on samples of as many env steps as requested.

    Its curve is of the newest episode of the samples, with exploration, and so are its final
    episodes; as those of EPG.

    Attributes:
      name: Of `TEST_STEPS`.
      experiment: Settings of meta-training, of which policy, adaptation and `outer.tasks` apply.
      start: Of all agents.
      threads: Shards of `outer.tasks` agents at once; 0: one per CPU.
      loss: Names where the initialisation was read from.
    """

    name: str
    experiment: MAMLExperiment
    start: Initialisation
    threads: int

    def train(self, request: Request) -> LearningCurves:
        """Lets L agents adapt; NaN where one failed. U is the request's `env_steps`."""
        return live_in_shards(
            lambda shard: self._adapt(shard, request),
            request.keys(),
            self.experiment.outer.tasks,
            self.threads,
            _period(request),
        )

    def _adapt(self, keys: list[LifeKey], request: Request) -> LivedShard:
        family = make_family(request.task)
        settings = dataclasses.replace(self.experiment, task=request.task)
        lives = MAMLLives(settings, family, len(keys))
        lives.begin(keys, self.start)
        curves = [np.zeros((len(keys), 0))]
        for _ in range(TEST_STEPS[self.name] if request.env_steps else 0):
            batch = lives.sample(request.env_steps, _period(request))
            lives.adapt(batch)
            curves.append(batch.curve)
        played = lives.play(request.episodes)
        curve = np.concatenate(curves, axis=1)
        return outcome(family, curve, played.mean_return, played.success_rate, lives.failed)


def _period(request: Request) -> int:
    """Returns the env steps between points of the curve."""
    return nearest_divisor(max(1, request.env_steps), _CURVE_STEPS)
