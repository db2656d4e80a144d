"""Kills the process that started it once other ranks have asked for this; a script of its own.

It needs nothing but Python's standard library, so that it starts at once and needs little memory.
A process that is stopped, or hangs in native code, cannot end itself.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import sys
import time

_HTTP_SECONDS = 3.0


def guard(store: tuple[str, int], name: str, process: int, period: float) -> None:
    """Waits until its parent process has ended, or kills it when the store asks for it.

    Args:
      store: Host and port of the launcher's key-value store.
      name: Of the parent process in the store.
      process: Id of the parent process.
      period: Seconds between two looks.
    """
    while os.getppid() == process:
        by = _removed_by(store, name)
        if by:
            line = f"a process did not take part in time; it is ended, as {by} asked: {name}"
            print(line, file=sys.stderr, flush=True)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            return
        time.sleep(period)


def _removed_by(store: tuple[str, int], name: str) -> str:
    """Returns who asked to remove a process; empty if nobody did, or the store is silent."""
    connection = http.client.HTTPConnection(*store, timeout=_HTTP_SECONDS)
    try:
        connection.request("GET", f"/removed/{name}")
        response = connection.getresponse()
        text = response.read().decode()
        return text if response.status == 200 else ""
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent decides when to end
        signal.signal(number, signal.SIG_IGN)
    _host, _port, _name, _process, _period = sys.argv[1:]
    guard((_host, int(_port)), _name, int(_process), float(_period))
