"""Lets the processes of one run work together; the only module that knows Horovod.

A *rank* is one of `size` processes, counted from 0. Without horovodrun there is one, and Horovod
need not be installed.
"""

from __future__ import annotations

import abc
import concurrent.futures
import contextlib
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from epg_tf.core.errors import CommunicationError, Stopped
from epg_tf.core.heartbeats import Heartbeats, MissingRanks, start_guard
from epg_tf.core.types import Array

_Result = TypeVar("_Result")

_LAUNCHERS = ("HOROVOD_", "OMPI_COMM_WORLD_", "PMI_")  # each sets RANK and SIZE of a process
_POLL_SECONDS = 0.1  # signals are handled between two polls
_STARTING_SECONDS = 300.0  # in which processes start and connect, also on busy machines
_GRACE_SECONDS = 30.0  # by which Gloo's timeout is longer: missing ranks are to be named first
# With Horovod's own default its thread runs every millisecond, which costs up to half a core; a
# collective takes about as long as the cycle. This package reports failures itself.
_DEFAULTS = {"HOROVOD_CYCLE_TIME": "20", "HOROVOD_LOG_LEVEL": "fatal"}


class HorovodUnusable(CommunicationError):
    """Horovod is missing, broken, or was not started as it must be."""


class Disagreement(CommunicationError):
    """Ranks hold different values of what must be the same."""


class RanksLost(CommunicationError):
    """Some ranks did not take part in time."""

    def __init__(self, message: str, reporting_rank: int):
        super().__init__(message)
        self.reporting_rank = reporting_rank


class Communicator(abc.ABC):
    """Connects the ranks of a run.

    Attributes:
      rank: Number of this process.
      size: Number of processes.
      local_rank: Number of this process on its machine.
      local_size: Number of processes on its machine.
      seconds: Time spent in collectives so far (s), waiting for slower ranks included.
      bytes_sent: Bytes this process has sent in collectives so far.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    seconds: float = 0.0
    bytes_sent: int = 0

    @abc.abstractmethod
    def sum(self, values: Array) -> Array:
        """Adds up the arrays of all ranks, element by element (allreduce).

        Integers, because their sum is exact: where all ranks but one hold zero, the bits of that
        one are kept.

        Args:
          values: int64, of the same shape everywhere.

        Returns:
          int64, the same everywhere.

        Raises:
          RanksLost: Some rank did not take part in time.
          Stopped: `stop` was called.
        """

    def broadcast(self, values: Array) -> Array:
        """Returns the values that rank 0 holds (int64, of the same shape everywhere)."""
        return self.sum(values if self.rank == 0 else np.zeros_like(values))

    def broadcast_number(self, value: int) -> int:
        """Returns the number that rank 0 holds."""
        return int(self.broadcast(np.array([value], np.int64))[0])

    def check_same(self, what: str, digest: bytes) -> None:
        """Compares a digest (a multiple of 8 bytes) over the ranks.

        Raises:
          Disagreement: It differs; the message, the same everywhere, names both values.
        """
        held = np.zeros((self.size, len(digest) // 8), np.int64)
        held[self.rank] = np.frombuffer(digest, np.int64)
        held = self.sum(held)
        different = np.flatnonzero((held != held[0]).any(axis=1))
        if different.size:
            other = int(different[0])
            raise Disagreement(
                f"{what} differs between ranks: {_hex(held[0])} on rank 0, {_hex(held[other])} on "
                f"rank {other}; all machines need the same code, settings, packages and kind of CPU"
            )

    def run(self, work: Callable[[], _Result]) -> _Result:
        """Returns work(); under a launcher that supports it, calls it again after ranks were lost
        or joined.

        `work` must broadcast the state that it continues from before any other collective.
        """
        return work()

    def admit(self) -> None:
        """Admits ranks that wait to join: if there are any, `run` calls its work again."""
        return

    def stop(self) -> None:
        """Makes `sum` raise `Stopped`, now and later."""
        return


class SingleProcess(Communicator):
    """One process."""

    def sum(self, values: Array) -> Array:
        """Returns the values."""
        return values


class HorovodCommunicator(Communicator):
    """Connects several processes by Horovod.

    Its transport, Gloo, gives up by itself after a timeout of its own, which includes the time to
    connect. It is set so that `timeout` decides; but elastic ranks, which connect again without a
    loss, can use a shorter one, and so notice a new rank that does not come.

    Args:
      horovod: The module horovod.tensorflow.
      timeout: Seconds that this rank waits for others at most.

    Raises:
      RanksLost: Some processes did not start in time.
      HorovodUnusable: They cannot reach each other.
    """

    def __init__(self, horovod: Any, timeout: float):
        self._horovod = horovod
        self._timeout = timeout
        self._stop = threading.Event()
        self._elastic = os.environ.get("HOROVOD_ELASTIC") == "1"
        self.rank, self.size = _launched() or (0, 1)
        self._heartbeats = Heartbeats(self.rank, self.size)
        gloo = min(timeout, 1e6) + _GRACE_SECONDS
        if self._elastic:
            gloo = min(gloo, _STARTING_SECONDS)
            start_guard()
        os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(int(gloo)))
        self._connect(horovod.init, min(timeout, _STARTING_SECONDS))
        if self._elastic:
            self._members: Any = horovod.elastic.ObjectState(
                lambda numbers: tuple(self.broadcast(np.array(numbers, np.int64)).tolist()),
                horovod.rank,
            )

    def _connect(self, connect: Callable[[], object], seconds: float) -> None:
        """Connects to the other processes within some seconds, and sets ranks and sizes."""
        self._collectives = 0
        try:
            self._received(_started(connect), seconds)
        except CommunicationError:
            raise
        except (ValueError, RuntimeError) as error:
            raise HorovodUnusable(
                f"Horovod cannot connect the processes ({_first_line(error)}); name the network "
                "interfaces that they share by horovodrun's --network-interfaces"
            ) from error
        self.rank, self.size = self._horovod.rank(), self._horovod.size()
        self.local_rank, self.local_size = self._horovod.local_rank(), self._horovod.local_size()
        self._heartbeats.close()
        self._heartbeats = Heartbeats(self.rank, self.size)

    def sum(self, values: Array) -> Array:
        """Adds up over all ranks with one allreduce."""
        import tensorflow as tf

        started = time.perf_counter()
        self._collectives += 1
        self._heartbeats.place = self._collectives
        try:
            total: Array = self._received(
                _started(
                    lambda: self._horovod.allreduce(
                        tf.constant(values, tf.int64),
                        op=self._horovod.Sum,
                        name=f"sum_{values.size}",
                    ).numpy()
                ),
                self._timeout,
            )
        except tf.errors.OpError as error:  # another rank has gone
            if self._elastic:
                raise self._horovod.elastic.HorovodInternalError(str(error)) from error
            raise _lost(self._missing()) from error
        self.seconds += time.perf_counter() - started
        self.bytes_sent += values.nbytes
        return total

    def _received(self, future: concurrent.futures.Future[_Result], seconds: float) -> _Result:
        """Returns the result of what all ranks do together, for which it waits some seconds; under
        elastic Horovod, ranks that are missing then are removed.

        Raises:
          RanksLost: They cannot be removed, or that does not help.
          Stopped: `stop` was called.
          Exception: What the operation raised, for instance because a rank was removed.
        """
        try:
            return self._result(future, seconds)
        except TimeoutError:
            missing = self._missing()
        if future.done():  # the last rank came while the heartbeats were compared
            return future.result()
        if self._elastic:
            self._heartbeats.remove(missing.processes)
            with contextlib.suppress(TimeoutError):
                return self._result(future, _STARTING_SECONDS)
        raise _lost(missing)

    def _result(self, future: concurrent.futures.Future[_Result], seconds: float) -> _Result:
        """Returns the result of an operation; signals are handled meanwhile.

        Raises:
          TimeoutError: It took longer; it continues in a thread of its own. The time in which this
            process itself was stopped does not count.
          Stopped: `stop` was called.
        """
        waited = 0.0
        while waited < seconds:
            try:
                return future.result(_POLL_SECONDS)
            except TimeoutError:
                if self._stop.is_set():
                    raise Stopped from None
            waited += _POLL_SECONDS
        raise TimeoutError

    def _missing(self) -> MissingRanks:
        """Finds out which ranks are missing."""
        missing = self._heartbeats.missing(self._collectives, self._stop.wait)
        if self._stop.is_set():
            raise Stopped
        return missing

    def run(self, work: Callable[[], _Result]) -> _Result:
        """Returns work(); elastic Horovod calls it again after ranks were lost or joined."""
        if not self._elastic:
            return work()
        from horovod.common.elastic import run_fn

        result: _Result = run_fn(lambda members: work(), self._reconnect)(self._members)
        return result

    def _reconnect(self) -> None:
        """Connects the ranks that are left and those that are new."""
        horovod = self._horovod  # a stopped rank can hold up its shutdown, too
        self._connect(lambda: (horovod.shutdown(), horovod.init()), self._timeout)

    def admit(self) -> None:
        """Raises Horovod's own exception for `run` if ranks wait to join."""
        if self._elastic:
            self._members.check_host_updates()

    def stop(self) -> None:
        """Ends the waiting for other ranks."""
        self._stop.set()


def _started(operation: Callable[[], _Result]) -> concurrent.futures.Future[_Result]:
    """Returns the future result of an operation that may wait for other ranks."""
    future: concurrent.futures.Future[_Result] = concurrent.futures.Future()

    def attempt() -> None:
        try:
            future.set_result(operation())
        except BaseException as error:
            future.set_exception(error)

    # A daemon, so that the process can end while the operation still waits.
    threading.Thread(target=attempt, daemon=True).start()
    return future


def _lost(missing: MissingRanks) -> RanksLost:
    return RanksLost(
        f"other ranks did not take part in time: {missing.reasons}; start all ranks again with "
        "resume=True",
        missing.reporting_rank,
    )


def _hex(row: Array) -> str:
    return row.tobytes().hex()[:16]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _launched() -> tuple[int, int] | None:
    """Returns rank and size that a launcher of several processes has set, or None.

    Raises:
      HorovodUnusable: They are no rank of a job.
    """
    for launcher in _LAUNCHERS:
        rank, size = (os.environ.get(f"{launcher}{key}", "1") for key in ("RANK", "SIZE"))
        if f"{launcher}RANK" not in os.environ or (launcher != "HOROVOD_" and size == "1"):
            continue  # cluster managers number single processes, too
        if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
            raise HorovodUnusable(
                f"{launcher}RANK={rank} in the environment is no rank below {launcher}SIZE={size}; "
                "unset both, or start all ranks by horovodrun"
            )
        return int(rank), int(size)
    return None


def launched_rank() -> int | None:
    """Returns the rank that a launcher of several processes has set, or None without one."""
    with contextlib.suppress(HorovodUnusable):
        if launched := _launched():
            return launched[0]
    return None


def join(timeout: float) -> Communicator:
    """Joins the other processes of the job; call it before TensorFlow is used.

    Args:
      timeout: Seconds, > 0, that this rank waits for others at most.

    Returns:
      `SingleProcess`, unless `horovodrun` (or mpirun) has started several processes.

    Raises:
      HorovodUnusable: It has, and Horovod cannot be used.
      RanksLost: Some processes did not start in time.
    """
    launched = _launched()
    if launched is None:
        return SingleProcess()
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    ranks = HorovodCommunicator(_horovod(), timeout)
    if ranks.size == 1 < launched[1]:
        raise HorovodUnusable(
            f"{launched[1]} processes were started, but they do not see each other: Horovod was "
            "built without MPI; start them with horovodrun --gloo"
        )
    pin_gpu(ranks.local_rank)
    return ranks


def _horovod() -> Any:
    """Returns the module horovod.tensorflow, which ships no types; raises HorovodUnusable."""
    import tensorflow as tf

    if importlib.util.find_spec("horovod") is None:
        raise HorovodUnusable(
            f"horovodrun needs Horovod, and {sys.executable} has none: run `make horovod`"
        )
    try:
        import horovod.tensorflow as horovod
    except (ImportError, OSError, AttributeError, tf.errors.OpError) as error:
        raise HorovodUnusable(
            f"Horovod does not work with the installed TensorFlow {tf.__version__} "
            f"({_first_line(error)}): rebuild it with `make horovod`"
        ) from error
    return horovod


def pin_gpu(local_rank: int) -> None:
    """Gives this process one GPU of its machine, if there are any; memory is taken when needed."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        mine = gpus[local_rank % len(gpus)]
        tf.config.set_visible_devices(mine, "GPU")
        tf.config.experimental.set_memory_growth(mine, True)
