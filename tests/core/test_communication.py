"""Tests epg_tf.core.communication with a Horovod that is played; tests/launch/test_horovod.py uses
the real one.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import types

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core import communication
from epg_tf.core.communication import (
    Disagreement,
    HorovodCommunicator,
    HorovodUnusable,
    RanksLost,
    SingleProcess,
)
from epg_tf.core.errors import Stopped
from epg_tf.core.heartbeats import Heartbeats, MissingRanks
from tests.thread_ranks import on_ranks

VALUES = np.array([[1, -2], [3, 2**62]])


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    """Starts every test as a user's own process."""
    others = {k: v for k, v in os.environ.items() if not re.match("HOROVOD_|OMPI_|PMI_", k)}
    monkeypatch.setattr(os, "environ", others)
    monkeypatch.setattr(communication, "_STARTING_SECONDS", 0.5)


def played(size=2, rank=0, allreduce=None, init=None):
    """Returns a module that answers as horovod.tensorflow does; without `allreduce` all ranks hold
    the same.
    """
    return types.SimpleNamespace(
        init=init or (lambda: None),
        rank=lambda: rank,
        size=lambda: size,
        local_rank=lambda: rank % 2,
        local_size=lambda: 2,
        Sum="sum",
        allreduce=allreduce or (lambda tensor, op, name: tensor * size if op == "sum" else None),
    )


@pytest.fixture
def launched(monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "0")
    monkeypatch.setenv("HOROVOD_SIZE", "2")


def test_alone_is_the_default_and_needs_no_horovod(monkeypatch):
    monkeypatch.setattr(communication, "_horovod", None)  # calling it would fail
    monkeypatch.setenv("PMI_RANK", "0")  # a cluster manager's, with one process
    alone = communication.join(10.0)
    assert isinstance(alone, SingleProcess) and communication.launched_rank() is None
    assert (alone.rank, alone.size, alone.local_rank, alone.local_size) == (0, 1, 0, 1)
    np.testing.assert_array_equal(alone.sum(VALUES), VALUES)
    np.testing.assert_array_equal(alone.broadcast(VALUES), VALUES)
    alone.check_same("phi", b"12345678")
    alone.admit()
    alone.stop()
    assert alone.run(lambda: 7) == 7 and (alone.seconds, alone.bytes_sent) == (0.0, 0)


def test_rank_0s_values_reach_all():
    for got in on_ranks(3, lambda rank: rank.broadcast(VALUES * (rank.rank + 1))):
        np.testing.assert_array_equal(got, VALUES)


def test_check_same_names_both_values_and_the_rank_on_all_ranks():
    digests = [bytes(range(32)), bytes(range(32)), bytes(31) + b"\x01"]

    def work(rank):
        rank.check_same("phi", digests[0])
        with pytest.raises(Disagreement) as raised:
            rank.check_same("phi after epoch 3", digests[rank.rank])
        return str(raised.value)

    messages = on_ranks(3, work)
    assert len(set(messages)) == 1
    differs = "phi after epoch 3 differs between ranks: 0001020304050607 on rank 0, "
    assert messages[0].startswith(f"{differs}0000000000000000 on rank 2; ")
    assert "\n" not in messages[0]


def test_ranks_add_up_and_count(launched):
    ranks = HorovodCommunicator(played(size=2, rank=1), 10.0)
    assert (ranks.rank, ranks.size, ranks.local_rank, ranks.local_size) == (1, 2, 1, 2)
    total = ranks.sum(VALUES)
    np.testing.assert_array_equal(total, 2 * VALUES)
    assert total.dtype == np.int64 and ranks.bytes_sent == 32 and 0 < ranks.seconds < 5
    assert ranks.run(lambda: "once") == "once"


def test_join_prepares_horovod(launched, monkeypatch):
    """Horovod's thread sleeps longer than by default, unless the user has said otherwise."""
    monkeypatch.setenv("HOROVOD_LOG_LEVEL", "info")
    seen = {}
    horovod = played(init=lambda: seen.update(os.environ))
    monkeypatch.setattr(communication, "_horovod", lambda: horovod)
    assert isinstance(communication.join(10.0), HorovodCommunicator)
    assert communication.launched_rank() == 0
    assert seen["HOROVOD_CYCLE_TIME"] == "20" and seen["HOROVOD_LOG_LEVEL"] == "info"


@pytest.mark.parametrize("call", ["init", "allreduce"])
def test_waiting_ends_after_the_timeout(launched, call):
    """Nobody else is there; without the launcher's store nobody can be named."""
    forever = threading.Event()

    def hang(*_, **__):
        forever.wait(30)

    started = time.monotonic()
    with pytest.raises(RanksLost, match="did not take part in time: .*resume=True") as raised:
        HorovodCommunicator(played(**{call: hang}), 0.3).sum(VALUES)
    assert 0.3 <= time.monotonic() - started < 5
    assert "\n" not in str(raised.value) and raised.value.reporting_rank == 0
    forever.set()


def test_a_stop_ends_the_waiting(launched):
    forever = threading.Event()
    ranks = HorovodCommunicator(played(allreduce=lambda *_, **__: forever.wait(30)), 60.0)
    threading.Timer(0.2, ranks.stop).start()
    with pytest.raises(Stopped):
        ranks.sum(VALUES)
    forever.set()


class HorovodInternalError(RuntimeError):
    """Horovod's own name for a lost rank."""


def gone(*_, **__):
    raise tf.errors.UnknownError(None, None, "Horovod has been shut down.\nMuch more.")


def played_elastic(allreduce):
    horovod = played(allreduce=allreduce)
    horovod.elastic = types.SimpleNamespace(
        HorovodInternalError=HorovodInternalError,
        ObjectState=lambda first, rank: types.SimpleNamespace(first=first),
    )
    return horovod


def test_where_it_does_not_help_to_remove_ranks_the_job_ends_and_names_them(launched, monkeypatch):
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    removed, forever = [], threading.Event()

    class Frozen(Heartbeats):
        def missing(self, place, wait):
            return MissingRanks("no heartbeat from rank 1", 0, ("machine-7",))

        def remove(self, processes):
            removed.extend(processes)

    monkeypatch.setattr(communication, "Heartbeats", Frozen)
    horovod = played_elastic(lambda *_, **__: forever.wait(30))
    with pytest.raises(RanksLost, match="no heartbeat from rank 1"):
        HorovodCommunicator(horovod, 0.3).sum(VALUES)
    assert removed == ["machine-7"]
    forever.set()


@pytest.mark.parametrize("elastic", ["0", "1"])
def test_who_comes_while_heartbeats_are_compared_is_not_removed(launched, monkeypatch, elastic):
    """And the collective has its result, as if nothing had been late."""
    monkeypatch.setenv("HOROVOD_ELASTIC", elastic)
    came, add = threading.Event(), played().allreduce
    horovod = played_elastic(lambda *words, **names: (came.wait(30), add(*words, **names))[1])

    class Late(Heartbeats):
        def missing(self, place, wait):
            came.set()
            time.sleep(0.5)
            return MissingRanks("rank 1 still busy", 0, ("machine-7",))

        def remove(self, processes):
            raise AssertionError(processes)

    monkeypatch.setattr(communication, "Heartbeats", Late)
    total = HorovodCommunicator(horovod, 0.3).sum(VALUES)
    np.testing.assert_array_equal(total, horovod.size() * VALUES)


class World:
    """What the ranks of a job do together, as a future; each wait for it moves its clock on.

    Attributes:
      now: Seconds since all but rank 1 began.
      comes: When rank 1 takes part; infinity if it is frozen.
      fails: When Gloo gives up, or notices that rank 1 was killed.
      removed: When rank 1 was removed, or None.
    """

    def __init__(self, monkeypatch, elastic):
        self.now, self.comes, self.fails, self.removed = 0.0, 0.0, float("inf"), None
        world = self

        class Played(Heartbeats):
            def missing(self, place, wait):
                return MissingRanks("no heartbeat from rank 1", 0, ["machine-7"])

            def remove(self, processes):
                assert processes == ["machine-7"]
                world.removed = world.now

        monkeypatch.setattr(communication, "Heartbeats", Played)
        monkeypatch.setattr(communication, "_started", lambda operation: self)
        monkeypatch.setattr(communication, "_STARTING_SECONDS", 300.0)
        monkeypatch.setenv("HOROVOD_ELASTIC", "1" if elastic else "0")

    def done(self):
        return self.now >= self.comes

    def result(self, seconds=0.0):
        self.now += seconds
        if self.done():
            return VALUES
        if self.now >= self.fails or self.removed is not None:
            gone()
        raise TimeoutError


@pytest.fixture(params=[False, True], ids=["plain", "elastic"])
def world(request, launched, monkeypatch):
    return World(monkeypatch, request.param)


def begun(world, timeout):
    """Returns the ranks of a world, whose clock starts, and the seconds that Gloo waits."""
    ranks, world.now = HorovodCommunicator(played_elastic(None), timeout), 0.0
    return ranks, float(os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"])


@pytest.mark.parametrize("timeout", [15.0, 60.0, 3600.0])
def test_the_timeout_decides_when_a_frozen_rank_is_removed_or_ends_the_job(world, timeout):
    ranks, gloo = begun(world, timeout)
    world.comes, world.fails = float("inf"), gloo
    with pytest.raises(HorovodInternalError if ranks._elastic else RanksLost) as raised:
        ranks.sum(VALUES)
    assert ranks._elastic or "no heartbeat from rank 1" in str(raised.value)
    if world.fails == 300.0:  # elastic ranks then connect again, which waits for rank 1, too
        assert ranks._elastic and timeout > 270 and world.removed is None
        world.now, world.fails = 0.0, float("inf")
        with pytest.raises(tf.errors.OpError):  # the world ends so; Horovod would connect
            ranks._reconnect()
    assert (world.removed is not None) == ranks._elastic
    assert timeout <= world.now < timeout + 1.0


@pytest.mark.parametrize("timeout", [60.0, 3600.0])
def test_a_rank_that_is_stopped_for_less_than_the_timeout_loses_nothing(world, timeout):
    ranks, gloo = begun(world, timeout)
    world.comes, world.fails = 45.0, gloo
    np.testing.assert_array_equal(ranks.sum(VALUES), VALUES)
    assert world.removed is None and 45.0 <= world.now < 46.0


def test_a_killed_rank_is_noticed_at_once(world):
    ranks, _ = begun(world, 3600.0)
    world.comes, world.fails = float("inf"), 0.0
    with pytest.raises(HorovodInternalError if ranks._elastic else RanksLost):
        ranks.sum(VALUES)
    assert world.now < 1.0 and world.removed is None


def test_connecting_ends_after_minutes_whatever_a_shard_takes(world):
    world.comes = float("inf")
    with pytest.raises(tf.errors.OpError if "1" == os.environ["HOROVOD_ELASTIC"] else RanksLost):
        HorovodCommunicator(played_elastic(None), 3600.0)
    assert 300.0 <= world.now < 301.0


def test_processes_that_cannot_connect_are_told_what_to_do(launched):
    def init():
        raise ValueError("Horovod initialization failed.\nPlease check log messages")

    with pytest.raises(
        HorovodUnusable, match=r"\(Horovod initialization failed.\); .*--network-interfaces"
    ):
        HorovodCommunicator(played(init=init), 10.0)


def test_missing_horovod_is_told_how_to_build(launched, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(HorovodUnusable, match="`make horovod`$"):
        communication.join(10.0)


SYMBOL = "mpi_lib.so: undefined symbol: _ZN10tensorflow"


@pytest.mark.parametrize("failure", ["tf.errors.NotFoundError(None, None, {})", "ImportError({})"])
def test_horovod_for_another_tensorflow_is_told_how_to_rebuild(
    launched, monkeypatch, tmp_path, failure
):
    folder = tmp_path / "horovod"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    error = failure.format(repr(SYMBOL + "\nmore"))
    (folder / "tensorflow.py").write_text(f"import tensorflow as tf\nraise {error}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] == "horovod"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(HorovodUnusable) as raised:
        communication.join(10.0)
    sys.modules.pop("horovod", None)
    assert str(raised.value) == (
        f"Horovod does not work with the installed TensorFlow {tf.__version__} ({SYMBOL}): rebuild "
        "it with `make horovod`"
    )


def test_processes_that_do_not_see_each_other_are_refused(monkeypatch):
    """mpirun with a Horovod that knows only Gloo: each would run everything, and write to the same
    folder.
    """
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setattr(communication, "_horovod", lambda: played(size=1))
    assert communication.launched_rank() == 2
    with pytest.raises(HorovodUnusable, match="4 processes .*horovodrun --gloo"):
        communication.join(10.0)


@pytest.mark.parametrize(
    ("launcher", "rank", "size"),
    [
        ("HOROVOD_", "abc", None),
        ("HOROVOD_", "-1", "2"),
        ("HOROVOD_", "2", "2"),
        ("OMPI_COMM_WORLD_", "0", "two"),
        ("PMI_", "", "4"),
    ],
)
def test_ranks_that_are_none_are_named(monkeypatch, launcher, rank, size):
    """Also where errors are printed, which asks for the rank again."""
    monkeypatch.setenv(f"{launcher}RANK", rank)
    if size is not None:
        monkeypatch.setenv(f"{launcher}SIZE", size)
    with pytest.raises(HorovodUnusable) as raised:
        communication.join(10.0)
    assert str(raised.value) == (
        f"{launcher}RANK={rank} in the environment is no rank below {launcher}SIZE={size or 1}; "
        "unset both, or start all ranks by horovodrun"
    )
    assert communication.launched_rank() is None


def test_a_gpu_is_pinned_by_local_rank(monkeypatch):
    """Rank 5 of a machine with three GPUs takes the third; without GPUs nothing is touched."""
    done = []
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: [f"{kind}:{n}" for n in range(3)]
    )
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *args: done.append(args))
    monkeypatch.setattr(
        tf.config.experimental, "set_memory_growth", lambda *args: done.append(args)
    )
    communication.pin_gpu(5)
    assert done == [("GPU:2", "GPU"), ("GPU:2", True)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    communication.pin_gpu(0)
    assert len(done) == 2
