"""Finds out which ranks of a job are stopped, dead or late, after others have waited too long.

Every few seconds each rank writes to the launcher's key-value store (HTTP) that it runs, and how
far it is. These entries are read only after an error. Only horovodrun over Gloo has such a store;
under other launchers the missing ranks stay unknown.

A stopped process cannot end itself, and elastic Horovod waits for it forever. So each elastic rank
has a guard (`rank_guard`), a process of its own, that kills it once other ranks have asked for this
in the store.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PERIOD_SECONDS = 2.0
_SILENT_PERIODS = 3.0  # without a heartbeat, until a rank counts as silent
_HTTP_SECONDS = 3.0
_GUARD = Path(__file__).with_name("rank_guard.py")


class _Beat(NamedTuple):
    """One heartbeat.

    Attributes:
      number: How many there were before, and itself.
      place: How far the rank was.
      process: Name of its process, see `process_name`.
    """

    number: int
    place: int
    process: str


@dataclasses.dataclass(frozen=True)
class MissingRanks:
    """The ranks that others wait for.

    Attributes:
      reasons: One phrase about all missing ranks.
      reporting_rank: The lowest rank that is not missing.
      processes: Names of the processes of missing ranks, as far as they are known.
    """

    reasons: str
    reporting_rank: int
    processes: tuple[str, ...] = ()


class Heartbeats:
    """Sends the heartbeats of one rank from a thread, and compares those of the others.

    Args:
      rank: Own number.
      size: Number of ranks.
    """

    def __init__(self, rank: int, size: int):
        self._rank, self._size = rank, size
        self._store = _store_address()
        self._place = 0
        self._beats = 0
        self._closed = threading.Event()
        if self._store and size > 1:
            threading.Thread(target=self._send, daemon=True, name="heartbeats").start()

    def reached(self, place: int) -> None:
        """Records how far this rank is; a higher number is further."""
        self._place = place

    def _send(self) -> None:
        while True:
            self._beats += 1
            beat = _Beat(self._beats, self._place, process_name())
            self._request("PUT", f"heartbeats/{self._rank}", json.dumps(beat))
            if self._closed.wait(PERIOD_SECONDS):
                return

    def _request(self, method: str, key: str, body: str | None = None) -> str | None:
        """Writes or reads an entry of the store; None if there is none or no response."""
        if self._store is None:
            return None
        host, port = self._store
        connection = http.client.HTTPConnection(host, port, timeout=_HTTP_SECONDS)
        try:
            connection.request(method, f"/{key}", body)
            response = connection.getresponse()
            text = response.read()
            return text.decode() if response.status == 200 and text else None
        except (OSError, http.client.HTTPException):
            return None  # the launcher has ended, and ends this process, too
        finally:
            connection.close()

    def remove(self, processes: Sequence[str]) -> None:
        """Asks the guards of other ranks to kill them.

        Args:
          processes: Their names, from `missing`. The own name, which an old entry may hold after
            ranks got new numbers, is left out.
        """
        for process in (name for name in processes if name != process_name()):
            self._request("PUT", f"removed/{process}", f"rank {self._rank}")

    def start_guard(self) -> None:
        """Starts the guard of this process, which ends with it; without a store it does nothing."""
        if self._store is None:
            return
        host, port = self._store
        words = [host, str(port), process_name(), str(os.getpid()), str(PERIOD_SECONDS)]
        # Isolated (-I): the guard needs nothing but Python itself.
        subprocess.Popen([sys.executable, "-I", str(_GUARD), *words], stdin=subprocess.DEVNULL)

    def missing(self, place: int, wait: Callable[[float], object]) -> MissingRanks:
        """Finds the missing ranks; takes a few seconds.

        Args:
          place: How far all ranks should be.
          wait: Waits for a number of seconds.
        """
        if self._store is None:
            return MissingRanks("see the output of each to find out which", self._rank)
        before = self._newest()
        wait(_SILENT_PERIODS * PERIOD_SECONDS)
        now = self._newest()
        others = [rank for rank in range(self._size) if rank != self._rank]
        silent = [rank for rank in others if rank not in now or now[rank] == before.get(rank)]
        late = [rank for rank in others if rank not in silent and now[rank].place < place]
        reasons = []
        if silent:
            reasons.append(f"no heartbeat from {_named(silent)} (dead, stopped, or disconnected)")
        if late:
            reasons.append(f"{_named(late)} still busy (if only slow, pass a larger timeout)")
        present = [rank for rank in range(self._size) if rank not in silent and rank not in late]
        return MissingRanks(
            "; ".join(reasons) or "all send heartbeats, so the network between them failed",
            min(present),
            tuple(now[rank].process for rank in [*silent, *late] if rank in now),
        )

    def _newest(self) -> Mapping[int, _Beat]:
        """Reads the newest heartbeat of every other rank that has sent any."""
        others = [rank for rank in range(self._size) if rank != self._rank]
        found = {rank: self._request("GET", f"heartbeats/{rank}") for rank in others}
        return {rank: _Beat(*json.loads(text)) for rank, text in found.items() if text}

    def close(self) -> None:
        """Ends the heartbeats."""
        self._closed.set()


def process_name() -> str:
    """Returns a name of this process that no other process of the job has."""
    return f"{socket.gethostname()}-{os.getpid()}"


def _store_address() -> tuple[str, int] | None:
    """Returns host and port of the launcher's key-value store, or None if it has none."""
    host = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    port = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT")
    return (host, int(port)) if host and port else None


def _named(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
