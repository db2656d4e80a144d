"""Starts the processes that run shards, also before this process has imported TensorFlow.

Importing it takes seconds, in which the others can import it, too.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import NamedTuple

from epg_tf.core.threads import threads_of
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.registry import is_importable

_SERVE = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.path[:] = sys.argv[2:]  # not by PYTHONPATH, in which a folder cannot have a colon
from epg_tf.core import notices
notices.silence()
from epg_tf.epg.shard_process import serve
serve(int(sys.argv[1]))
"""


class StartedProcess(NamedTuple):
    """Is a process that waits for settings, and this end of the socket to it.

    Once `connection` is closed the process ends.
    """

    process: subprocess.Popen[bytes]
    connection: Connection

    def end(self) -> None:
        """Ends the process."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


def start_process() -> StartedProcess:
    """Starts a process that serves.

    Raises:
      OSError: The system has no room for a process or a socket.
    """
    path = [entry for entry in sys.path if isinstance(entry, str)]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE, str(theirs.fileno()), *path],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C and Ctrl-Z reach this process alone
        )
        return StartedProcess(process, Connection(ours.detach()))


@contextlib.contextmanager
def start_ahead(experiment: Experiment) -> Iterator[list[StartedProcess]]:
    """Starts at most as many processes as an epoch asks for, and ends them afterwards.

    There are none where settings or the family want none, or the system has no room. Whether they
    fit a GPU or a user's channel shows once TensorFlow is imported: see `shards.processes_fit`.
    After a signal at the start they end when their imports have.
    """
    compute = experiment.compute
    known = all(is_importable(task.family) for task in experiment.tasks)
    fit = compute.parallel == "processes" and os.name == "posix" and known
    shards = -(-experiment.evolution.lives // compute.shard_lives)
    with contextlib.ExitStack() as resources:
        started: list[StartedProcess] = []
        with contextlib.suppress(OSError):  # a shard that needs one later reports the error
            while fit and len(started) + 1 < min(threads_of(compute.threads), shards):
                started.append(start_process())
                resources.callback(started[-1].end)
        yield started
