"""Runs the lives of one shard after another, in the physics that each call asks for."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence

from epg_tf.core.experiment import Experiment, TaskConfig
from epg_tf.core.types import Array, LifeKey, LifeResults
from epg_tf.epg.inner_loop import InnerLoop, Teaching
from epg_tf.tasks.base import Simulation, TaskFamily
from epg_tf.tasks.registry import make_family, simulate


@dataclasses.dataclass(frozen=True)
class ShardRequest:
    """Which lives a shard runs.

    Attributes:
      keys: P keys.
      phi: [P, D] float32, the loss of each life.
      teaching: How the agents learn.
      exact: Whether the lives are in exact physics, whatever those of the experiment.
    """

    keys: Sequence[LifeKey]
    phi: Array
    teaching: Teaching
    exact: bool


class ShardLoop:
    """Owns an inner loop, and simulations in exact physics once they are asked for.

    One thread at a time may use it.

    Args:
      experiment: Settings.
      measure_kl: Whether lives report the KL divergence of their updates.
      stop: When set, lives end early with `Interrupted`.
      family_maker: Makes the family that agents live in; the experiment's by default.
    """

    def __init__(
        self,
        experiment: Experiment,
        measure_kl: bool,
        stop: threading.Event,
        family_maker: Callable[[TaskConfig], TaskFamily] = make_family,
    ):
        self.experiment = experiment
        self._family_maker = family_maker
        self._loop = InnerLoop(experiment, family_maker(experiment.task), measure_kl, stop)
        self._exact: Simulation | None = None

    @property
    def seconds(self) -> dict[str, float]:
        """Returns the seconds spent so far in each of `inner_loop.PARTS`."""
        return self._loop.seconds

    def run(self, request: ShardRequest) -> LifeResults:
        """Runs the P lives of a shard; errors as of `InnerLoop.run`."""
        simulation = self._exact_simulation() if request.exact else None
        return self._loop.run(request.keys, request.phi, request.teaching, simulation=simulation)

    def _exact_simulation(self) -> Simulation | None:
        """Returns simulations in exact physics; None where the loop's own are."""
        if self.experiment.task.physics == "exact":
            return None
        if self._exact is None:
            family = self._family_maker(self.experiment.in_physics("exact").task)
            self._exact = simulate(family, self.experiment.compute.shard_lives)
        return self._exact

    def close(self) -> None:
        """Does nothing: it holds no process."""
