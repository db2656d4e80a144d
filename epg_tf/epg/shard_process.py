"""Runs the lives of shards in a process of its own, where no other thread holds Python's lock.

The two ends talk over a socket that only they hold. The process ends when its other end does, even
by kill -9, and ignores the signals that a terminal or a scheduler sends to all processes of a job:
its other end says when to stop.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import queue
import subprocess
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from epg_tf.core.errors import EpgError, Interrupted
from epg_tf.core.threads import configure_tensorflow
from epg_tf.core.types import LifeResults
from epg_tf.epg.inner_loop import PARTS
from epg_tf.epg.process_start import StartedProcess, start_process
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shard_loop import ShardLoop, ShardRequest

_STOP = "stop"
_POLL_SECONDS = 0.2
_STOP_SECONDS = 10.0  # from `stop` to the end of the process, should it not answer


class ProcessLost(EpgError, RuntimeError):
    """A process for lives has ended by itself, or cannot start; the message says how."""


@dataclasses.dataclass(frozen=True)
class _Failure:
    """Holds an error of the process, and its traceback, which errors do not take along."""

    error: Exception
    place: str


class ShardProcess:
    """Is a `ShardLoop` in a process of its own, with the same bits. One thread at a time may use
    it.

    Args:
      experiment: Settings; its family must be one that ships with the package.
      measure_kl: Whether lives report the KL divergence of their updates.
      stop: When set, lives end early with `Interrupted`.
      started: A process to use; None: another one is started.

    Attributes:
      seconds: Spent in the process so far, by `inner_loop.PARTS`.

    Raises:
      ProcessLost: The process cannot be started.
    """

    def __init__(
        self,
        experiment: Experiment,
        measure_kl: bool,
        stop: threading.Event,
        started: StartedProcess | None = None,
    ):
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._stop = stop
        self._sending: threading.Thread | None = None
        try:
            self._process, self._connection = started or start_process()
        except OSError as error:
            raise ProcessLost(
                f"a process that runs lives cannot be started ({error}); choose a smaller "
                "config.compute.threads or config.compute.parallel='threads'"
            ) from error
        try:
            self._send((experiment, measure_kl))
        except BaseException:
            self.close()
            raise

    def run(self, request: ShardRequest) -> LifeResults:
        """Runs the P lives of a shard.

        Raises:
          Interrupted: `stop` was set.
          ProcessLost: The process has ended.
        """
        # A suspended process does not empty the socket, so a long request waits in a thread.
        failed: list[BaseException] = []
        sending = threading.Thread(target=self._try_to_send, args=(request, failed), daemon=True)
        self._sending = sending
        sending.start()
        deadline: float | None = None
        asked = False
        while not self._answers():
            if failed:
                raise failed[0]
            if not self._stop.is_set():
                continue
            if deadline is None:
                deadline = time.monotonic() + _STOP_SECONDS
            if not asked and not sending.is_alive():
                self._send(_STOP)
                asked = True
            if time.monotonic() > deadline:
                self._process.kill()  # it is suspended, or hangs in native code
        try:
            found, self.seconds = self._connection.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if isinstance(found, _Failure):
            found.error.add_note(found.place)
            raise found.error
        results: LifeResults = found
        return results

    def _answers(self) -> bool:
        """Returns whether there is an answer, or the process has ended."""
        try:
            return self._connection.poll(_POLL_SECONDS)
        except (EOFError, OSError):
            return True

    def _send(self, message: Any) -> None:
        try:
            self._connection.send(message)
        except OSError:
            raise self._lost() from None

    def _try_to_send(self, message: Any, failed: list[BaseException]) -> None:
        """Sends a message, or adds what kept it from that, e.g. too little memory, to `failed`.

        Where the process has ended, that shows when its answer is read.
        """
        try:
            self._connection.send(message)
        except OSError:
            pass
        except BaseException as error:
            failed.append(error)

    def _lost(self) -> EpgError:
        if self._stop.is_set():
            return Interrupted()
        code = self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ProcessLost(
            f"a process that ran lives {how}; if memory ran out, resume the run with a smaller "
            "config.compute.threads, or begin another one with a smaller config.compute.shard_lives"
        )

    def close(self) -> None:
        """Ends the process, in the middle of a life if need be."""
        if self._sending is not None:
            # Before the socket is closed: what a thread still sends would go to whatever gets the
            # same file descriptor next.
            self._sending.join(_POLL_SECONDS)
            if self._sending.is_alive():
                self._process.kill()
                self._sending.join()
        self._connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        self._process.kill()
        self._process.wait()


def serve(descriptor: int) -> None:
    """Is the main function of the process: answers requests until the other end has gone.

    Args:
      descriptor: File descriptor of the socket.
    """
    connection = Connection(descriptor)
    requests: queue.SimpleQueue[ShardRequest] = queue.SimpleQueue()
    stop = threading.Event()
    try:
        experiment, measure_kl = connection.recv()
    except (EOFError, OSError):
        os._exit(1)
    threading.Thread(target=_listen, args=(connection, requests, stop), daemon=True).start()
    configure_tensorflow(1)
    loop: ShardLoop | None = None
    while True:
        request = requests.get()
        try:
            loop = loop or ShardLoop(experiment, measure_kl, stop)
            found: Any = loop.run(request)
        except Exception as error:
            found = _failure(error)
        connection.send((found, loop.seconds if loop else dict.fromkeys(PARTS, 0.0)))


def _listen(
    connection: Connection, requests: queue.SimpleQueue[ShardRequest], stop: threading.Event
) -> None:
    """Receives requests, and ends the process as soon as its other end has gone."""
    while True:
        try:
            message = connection.recv()
        except (EOFError, OSError):
            os._exit(1)
        if message == _STOP:
            stop.set()
        else:
            requests.put(message)


def _failure(error: Exception) -> _Failure:
    """Returns what can be sent of an error: itself, or one that quotes it."""
    place = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return _Failure(error, place)
