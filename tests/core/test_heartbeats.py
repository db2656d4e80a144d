"""Tests epg_tf.core.heartbeats against a key-value store like the launcher's."""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from epg_tf.core import heartbeats
from epg_tf.core.heartbeats import Heartbeats


class Store(http.server.BaseHTTPRequestHandler):
    """Keeps what is put; answers 404 for what is not there."""

    kept: dict[str, bytes] = {}

    def do_PUT(self):
        self.kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200)

    def do_GET(self):
        self._answer(200 if self.path in self.kept else 404, self.kept.get(self.path, b""))

    def _answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture
def launcher(monkeypatch):
    """A store, announced as horovodrun does; heartbeats every 50 ms."""
    monkeypatch.setattr(heartbeats, "PERIOD_SECONDS", 0.05)
    monkeypatch.setattr(Store, "kept", {})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1")
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", str(server.server_address[1]))
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def crew(launcher):
    """Four ranks, all alive."""
    ranks = [Heartbeats(rank, 4) for rank in range(4)]
    time.sleep(0.2)
    yield ranks
    for rank in ranks:
        rank.close()


def test_the_silent_and_the_late_are_named(crew):
    """Rank 0 dies, rank 2 is still busy; rank 1 reports, whichever rank looks."""
    for rank in (1, 3):
        crew[rank].place = 7
    crew[2].place = 6
    crew[0].close()
    time.sleep(0.2)
    for asking in (1, 3):
        missing = crew[asking].missing(7, time.sleep)
        assert missing.reporting_rank == 1
        assert (
            "no heartbeat from rank 0" in missing.reasons and "rank 2 still busy" in missing.reasons
        )
        assert "rank 3" not in missing.reasons and "\n" not in missing.reasons


def test_ranks_that_never_came_are_silent(launcher):
    ranks = [Heartbeats(rank, 4) for rank in (0, 2)]
    time.sleep(0.2)
    missing = ranks[1].missing(0, time.sleep)
    assert missing.reporting_rank == 0 and missing.reasons.startswith(
        "no heartbeat from ranks 1, 3 "
    )
    for rank in ranks:
        rank.close()


def test_no_rank_is_named_when_all_are_there(crew):
    for rank in crew:
        rank.place = 3
    time.sleep(0.2)
    missing = crew[2].missing(3, time.sleep)
    assert missing.reporting_rank == 0 and "network" in missing.reasons


def test_without_a_store_every_rank_reports_and_none_is_named(monkeypatch):
    monkeypatch.delenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", raising=False)
    missing = Heartbeats(2, 4).missing(1, time.sleep)
    assert missing.reporting_rank == 2 and "rank 0" not in missing.reasons


def test_a_store_that_has_ended_does_no_harm(launcher):
    rank = Heartbeats(1, 3)
    launcher.shutdown()
    launcher.server_close()
    missing = rank.missing(1, time.sleep)
    assert missing.reporting_rank == 1 and "ranks 0, 2" in missing.reasons
    rank.close()


RANK = """
import os, time
from epg_tf.core import heartbeats

heartbeats.PERIOD_SECONDS = 0.05
rank = heartbeats.Heartbeats(1, 2)
heartbeats.start_guard()
rank.place = 3
print(heartbeats.process_name(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def other_rank(launcher):
    """Rank 1 of two, in a process of its own, with a guard; and its name."""
    with subprocess.Popen([sys.executable, "-c", RANK], stdout=subprocess.PIPE, text=True) as rank:
        yield rank, rank.stdout.readline().strip()
        rank.kill()


def children(process: int) -> list[int]:
    """Returns the ids of the processes that a process has started."""
    with open(f"/proc/{process}/task/{process}/children") as stream:
        return [int(word) for word in stream.read().split()]


def wait_for_the_end_of(process: int) -> None:
    end = time.monotonic() + 20
    while os.path.exists(f"/proc/{process}"):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_stopped_rank_is_ended_by_its_guard_once_another_asks(other_rank):
    """Not before; and the guard ends, too."""
    rank, name = other_rank
    (guard,) = children(rank.pid)
    asking = Heartbeats(0, 2)
    time.sleep(0.5)
    assert not asking.missing(3, time.sleep).processes
    assert asking.missing(4, time.sleep).processes == [name]  # alive, but late
    rank.send_signal(signal.SIGSTOP)
    missing = asking.missing(3, time.sleep)
    assert missing.processes == [name] and "no heartbeat from rank 1" in missing.reasons
    assert rank.poll() is None
    asking.remove(["another-process"])
    time.sleep(0.3)
    assert rank.poll() is None
    asking.remove(missing.processes)
    assert rank.wait(20) == -signal.SIGKILL
    wait_for_the_end_of(guard)
    asking.close()


def test_a_process_that_runs_is_not_ended_for_an_entry_of_its_earlier_number(launcher):
    """Ranks get new numbers when they connect again; one of them is this process itself."""

    def entry(rank, number, process):
        Store.kept[f"/heartbeats/{rank}"] = json.dumps([number, 3, process]).encode()

    for rank, process in enumerate([heartbeats.process_name(), "other", "stopped"], start=1):
        entry(rank, 5, process)
    missing = Heartbeats(0, 5).missing(3, lambda seconds: entry(4, 1, "other"))
    assert missing.processes == ["stopped"]


def test_a_guard_ends_with_its_rank(other_rank):
    rank, _ = other_rank
    (guard,) = children(rank.pid)
    os.kill(guard, signal.SIGTERM)  # as a terminal or cluster sends it to all; ignored
    time.sleep(0.2)
    assert os.path.exists(f"/proc/{guard}")
    rank.kill()
    rank.wait(20)
    wait_for_the_end_of(guard)
