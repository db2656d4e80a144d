"""Methods that train agents by EPG's inner loop (Algorithm 2): any loss, learned or not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from epg_tf.baselines.method import LearningCurves, Method, Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array, LifeResults
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import Shards


class InnerLoops:
    """Runs lives of EPG's inner loop; several methods share its threads and compiled functions.

    Args:
      experiment: Settings; task, number of updates and final episodes are those of each request.
      measure_kl: Whether lives report the KL divergence of their updates.
    """

    def __init__(self, experiment: Experiment, measure_kl: bool = False):
        self.experiment = experiment
        self._measure_kl = measure_kl
        self._shards: Shards | None = None

    def run(
        self, request: Request, phi: Callable[[int], Array], inner_settings: InnerLoopSettings
    ) -> LearningCurves:
        """Runs one life per agent.

        Args:
          request: Which agents.
          phi: Maps the number of an agent, 0 to L - 1, to the parameters [D] of its loss.
          inner_settings: How agents learn; the request sets the number of updates.

        Raises:
          ConfigError: The env steps are no whole number of updates.
        """
        period = self.experiment.inner.update_period
        if request.env_steps % period:
            raise ConfigError(
                f"env_steps={request.env_steps} is no multiple of config.inner.update_period="
                f"{period}; choose one"
            )
        inner_settings = dataclasses.replace(inner_settings, updates=request.env_steps // period)
        lives = self._shards_for(request).run(request.keys(), phi, inner_settings)
        return curves_of_lives(lives, period)

    def _shards_for(self, request: Request) -> Shards:
        """Returns shards with the settings of a request: those of the last one if they fit. A
        shard is no larger than the request, so that no life runs twice to fill it.
        """
        inner = dataclasses.replace(self.experiment.inner, final_episodes=request.episodes)
        compute = self.experiment.compute
        compute = dataclasses.replace(compute, shard_lives=min(compute.shard_lives, request.agents))
        settings = dataclasses.replace(
            self.experiment, task=request.task, inner=inner, compute=compute
        )
        if self._shards is None or self._shards.experiment != settings:
            self.close()
            self._shards = Shards(settings, self._measure_kl)
        return self._shards

    def close(self) -> None:
        """Stops the threads."""
        if self._shards is not None:
            self._shards.close()
            self._shards = None

    def __enter__(self) -> InnerLoops:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def curves_of_lives(lives: LifeResults, update_period: int) -> LearningCurves:
    """Returns the learning curves of lives of M = `update_period`; lives that failed are NaN."""
    updates = lives.episode_return.shape[1]
    failed = lives.failed[:, None]
    return LearningCurves(
        (np.arange(updates) + 1) * update_period,
        np.where(failed, np.nan, lives.episode_return),
        np.where(failed, np.nan, lives.kl),
        lives.final_return,
        lives.success,
        lives.policy_hash,
    )


@dataclasses.dataclass(frozen=True)
class InnerLoopMethod(Method):
    """Trains agents by EPG's inner loop with one kind of loss; the curve is of the newest episode.

    Attributes:
      loops: What runs the lives.
      phi: Maps the number of an agent to the parameters [D] of its loss.
      inner_settings: How agents learn; the request sets the number of updates.
    """

    loops: InnerLoops
    phi: Callable[[int], Array]
    inner_settings: InnerLoopSettings

    def train(self, request: Request) -> LearningCurves:
        """Trains L agents; errors as of `InnerLoops.run`."""
        return self.loops.run(request, self.phi, self.inner_settings)
