"""Tests epg_tf.epg.shard_process: the lives of shards in a process of its own."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import Interrupted
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import LifeKey, LifeResults
from epg_tf.epg import shard_process
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.meta_parameters import loss_shapes
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shard_loop import ShardLoop, ShardRequest
from epg_tf.epg.shard_process import ProcessLost, ShardProcess, _failure
from epg_tf.epg.shards import processes_fit

TEACHING = InnerLoopSettings(0.0, 1e-2)


@pytest.fixture(scope="module")
def reacher(make_tiny):
    """Returns settings in coarse physics."""
    return make_tiny(
        task={
            "family": "random_reacher",
            "frame_skip": 2,
            "episode_limit": 6,
            "physics": "coarse",
        },
        compute={"shard_lives": 2, "threads": 2, "parallel": "processes"},
    )


@pytest.fixture(scope="module")
def process(reacher):
    """One process for the tests that leave it as it is."""
    found = ShardProcess(reacher, True, threading.Event())
    yield found
    found.close()


def request(experiment, exact=False, updates=None, seed=3) -> ShardRequest:
    size = parameter_count(loss_shapes(experiment))
    phi = np.stack([np.full(size, 0.1, np.float32), np.full(size, -0.2, np.float32)])
    keys = [LifeKey(seed, "test", 0, index) for index in range(2)]
    return ShardRequest(keys, phi, dataclasses.replace(TEACHING, updates=updates), exact)


def bits(results) -> list[bytes]:
    """Returns all that lives give, as bytes."""
    return [
        np.asarray(getattr(results, field.name)).astype("U64").tobytes()
        if field.name == "policy_hash"
        else getattr(results, field.name).tobytes()
        for field in dataclasses.fields(LifeResults)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_lives_have_the_same_bits_as_in_this_process(process, reacher, exact):
    here = ShardLoop(reacher, True, threading.Event())
    asked = request(reacher, exact)
    assert bits(process.run(asked)) == bits(here.run(asked))
    assert bits(process.run(asked)) != bits(process.run(request(reacher, not exact)))
    assert process.seconds["updating"] > 0.0 and set(process.seconds) == set(here.seconds)


@pytest.mark.slow
def test_errors_arrive_with_their_place(process, reacher):
    """And the process lives on."""
    asked = request(reacher)
    with pytest.raises(Exception, match="shape") as caught:
        process.run(dataclasses.replace(asked, phi=asked.phi[:, :3]))
    assert "learner.py" in "".join(caught.value.__notes__)
    assert process.run(asked).failed.tolist() == [False, False]


@pytest.mark.parametrize(
    ("error", "arrives"),
    [
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), tf.errors.ResourceExhaustedError),
        (type("OfNoModule", (ValueError,), {})("odd"), RuntimeError),
    ],
)
def test_errors_that_pickle_shortens_keep_their_text_and_place(error, arrives):
    try:
        raise error
    except Exception as caught:
        sent = pickle.loads(pickle.dumps(_failure(caught)))
    assert type(sent.error) is arrives and str(error) in str(sent.error)
    assert "test_shard_process.py" in sent.place and type(error).__name__ in sent.place


@pytest.mark.slow
def test_signals_to_all_processes_of_a_job_do_not_end_it(process, reacher):
    """Those of a terminal reach another session than its own; a scheduler's it ignores."""
    wanted = bits(process.run(request(reacher)))
    assert os.getsid(process._process.pid) != os.getsid(0)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(process._process.pid, number)
    assert bits(process.run(request(reacher))) == wanted


def test_it_imports_from_where_this_process_does(tmp_path, monkeypatch):
    """Also from a folder with a colon, and where the working folder is gone."""
    folder = tmp_path / "a:b"
    (folder / "gym_notices").mkdir(parents=True)
    (folder / "gym_notices" / "__init__.py").write_text("")
    (folder / "gym_notices" / "notices.py").write_text(
        f"notices = {{}}\nopen({str(tmp_path / 'imported')!r}, 'w').close()\n"
    )
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setattr(sys, "path", ["", str(folder), *sys.path])
    process = ShardProcess(Experiment(), False, threading.Event())
    deadline = time.monotonic() + 60.0
    while not (tmp_path / "imported").exists() and time.monotonic() < deadline:
        assert process._process.poll() is None
        time.sleep(0.02)
    process.close()
    assert (tmp_path / "imported").exists()


def test_a_process_that_cannot_start_is_named(monkeypatch):
    """Not an OSError, which commands take for one of the disk."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(ProcessLost, match=r"cannot be started \(.*no/such/python.*threads"):
        ShardProcess(Experiment(), False, threading.Event())


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [0, 10**6], ids=["short", "longer than the socket holds"])
def test_a_suspended_process_does_not_hold_up_a_stop(reacher, monkeypatch, parameters):
    monkeypatch.setattr(shard_process, "_STOP_SECONDS", 0.5)
    stop = threading.Event()
    process = ShardProcess(reacher, False, stop)
    process.run(request(reacher))
    process._process.send_signal(signal.SIGSTOP)
    threading.Timer(0.3, stop.set).start()
    asked = request(reacher)
    if parameters:
        asked = dataclasses.replace(asked, phi=np.zeros((2, parameters), np.float32))
    with pytest.raises(Interrupted):
        process.run(asked)
    process.close()
    assert process._process.returncode == -signal.SIGKILL
    assert not process._sending.is_alive()  # it would write into the next process's socket


def test_what_keeps_a_request_from_being_sent_arrives(reacher, monkeypatch):
    process = ShardProcess(reacher, False, threading.Event())

    def send(message):
        raise MemoryError("no room for a copy")

    monkeypatch.setattr(process._connection, "send", send)
    with pytest.raises(MemoryError, match="no room for a copy"):
        process.run(request(reacher))
    process._process.kill()
    process.close()


@pytest.mark.slow
def test_the_end_of_the_process_is_named(reacher):
    process = ShardProcess(reacher, False, threading.Event())
    threading.Timer(0.3, os.kill, (process._process.pid, signal.SIGKILL)).start()
    with pytest.raises(ProcessLost, match=r"killed by signal 9; if memory .*shard_lives"):
        process.run(request(reacher, updates=10**7))
    process.close()


_PARENT = """
import threading, time
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shard_process import ShardProcess
process = ShardProcess(Experiment(), False, threading.Event())
print(process._process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_no_process_outlives_the_one_that_started_it():
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    child = int(parent.stdout.readline())
    assert _runs(child)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60.0
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_families_and_channels_of_users_stay_in_this_process(reacher):
    """A file of theirs defines them, which another process does not have."""
    task = dataclasses.replace(reacher.task, physics="exact")

    def fits(**changed) -> bool:
        return processes_fit(
            dataclasses.replace(reacher, task=dataclasses.replace(task, **changed))
        )

    assert fits() and fits(family="gymnasium:Pendulum-v1")
    assert not fits(family="of_a_user") and not fits(family="gymnasium:OfAUser-v0")
    for names, known in ((("novelty",), True), (("novelty", "of_a_user"), False)):
        loss = dataclasses.replace(reacher.loss, channels=names)
        assert processes_fit(dataclasses.replace(reacher, loss=loss)) == known
    threads = dataclasses.replace(reacher.compute, parallel="threads")
    assert not processes_fit(dataclasses.replace(reacher, compute=threads))
