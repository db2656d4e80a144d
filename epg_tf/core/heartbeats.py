"""Finds out which ranks of a job are stopped, dead or late, after others have waited too long.

Every few seconds each rank writes to the launcher's key-value store (HTTP) that it runs, and how
far it is. These entries are read only after an error. Only horovodrun over Gloo has such a store;
under other launchers the missing ranks stay unknown.

A stopped process cannot end itself, and elastic Horovod waits for it forever. So each elastic rank
has a guard, a process of its own, that kills it once other ranks have asked for this in the store.
The guard runs this file, which needs nothing but Python's standard library.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

PERIOD_SECONDS = 2.0
_SILENT_PERIODS = 3.0  # without a heartbeat, until a rank counts as silent
_HTTP_SECONDS = 3.0


class _Beat(NamedTuple):
    """One heartbeat: its number, how far the rank was, and the name of its process."""

    number: int
    place: int
    process: str


class MissingRanks(NamedTuple):
    """The ranks that others wait for.

    Attributes:
      reasons: One phrase about all missing ranks.
      reporting_rank: The lowest rank that is not missing.
      processes: Names of the processes of missing ranks, as far as they are known.
    """

    reasons: str
    reporting_rank: int
    processes: Sequence[str] = ()


class Heartbeats:
    """Sends the heartbeats of one rank from a thread, and compares those of the others.

    Args:
      rank: Own number.
      size: Number of ranks.

    Attributes:
      place: How far this rank is; a higher number is further.
    """

    def __init__(self, rank: int, size: int):
        self._rank, self._others = rank, [other for other in range(size) if other != rank]
        self.place = 0
        self._closed = threading.Event()
        if store_address() and self._others:
            threading.Thread(target=self._send, daemon=True, name="heartbeats").start()

    def _send(self) -> None:
        number = 0
        while not number or not self._closed.wait(PERIOD_SECONDS):
            number += 1
            beat = _Beat(number, self.place, process_name())
            _request("PUT", f"heartbeats/{self._rank}", json.dumps(beat))

    def close(self) -> None:
        """Ends the heartbeats."""
        self._closed.set()

    def missing(self, place: int, wait: Callable[[float], object]) -> MissingRanks:
        """Finds the missing ranks; takes a few seconds.

        Args:
          place: How far all ranks should be.
          wait: Waits for a number of seconds.
        """
        if not store_address():
            return MissingRanks("see the output of each to find out which", self._rank)
        before = self._newest()
        wait(_SILENT_PERIODS * PERIOD_SECONDS)
        now = self._newest()
        silent = [rank for rank in self._others if now.get(rank) == before.get(rank)]
        late = [rank for rank in self._others if rank not in silent and now[rank].place < place]
        reasons = []
        if silent:
            reasons.append(f"no heartbeat from {_named(silent)} (dead, stopped, or disconnected)")
        if late:
            reasons.append(f"{_named(late)} still busy (if only slow, pass a larger timeout)")
        # After ranks got new numbers, an old entry may name a process that runs.
        running = {now[rank].process for rank in self._others if rank not in silent}
        running.add(process_name())
        stopped = [now[rank].process for rank in silent if rank in now]
        return MissingRanks(
            "; ".join(reasons) or "all send heartbeats, so the network between them failed",
            min({self._rank, *self._others} - {*silent, *late}),
            [name for name in stopped if name not in running]
            + [now[rank].process for rank in late],
        )

    def _newest(self) -> Mapping[int, _Beat]:
        """Reads the newest heartbeat of every other rank that has sent any."""
        found = {rank: _request("GET", f"heartbeats/{rank}") for rank in self._others}
        return {rank: _Beat(*json.loads(text)) for rank, text in found.items() if text}

    def remove(self, processes: Sequence[str]) -> None:
        """Asks the guards of other ranks to kill them; `processes` are named by `missing`."""
        for process in processes:
            _request("PUT", f"removed/{process}", f"rank {self._rank}")


def process_name() -> str:
    """Returns a name of this process that no other process of the job has."""
    return f"{socket.gethostname()}-{os.getpid()}"


def store_address() -> str:
    """Returns HOST:PORT of the launcher's key-value store; empty if it has none."""
    host = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    port = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT")
    return f"{host}:{port}" if host and port else ""


def _request(method: str, key: str, body: str | None = None) -> str:
    """Writes or reads an entry of the store; empty if there is none or no response."""
    # Without a response the launcher has ended, and ends this process, too.
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(store_address(), timeout=_HTTP_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, f"/{key}", body)
            response = connection.getresponse()
            return response.read().decode() if response.status == 200 else ""
    return ""


def _named(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def start_guard() -> None:
    """Starts the guard of this process, which ends with it; without a store it does nothing."""
    if store_address():
        words = [process_name(), str(os.getpid()), str(PERIOD_SECONDS)]
        # Isolated (-I): the guard needs nothing but Python itself.
        subprocess.Popen([sys.executable, "-I", __file__, *words], stdin=subprocess.DEVNULL)


def _guard(name: str, process: int, period: float) -> None:
    """Waits until its parent process has ended, or kills it when the store asks for it."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent decides when to end
        signal.signal(number, signal.SIG_IGN)
    while os.getppid() == process:
        if by := _request("GET", f"removed/{name}"):
            line = f"a process did not take part in time; it is ended, as {by} asked: {name}"
            print(line, file=sys.stderr, flush=True)
            os.kill(process, signal.SIGKILL)
            return
        time.sleep(period)


if __name__ == "__main__":
    _guard(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
