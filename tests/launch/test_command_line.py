"""launch.command_line among many ranks: one speaks, and a lost rank holds nobody up."""

import os
import signal

import pytest

from launch import command_line


@pytest.fixture
def rank(monkeypatch):
    """A function that makes this process a rank; exits become exceptions, and waiting takes no
    time.
    """
    waited = []
    monkeypatch.setattr(command_line.time, "sleep", waited.append)
    monkeypatch.setattr(command_line.os, "_exit", lambda code: pytest.exit(f"at once, with {code}"))
    handlers = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}

    def become(number):
        monkeypatch.setenv("HOROVOD_RANK", str(number))
        monkeypatch.setenv("HOROVOD_SIZE", "3")
        return waited

    yield become
    for name, handler in handlers.items():
        signal.signal(name, handler)


def failure(*arguments) -> str:
    """Returns how a failing process ended."""
    with pytest.raises((SystemExit, pytest.exit.Exception)) as raised:
        command_line.fail(*arguments)
    return str(raised.value)


def test_a_lone_process_speaks_and_exits(monkeypatch, capsys):
    for name in [name for name in os.environ if name.startswith("HOROVOD_")]:
        monkeypatch.delenv(name)
    assert failure("no such thing") == "2" and capsys.readouterr().err == "error: no such thing\n"


def test_rank_0_speaks_at_once(rank, capsys):
    waited = rank(0)
    assert failure("no such thing") == "at once, with 2"
    assert capsys.readouterr().err == "error: no such thing\n" and waited == []


def test_another_rank_gives_it_time_and_says_where_it_is(rank, capsys):
    waited = rank(2)
    assert failure("no such thing") == "at once, with 2"
    assert capsys.readouterr().err == "error on rank 2: no such thing\n" and waited == [10.0]


def test_the_named_rank_speaks_when_rank_0_is_lost(rank, capsys):
    waited = rank(1)
    assert failure("rank 0 is lost", 1, 1) == "at once, with 1"
    assert capsys.readouterr().err == "error: rank 0 is lost\n" and waited == []
