"""Finds out which ranks of a job are stopped, dead or late, when others have waited for them in
vain.

Every rank tells the launcher's key-value store (HTTP) every few seconds that it lives, and how far
it has come. Nothing is read until something has gone wrong. Launchers other than horovodrun over
Gloo have no such store; then nobody knows.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import threading
from collections.abc import Callable

PERIOD_SECONDS = 2.0
_PATIENCE = 3.0  # periods without a beat until a rank counts as silent
_HTTP_SECONDS = 3.0


@dataclasses.dataclass(frozen=True)
class MissingRanks:
    """Who was missed.

    Attributes:
      reasons: One phrase about all ranks to blame.
      reporting_rank: The lowest rank that takes part.
    """

    reasons: str
    reporting_rank: int


class Heartbeats:
    """One rank's part in the roll call; a thread sends its signs of life.

    Args:
      rank: Own number.
      size: Number of ranks.
    """

    def __init__(self, rank: int, size: int):
        self._rank, self._size = rank, size
        address, port = (
            os.environ.get(f"HOROVOD_GLOO_RENDEZVOUS_{name}") for name in ("ADDR", "PORT")
        )
        self._store = (address, int(port)) if address and port else None
        self._place, self._beats = 0, 0
        self._closed = threading.Event()
        if self._store and size > 1:
            threading.Thread(target=self._beat, daemon=True, name="roll call").start()

    def reached(self, place: int) -> None:
        """Says how far this rank has come; a higher number is further."""
        self._place = place

    def _beat(self) -> None:
        while True:
            self._beats += 1
            self._request("PUT", self._rank, json.dumps([self._beats, self._place]))
            if self._closed.wait(PERIOD_SECONDS):
                return

    def _request(self, method: str, rank: int, body: str | None = None) -> tuple[int, int] | None:
        """Writes or reads the newest (beats, place) of a rank; None if there is none, or no answer."""
        connection = http.client.HTTPConnection(*self._store, timeout=_HTTP_SECONDS)
        try:
            connection.request(method, f"/heartbeats/{rank}", body)
            answer = connection.getresponse()
            text = answer.read()
            return tuple(json.loads(text)) if answer.status == 200 and text else None
        except (OSError, http.client.HTTPException):
            return None  # the launcher has gone, and ends this process
        finally:
            connection.close()

    def missing(self, place: int, wait: Callable[[float], object]) -> MissingRanks:
        """Calls the roll; takes a few seconds.

        Args:
          place: Where all ranks should have come to.
          wait: Waits for a number of seconds.
        """
        if self._store is None:
            return MissingRanks("which of them, only their output can tell", self._rank)
        others = [rank for rank in range(self._size) if rank != self._rank]
        before = {rank: self._request("GET", rank) for rank in others}
        wait(_PATIENCE * PERIOD_SECONDS)
        now = {rank: self._request("GET", rank) for rank in others}
        silent = [rank for rank in others if now[rank] is None or now[rank] == before[rank]]
        late = [rank for rank in others if rank not in silent and now[rank][1] < place]
        reasons = []
        if silent:
            reasons.append(f"no sign of life from {_named(silent)} (dead, stopped, or cut off)")
        if late:
            reasons.append(
                f"still waiting for {_named(late)}, alive but busy (if only slow, raise "
                "--rank_timeout)"
            )
        here = [rank for rank in range(self._size) if rank not in silent and rank not in late]
        return MissingRanks(
            "; ".join(reasons) or "all give signs of life, so the network between them failed",
            min(here),
        )

    def close(self) -> None:
        """Ends the signs of life."""
        self._closed.set()


def _named(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
