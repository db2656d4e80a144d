"""Runs the lives of shards in a process of its own, where no other thread holds Python's lock.

The two ends talk over a socket that only they hold. The process ends when its other end does, even
by kill -9, and ignores the signals that its terminal sends to all: its other end says when to stop.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

from epg_tf.core.errors import EpgError, Interrupted
from epg_tf.core.experiment import Experiment
from epg_tf.core.threads import configure_tensorflow
from epg_tf.core.types import LifeResults
from epg_tf.epg.inner_loop import PARTS
from epg_tf.epg.shard_loop import ShardLoop, ShardRequest

_STOP = "stop"
_POLL_SECONDS = 0.2
_SERVE = """
import sys
from epg_tf.core import notices
notices.silence()
from epg_tf.epg.shard_process import serve
serve(int(sys.argv[1]))
"""


class ProcessLost(EpgError, RuntimeError):
    """A process that ran lives has ended by itself; the message says how."""


class ShardProcess:
    """Is a `ShardLoop` in a process of its own, with the same bits. One thread at a time may use
    it.

    Args:
      experiment: Settings; its family must be one that ships with the package.
      measure_kl: Whether lives report the KL divergence of their updates.
      stop: When set, lives end early with `Interrupted`.

    Attributes:
      seconds: Spent in the process so far, by `inner_loop.PARTS`.
    """

    def __init__(self, experiment: Experiment, measure_kl: bool, stop: threading.Event):
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._stop = stop
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _SERVE, str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches this process alone
            )
        self._connection = Connection(ours.detach())
        self._send((experiment, measure_kl))

    def run(self, request: ShardRequest) -> LifeResults:
        """Runs the P lives of a shard.

        Raises:
          Interrupted: `stop` was set.
          ProcessLost: The process has ended.
        """
        self._send(request)
        told = False
        while not self._answers():
            if self._stop.is_set() and not told:
                self._send(_STOP)
                told = True
        try:
            found, self.seconds = self._connection.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if isinstance(found, BaseException):
            raise found
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

    def _lost(self) -> EpgError:
        if self._stop.is_set():
            return Interrupted()
        code = self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ProcessLost(
            f"a process that ran lives {how}; if memory ran out, choose a smaller "
            "config.compute.shard_lives or config.compute.threads, and resume the run"
        )

    def close(self) -> None:
        """Ends the process, in the middle of a life if need be."""
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
    experiment, measure_kl = connection.recv()
    threading.Thread(target=_listen, args=(connection, requests, stop), daemon=True).start()
    configure_tensorflow(1)
    loop: ShardLoop | None = None
    while True:
        request = requests.get()
        try:
            loop = loop or ShardLoop(experiment, measure_kl, stop)
            found: Any = loop.run(request)
        except Exception as error:
            found = _portable(error)
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


def _portable(error: Exception) -> Exception:
    """Returns an error that can be sent: itself, or one that holds its text."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error
