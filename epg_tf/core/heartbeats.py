"""Finds out which ranks of a job are stopped, dead or late, after others have waited too long.

Every few seconds each rank writes to the launcher's key-value store (HTTP) that it runs, and how
far it is. These entries are read only after an error. Only horovodrun over Gloo has such a store;
under other launchers the missing ranks stay unknown.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import threading
from collections.abc import Callable, Mapping

PERIOD_SECONDS = 2.0
_SILENT_PERIODS = 3.0  # without a heartbeat, until a rank counts as silent
_HTTP_SECONDS = 3.0

_Beat = tuple[int, int]  # number of the heartbeat, and how far the rank was


@dataclasses.dataclass(frozen=True)
class MissingRanks:
    """The ranks that others wait for.

    Attributes:
      reasons: One phrase about all missing ranks.
      reporting_rank: The lowest rank that is not missing.
    """

    reasons: str
    reporting_rank: int


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
            self._request("PUT", self._rank, json.dumps([self._beats, self._place]))
            if self._closed.wait(PERIOD_SECONDS):
                return

    def _request(self, method: str, rank: int, body: str | None = None) -> _Beat | None:
        """Writes or reads the newest heartbeat of a rank; None if there is none or no response."""
        if self._store is None:
            return None
        host, port = self._store
        connection = http.client.HTTPConnection(host, port, timeout=_HTTP_SECONDS)
        try:
            connection.request(method, f"/heartbeats/{rank}", body)
            response = connection.getresponse()
            text = response.read()
            if response.status != 200 or not text:
                return None
            number, place = json.loads(text)
            return number, place
        except (OSError, http.client.HTTPException):
            return None  # the launcher has ended, and ends this process, too
        finally:
            connection.close()

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
        late = [rank for rank in others if rank not in silent and now[rank][1] < place]
        reasons = []
        if silent:
            reasons.append(f"no heartbeat from {_named(silent)} (dead, stopped, or disconnected)")
        if late:
            reasons.append(f"{_named(late)} still busy (if only slow, pass a larger timeout)")
        present = [rank for rank in range(self._size) if rank not in silent and rank not in late]
        return MissingRanks(
            "; ".join(reasons) or "all send heartbeats, so the network between them failed",
            min(present),
        )

    def _newest(self) -> Mapping[int, _Beat]:
        """Reads the newest heartbeat of every other rank that has sent any."""
        others = [rank for rank in range(self._size) if rank != self._rank]
        found = {rank: self._request("GET", rank) for rank in others}
        return {rank: beat for rank, beat in found.items() if beat}

    def close(self) -> None:
        """Ends the heartbeats."""
        self._closed.set()


def _store_address() -> tuple[str, int] | None:
    """Returns host and port of the launcher's key-value store, or None if it has none."""
    host = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    port = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT")
    return (host, int(port)) if host and port else None


def _named(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
