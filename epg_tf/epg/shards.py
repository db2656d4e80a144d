"""Lays lives out in shards of fixed size, one thread each, over threads and ranks, and gathers what
they found.

A shard is single-threaded through and through, so a life's arithmetic does not depend on how many
shards run at once, or on which rank. A last shard that is not full is filled up with repeats, whose
results are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from epg_tf.core.communication import Communicator
from epg_tf.core.errors import Interrupted
from epg_tf.core.experiment import Experiment
from epg_tf.core.threads import configure_tensorflow, cpus
from epg_tf.core.types import Array, LifeKey, LifeOutcomes, LifeResults
from epg_tf.epg.inner_loop import PARTS, InnerLoop, Teaching
from epg_tf.tasks.registry import make_family


def thread_count(experiment: Experiment, processes: int = 1) -> int:
    """Returns how many shards run at once: as configured, or one per CPU this process may use.

    Args:
      experiment: Settings.
      processes: Number of processes that share these CPUs.
    """
    return experiment.compute.threads or cpus(processes)


class Shards:
    """Runs any number of lives, `shard_lives` to a shard, one shard per thread at a time.

    Args:
      experiment: Settings.
      measure_kl: Whether lives report the KL divergence of their updates.
      family_maker: Makes the family agents live in; the experiment's by default.
      processes: Number of processes that share these CPUs.

    Attributes:
      stopped: Set once lives are to end early.
    """

    def __init__(
        self,
        experiment: Experiment,
        measure_kl: bool = False,
        family_maker: Callable = make_family,
        processes: int = 1,
    ):
        self.experiment = experiment
        self.shard_lives = experiment.compute.shard_lives
        self.threads = thread_count(experiment, processes)
        configure_tensorflow(self.threads)
        self._measure_kl = measure_kl
        self._family_maker = family_maker
        self.stopped = threading.Event()
        self._local = threading.local()
        self._loops: list[InnerLoop] = []
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="shard")

    def run(
        self,
        keys: Sequence[LifeKey],
        phi: Callable[[int], Array],
        teaching: Teaching,
        updates: int | None = None,
        done: Callable[[int], None] | None = None,
    ) -> LifeResults:
        """Lives one life per key.

        Args:
          keys: L keys.
          phi: Maps the number of a life, 0 to L - 1, to the parameters [D] of its loss.
          teaching: How agents are taught.
          updates: Updates in a life, or None for the experiment's number.
          done: Called with the number of lives of each shard that ends.

        Returns:
          Results of the L lives, in the order of the keys.
        """

        def live(lives: list[int]) -> LifeResults:
            if not hasattr(self._local, "loop"):
                self._local.loop = self._new_loop()
            return self._local.loop.run(
                [keys[life] for life in lives], _stacked(phi, lives), teaching, updates
            )

        return self._over_shards(len(keys), live, done)

    def _over_shards(
        self,
        count: int,
        live: Callable[[list[int]], LifeResults],
        done: Callable[[int], None] | None,
    ) -> LifeResults:
        """Calls live(lives of a shard) for all shards, as many at a time as there are threads."""
        size, futures = self.shard_lives, []
        for start in range(0, count, size):
            lives = [min(start + offset, count - 1) for offset in range(size)]
            futures.append(self._pool.submit(self._unless_stopped, live, lives))
        try:
            parts = []
            for number, future in enumerate(futures):
                parts.append(future.result())
                if done is not None:
                    done(min(size, count - number * size))
        except BaseException:
            self.stop()
            raise
        return LifeResults.join(parts).head(count)

    def _unless_stopped(
        self, live: Callable[[list[int]], LifeResults], lives: list[int]
    ) -> LifeResults:
        if self.stopped.is_set():
            raise Interrupted
        return live(lives)

    def _new_loop(self) -> InnerLoop:
        loop = InnerLoop(
            self.experiment,
            self._family_maker(self.experiment.task),
            self._measure_kl,
            self.stopped,
        )
        self._loops.append(loop)
        return loop

    def seconds(self) -> dict[str, float]:
        """Returns thread seconds spent so far in each of `inner_loop.PARTS`, over all threads."""
        return {part: sum(loop.seconds[part] for loop in self._loops) for part in PARTS}

    def stop(self) -> None:
        """Makes running lives end with `Interrupted` after the update they are in, and all later
        ones: for good.
        """
        self.stopped.set()

    def close(self) -> None:
        """Stops lives and threads."""
        self.stop()
        self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *_) -> None:
        self.close()


def lives_of_rank(lives: int, shard_lives: int, rank: int, size: int) -> list[int]:
    """Returns the lives of a rank, in order: all of every size-th shard, from shard `rank` on.

    So no rank has more than one shard above another, and all ranks meet the same mix of noise
    vectors.
    """
    return [life for life in range(lives) if life // shard_lives % size == rank]


def run_on_ranks(
    shards: Shards,
    communicator: Communicator,
    keys: Sequence[LifeKey],
    phi: Callable[[int], Array],
    teaching: Teaching,
    updates: int | None = None,
    done: Callable[[int], None] | None = None,
) -> LifeOutcomes:
    """Lives one life per key, each rank its shards; arguments as in `Shards.run`, the same on every
    rank.

    Four numbers per life are sent, whatever the size of phi.

    Returns:
      Outcomes of all lives, the same bits everywhere.
    """
    mine = lives_of_rank(len(keys), shards.shard_lives, communicator.rank, communicator.size)
    lives = (
        shards.run([keys[life] for life in mine], lambda i: phi(mine[i]), teaching, updates, done)
        if mine
        else None
    )
    return _shared(communicator, len(keys), mine, lives)


def _shared(
    communicator: Communicator, count: int, mine: list[int], lives: LifeOutcomes | None
) -> LifeOutcomes:
    packed = np.zeros((count, 4), np.int64)
    if mine:
        packed[mine] = pack(lives)
    return unpack(communicator.sum(packed))


def _stacked(phi: Callable[[int], Array], lives: Sequence[int]) -> Array:
    return np.stack([phi(life) for life in lives])


def pack(lives: LifeOutcomes) -> Array:
    """Writes outcomes as [L, 4] int64: floats as their bits, so that adding zeros changes none, NaN
    and -0 included.
    """
    bits = [
        np.asarray(values, np.float64).view(np.int64)
        for values in (lives.final_return, lives.success)
    ]
    return np.stack(
        [*bits, lives.failed.astype(np.int64), lives.env_steps.astype(np.int64)], axis=1
    )


def unpack(packed: Array) -> LifeOutcomes:
    """Reads what `pack` wrote."""
    final_return, success, failed, env_steps = packed.T.copy()
    return LifeOutcomes(
        final_return.view(np.float64), success.view(np.float64), failed.astype(bool), env_steps
    )
