"""Divides lives into shards of fixed size, one CPU each, over processes and ranks.

A shard uses a single thread throughout, so the arithmetic of a life does not depend on the number
of shards at work, or on the rank. A last shard that is not full is filled up with repeats, whose
results are dropped. One of the shards that run at once is in this process, the others are in
processes of their own, because Python's lock lets one thread of a process run at a time.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from epg_tf.core.communication import Communicator
from epg_tf.core.errors import Interrupted
from epg_tf.core.threads import configure_tensorflow, has_gpu, threads_of
from epg_tf.core.types import Array, LifeKey, LifeOutcomes, LifeResults
from epg_tf.epg.inner_loop import PARTS, InnerLoopSettings
from epg_tf.epg.past_policies import agent_sizes, shared
from epg_tf.epg.process_start import StartedProcess
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shard_loop import ShardLoop, ShardRequest
from epg_tf.epg.shard_process import ShardProcess
from epg_tf.losses.extra_channels import are_shipped
from epg_tf.tasks.registry import is_importable

PACKED = 7  # numbers of a life that ranks exchange

PhiOfLife = Callable[[int], Array]
"""Maps the number of a life, 0 to L - 1, to the parameters of its loss, [D] float32."""


def thread_count(experiment: Experiment, processes: int = 1) -> int:
    """Returns how many shards run at once: as configured, or one per CPU this process may use.

    Args:
      experiment: Settings.
      processes: Number of processes that share these CPUs.
    """
    return threads_of(experiment.compute.threads, processes)


def processes_fit(experiment: Experiment) -> bool:
    """Returns whether shards may run in processes of their own.

    Not where a process would take a GPU for itself, or cannot know a family or a channel of the
    loss because a file of the user defines it.
    """
    apart = experiment.compute.parallel == "processes" and os.name == "posix"
    known = all(is_importable(task.family) for task in experiment.tasks)
    return apart and known and are_shipped(experiment.loss.channels) and not has_gpu()


class Shards:
    """Runs any number of lives, `shard_lives` in a shard, one shard per CPU at a time.

    Args:
      experiment: Settings.
      measure_kl: Whether lives report the KL divergence of their updates.
      processes: Number of processes that share these CPUs.
      started: Processes to use before others are started.

    Attributes:
      shard_lives: P.
      threads: Shards that run at once.
      stopped: Set once lives are to end early.
    """

    def __init__(
        self,
        experiment: Experiment,
        measure_kl: bool = False,
        processes: int = 1,
        started: Sequence[StartedProcess] = (),
    ) -> None:
        self.experiment = experiment
        self.shard_lives = experiment.compute.shard_lives
        self.threads = thread_count(experiment, processes)
        configure_tensorflow(self.threads)
        self.stopped = threading.Event()
        self._measure_kl = measure_kl
        self._local = threading.local()
        self._loops: list[ShardLoop | ShardProcess] = []
        self._places = itertools.count()
        self._started = started
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="shard")

    def run(
        self,
        keys: Sequence[LifeKey],
        phi_of_life: PhiOfLife,
        inner_settings: InnerLoopSettings,
        done: Callable[[int], None] | None = None,
        exact: bool = False,
        tasks: Sequence[int] | None = None,
    ) -> LifeResults:
        """Runs one life per key.

        Args:
          keys: L keys.
          phi_of_life: Parameters of each life's loss.
          inner_settings: How the agents learn.
          done: Called with the number of lives of each shard that ends.
          exact: Whether the lives are in exact physics, whatever those of the experiment.
          tasks: [L] numbers of the experiment's tasks that they live in; None: all in the first.

        Returns:
          Results of the L lives, in the order of the keys.

        Raises:
          Interrupted: `stop` was called.
        """
        numbers = [0] * len(keys) if tasks is None else tasks
        shards = lives_of_shards(numbers, self.shard_lives)
        futures = []
        for shard in shards:
            lives = shard + shard[-1:] * (self.shard_lives - len(shard))
            phis = functools.partial(self._stacked, lives, phi_of_life)
            own_keys, task = [keys[life] for life in lives], numbers[shard[0]]
            futures.append(
                self._pool.submit(
                    self._run_shard, own_keys, phis, inner_settings.of(lives), exact, task
                )
            )
        try:
            results = []
            for shard, future in zip(shards, futures, strict=True):
                results.append(future.result().head(len(shard)))
                if done is not None:
                    done(len(shard))
        except BaseException:
            self.stop()
            raise
        return LifeResults.join(results).take(np.argsort(np.concatenate(shards)))

    @staticmethod
    def _stacked(lives: Sequence[int], phi_of_life: PhiOfLife) -> Array:
        return np.stack([phi_of_life(life) for life in lives])

    def _run_shard(
        self,
        keys: Sequence[LifeKey],
        phis: Callable[[], Array],
        inner_settings: InnerLoopSettings,
        exact: bool,
        task: int,
    ) -> LifeResults:
        """Runs the lives of one shard on the inner loop of this thread."""
        if self.stopped.is_set():
            raise Interrupted
        if not hasattr(self._local, "loop"):
            self._local.loop = self._make_loop(next(self._places))
            self._loops.append(self._local.loop)
        loop: ShardLoop | ShardProcess = self._local.loop
        return loop.run(ShardRequest(keys, phis(), inner_settings, exact, task))

    def _make_loop(self, place: int) -> ShardLoop | ShardProcess:
        """Returns the inner loop of one thread: the first one's is in this process."""
        if place > 0 and processes_fit(self.experiment):
            started = self._started[place - 1] if place <= len(self._started) else None
            return ShardProcess(self.experiment, self._measure_kl, self.stopped, started)
        return ShardLoop(self.experiment, self._measure_kl, self.stopped)

    def seconds(self) -> dict[str, float]:
        """Returns thread seconds spent so far in each of `inner_loop.PARTS`, over all threads."""
        return {part: sum(loop.seconds[part] for loop in self._loops) for part in PARTS}

    def stop(self) -> None:
        """Ends running lives with `Interrupted` after their current update, and all later ones."""
        self.stopped.set()

    def close(self) -> None:
        """Stops lives, threads and processes."""
        self.stop()
        self._pool.shutdown(cancel_futures=True)
        for loop in self._loops:
            loop.close()

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class RankedShards:
    """Runs lives on all ranks, each rank its own shards; the same calls are made on every rank.

    Args:
      shards: Of this rank.
      communicator: Connects the ranks.
      done: Called with a number of lives whenever that many have ended on this rank.

    Attributes:
      communicator: As given.
      threads: Shards that run at once on this rank.
    """

    def __init__(
        self,
        shards: Shards,
        communicator: Communicator,
        done: Callable[[int], None] | None = None,
    ) -> None:
        self.communicator = communicator
        self.threads = shards.threads
        self._shards = shards
        self._done = done

    def run(
        self,
        keys: Sequence[LifeKey],
        phi_of_life: PhiOfLife,
        inner_settings: InnerLoopSettings,
        report: bool = True,
        exact: bool = False,
        tasks: Sequence[int] | None = None,
    ) -> LifeOutcomes:
        """Runs one life per key; arguments as in `Shards.run`.

        `PACKED` numbers per life are sent, whatever the size of phi, and the agents to be kept.

        Args:
          report: Whether `done` is called.

        Returns:
          Outcomes of all lives, the same bits on every rank.
        """
        communicator = self.communicator
        numbers = [0] * len(keys) if tasks is None else tasks
        shards = lives_of_shards(numbers, self._shards.shard_lives)
        mine = lives_of_rank(shards, communicator.rank, communicator.size)
        packed = np.zeros((len(keys), PACKED), np.int64)
        agents = np.full(len(keys), None)
        if mine:
            own_keys, own_tasks = [keys[life] for life in mine], [numbers[life] for life in mine]
            done = self._done if report else None

            def own_phi(number: int) -> Array:
                return phi_of_life(mine[number])

            lives = self._shards.run(
                own_keys, own_phi, inner_settings.of(mine), done, exact, own_tasks
            )
            packed[mine] = pack(lives)
            agents[mine] = lives.final_agent
        outcomes = unpack(communicator.sum(packed))
        if inner_settings.starts is None or not inner_settings.starts.kept:
            return outcomes
        sizes = agent_sizes(self._shards.experiment)
        agents = shared(agents, inner_settings.starts.kept, sizes, communicator)
        return dataclasses.replace(outcomes, final_agent=agents)


def lives_of_shards(tasks: Sequence[int], shard_lives: int) -> list[list[int]]:
    """Returns the lives of each shard, all in the same task, in the order of tasks, then lives.

    Args:
      tasks: [L] number of each life's task.
      shard_lives: P, lives in a shard at most.
    """
    shards = []
    for task in sorted(set(tasks)):
        lives = [life for life, number in enumerate(tasks) if number == task]
        shards += [
            lives[start : start + shard_lives] for start in range(0, len(lives), shard_lives)
        ]
    return shards


def lives_of_rank(shards: Sequence[Sequence[int]], rank: int, size: int) -> list[int]:
    """Returns the lives of a rank: all of every size-th shard, from shard `rank` on.

    So no rank has more than one shard more than another, and all ranks get the same mix of noise
    vectors.
    """
    return [life for shard in shards[rank::size] for life in shard]


def pack(lives: LifeOutcomes) -> Array:
    """Writes outcomes, without agents, as [L, `PACKED`] int64.

    Floats are written as their bits, so that adding zeros changes nothing, NaN and -0 included.
    """
    floats = (
        lives.final_return,
        lives.success,
        lives.goals_reached,
        lives.memory_norm,
        lives.means_beyond,
    )
    numbers = [np.asarray(values, np.float64).view(np.int64) for values in floats]
    numbers += [lives.failed.astype(np.int64), lives.env_steps.astype(np.int64)]
    return np.stack(numbers, axis=1)


def unpack(packed: Array) -> LifeOutcomes:
    """Reads what `pack` wrote."""
    *floats, failed, env_steps = packed.T.copy()
    final_return, success, goals_reached, memory_norm, means_beyond = (
        bits.view(np.float64) for bits in floats
    )
    return LifeOutcomes(
        final_return,
        success,
        failed.astype(bool),
        env_steps,
        goals_reached=goals_reached,
        memory_norm=memory_norm,
        means_beyond=means_beyond,
        final_agent=np.full(len(packed), None),
    )
