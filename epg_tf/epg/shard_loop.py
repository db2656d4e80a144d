"""Runs the lives of one shard after another, in the physics that each call asks for."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

from epg_tf.core.types import Array, LifeKey, LifeResults
from epg_tf.epg.inner_loop import PARTS, InnerLoop, InnerLoopSettings
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.base import Simulation
from epg_tf.tasks.registry import make_family, simulate


@dataclasses.dataclass(frozen=True)
class ShardRequest:
    """Which lives a shard runs.

    Attributes:
      keys: P keys.
      phi: [P, D] float32, the loss of each life.
      inner_settings: How the agents learn.
      exact: Whether the lives are in exact physics, whatever those of the experiment.
      task: Number of the experiment's task that all of them live in.
    """

    keys: Sequence[LifeKey]
    phi: Array
    inner_settings: InnerLoopSettings
    exact: bool
    task: int = 0


class ShardLoop:
    """Owns an inner loop for each task of an experiment, and simulations in exact physics, once
    they are asked for.

    One thread at a time may use it.

    Args:
      experiment: Settings.
      measure_kl: Whether lives report the KL divergence of their updates.
      stop: When set, lives end early with `Interrupted`.
    """

    def __init__(self, experiment: Experiment, measure_kl: bool, stop: threading.Event):
        self.experiment = experiment
        self._measure_kl = measure_kl
        self._stop = stop
        self._loops: dict[int, InnerLoop] = {}
        self._exact: dict[int, Simulation] = {}

    @property
    def seconds(self) -> dict[str, float]:
        """Returns the seconds spent so far in each of `inner_loop.PARTS`."""
        loops = self._loops.values()
        return {part: sum(loop.seconds[part] for loop in loops) for part in PARTS}

    def run(self, request: ShardRequest) -> LifeResults:
        """Runs the P lives of a shard; errors as of `InnerLoop.run`."""
        experiment = self.experiment.of_task(request.task)
        if request.task not in self._loops:
            family = make_family(experiment.task)
            loop = InnerLoop(experiment, family, self._measure_kl, self._stop)
            self._loops[request.task] = loop
        simulation = self._exact_simulation(request.task, experiment) if request.exact else None
        return self._loops[request.task].run(
            request.keys, request.phi, request.inner_settings, simulation=simulation
        )

    def _exact_simulation(self, number: int, experiment: Experiment) -> Simulation | None:
        """Returns simulations of a task in exact physics; None where the loop's own are."""
        if experiment.task.physics == "exact":
            return None
        if number not in self._exact:
            family = make_family(experiment.in_physics("exact").task)
            self._exact[number] = simulate(family, experiment.compute.shard_lives)
        return self._exact[number]

    def close(self) -> None:
        """Does nothing: it holds no process."""
