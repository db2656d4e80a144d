"""launch.meta_train under horovodrun: the same bits on any number of ranks, and after faults.
Skipped without Horovod.

What does not need Horovod is tested in tests/core/test_communication.py, test_heartbeats.py and
tests/epg/test_shards.py.
"""

import importlib.util
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.launch import commands
from tests.launch.systems import SYSTEMS

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None,
    reason="Horovod is not installed; `make horovod` builds it",
)
psutil = pytest.importorskip("psutil", reason="it comes with Horovod")

CONFIG = "--config=configs/point_goal.py"
HOROVODRUN = str(Path(sys.executable).parent / "horovodrun")
# Two names of one machine: the launcher gives up on a whole host when a rank there dies.
_TWO = "--gloo -np 2 --min-np 1 --max-np 2 -H localhost:1,127.0.0.1:1 --network-interface lo"
ELASTIC = [HOROVODRUN, *_TWO.split()]
GLOO_FIRST = ["--gloo-timeout-seconds", "2"]
# 4 shards an epoch.
SMALL = {"evolution__epochs": 3, "compute__shard_lives": 2, "compute__threads": 1}
# An epoch of about a second, to be hit in its midst.
SLOW = {**SMALL, "evolution__epochs": 8, "inner__updates": 60}


def ranks(number: int) -> list[str]:
    return [HOROVODRUN, "-np", str(number), "-H", f"localhost:{number}"]


def left(folder) -> list:
    """Returns two losses and the rows of a run, without what ranks told each other."""
    *losses, rows = SYSTEMS["evolution"].left(folder)
    rows = [{k: v for k, v in row.items() if k != "communication_bytes"} for row in rows]
    return [*losses, *rows]


def assert_same(folder, reference) -> None:
    assert left(folder) == left(reference)


def rank_process(launcher, rank: int):
    """Finds the process of a rank among those that horovodrun has started."""
    for process in psutil.Process(launcher.pid).children(recursive=True):
        if "launch.meta_train" in process.cmdline() and process.environ().get(
            "HOROVOD_RANK"
        ) == str(rank):
            return process
    raise AssertionError(f"rank {rank} does not run")


def wait_for(path, process) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    time.sleep(0.2)  # into the middle of the next epoch


def words(folder, settings, *flags) -> list[str]:
    return ["meta_train", CONFIG, f"--run_dir={folder}", *commands.settings(**settings), *flags]


def train(folder, settings, *flags, under=()):
    """Runs to the end, which must be a good one."""
    process = commands.run(*words(folder, settings, *flags), under=under)
    assert process.returncode == 0, process.stderr
    return process


def said(process) -> list[str]:
    """Returns the lines of ranks."""
    lines = (process.stdout + process.stderr).splitlines()
    return [line for line in lines if line.startswith("[")]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Three epochs without Horovod."""
    train(folder := tmp_path_factory.mktemp("small") / "run", SMALL)
    return folder


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Eight longer epochs without Horovod."""
    train(folder := tmp_path_factory.mktemp("slow") / "run", SLOW)
    return folder


@pytest.mark.parametrize("number", [1, 2, 4])
def test_any_number_of_ranks_gives_the_same_bits(small, tmp_path, number):
    process = train(folder := tmp_path / "run", SMALL, under=ranks(number))
    assert_same(folder, small)
    # The other ranks are silent.
    assert {line.split(":")[0] for line in said(process)} == {"[0]<stdout>"}
    assert len(list((folder / "tensorboard").iterdir())) == 1 and len(left(folder)) == 2 + 3


def test_random_hopper_gives_the_same_bits_on_two_ranks(tmp_path):
    config, flags = "--config=configs/random_hopper.py:laptop", commands.settings(**SMALL)
    for name, under in (("one", []), ("two", ranks(2))):
        process = commands.run(
            "meta_train", config, f"--run_dir={tmp_path / name}", *flags, under=under
        )
        assert process.returncode == 0, process.stderr
    assert_same(tmp_path / "two", tmp_path / "one")


def test_ranks_that_do_different_things_are_stopped(tmp_path):
    """Each takes its own number as its seed."""
    unlike = [*ranks(2), "bash", "-c", 'exec "$@" --seed=$HOROVOD_RANK', "unlike"]
    process = commands.run(*words(tmp_path / "run", SMALL), under=unlike, timeout=60)
    (line,) = said(process)
    assert process.returncode != 0 and not (tmp_path / "run").exists()
    assert "error: what the run does" in line and "on rank 0" in line and "on rank 1" in line


def test_bad_input_is_refused_in_one_line_by_rank_0(tmp_path):
    flags = words(tmp_path / "run", SMALL, "--config.inner.minibatch=5")
    process = commands.run(*flags, under=ranks(2), timeout=60)
    (line,) = said(process)
    assert process.returncode != 0 and not (tmp_path / "run").exists()
    assert line.startswith("[0]<stderr>:error: config.inner.minibatch=5")
    assert "Process 0 exit with status code 2" in process.stdout


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_the_job_which_can_be_resumed(slow, tmp_path, victim):
    """Without elastic Horovod; resumed in one process."""
    folder = tmp_path / "run"
    process = commands.start(*words(folder, SLOW), under=ranks(2))
    wait_for(folder / "checkpoints" / "epoch_00000002.npz", process)
    rank_process(process, victim).kill()
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0 and f"Process {victim} exit with status code 137" in output
    assert not (folder / "final").exists()
    train(folder, SLOW, "--resume")
    assert_same(folder, slow)


@pytest.mark.parametrize(("victim", "returns"), [(0, False), (1, True)])
def test_elastic_ranks_go_on_without_the_one_killed_and_with_it_when_it_returns(
    slow, tmp_path, victim, returns
):
    folder = tmp_path / "run"
    under = [*ELASTIC, *(["--blacklist-cooldown-range", "1", "2"] if returns else [])]
    process = commands.start(*words(folder, SLOW), under=under)
    wait_for(folder / "checkpoints" / "epoch_00000001.npz", process)
    rank_process(process, victim).kill()
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    begun = [
        line.split(folder.name)[1] for line in output.splitlines() if "evolving a loss" in line
    ]
    assert begun[0] == ", on 2 ranks" and begun[1].startswith(", continued after epoch ")
    assert [line.startswith(", on 2 ranks, continued after epoch ") for line in begun[2:]] == [
        True
    ] * returns, begun
    assert_same(folder, slow)


def test_a_rank_that_hangs_is_named(tmp_path):
    folder = tmp_path / "run"
    flags = words(folder, {**SMALL, "evolution__epochs": 100000}, "--rank_timeout=3")
    process = commands.start(*flags, under=ranks(2))
    wait_for(folder / "checkpoints" / "epoch_00000001.npz", process)
    rank_process(process, 1).suspend()
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert (
        "[0]<stderr>:error: other ranks did not take part in time: no heartbeat from rank 1"
        in output
    )


@pytest.mark.parametrize(("victim", "gloo"), [(0, []), (1, []), (1, GLOO_FIRST)])
def test_elastic_ranks_remove_one_that_hangs(slow, tmp_path, victim, gloo):
    """Nobody has to kill it; the message names it, and the bits are the same; also where Gloo gives
    up first, and the other rank connects again.
    """
    folder = tmp_path / "run"
    process = commands.start(*words(folder, SLOW, "--rank_timeout=5"), under=[*ELASTIC, *gloo])
    wait_for(folder / "checkpoints" / "epoch_00000001.npz", process)
    frozen = rank_process(process, victim)
    frozen.suspend()
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert f"a process did not take part in time; it is ended, as rank {1 - victim} asked" in output
    assert not frozen.is_running()
    begun = [line for line in output.splitlines() if "evolving a loss" in line]
    assert len(begun) == 2 and ", continued after epoch " in begun[1]
    assert_same(folder, slow)


@pytest.mark.parametrize("under", [ranks(2), ELASTIC])
def test_a_rank_that_is_stopped_for_less_than_the_timeout_loses_nothing(slow, tmp_path, under):
    """Though Gloo itself would have given up after 30 s."""
    folder = tmp_path / "run"
    process = commands.start(*words(folder, SLOW, "--rank_timeout=60"), under=under)
    wait_for(folder / "checkpoints" / "epoch_00000001.npz", process)
    stopped = rank_process(process, 1)
    stopped.suspend()
    time.sleep(35)
    stopped.resume()
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0 and output.count("evolving a loss") == 1, output
    assert_same(folder, slow)


def test_sigterm_ends_all_ranks_cleanly(slow, tmp_path):
    """Resumed on two ranks."""
    folder = tmp_path / "run"
    process = commands.start(*words(folder, SLOW), under=ranks(2))
    wait_for(folder / "checkpoints" / "epoch_00000001.npz", process)
    processes = [rank_process(process, rank) for rank in (0, 1)]
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0 and "to go on, run the same command with --resume" in output
    assert not any(rank.is_running() for rank in processes)
    resumed = train(folder, SLOW, "--resume", under=ranks(2))
    assert "on 2 ranks, continued after epoch " in resumed.stdout
    assert_same(folder, slow)


def test_a_full_disk_ends_all_ranks_and_the_last_checkpoint_is_whole(small, tmp_path):
    """No file may grow beyond 20 kB: a picture does not fit."""
    folder = tmp_path / "run"
    limited = ["bash", "-c", 'ulimit -f 20; exec "$@"', "limited", *ranks(2)]
    process = commands.run(*words(folder, SMALL), under=limited, timeout=60)
    assert (
        process.returncode != 0
        and "[0]<stderr>:error: cannot write to --run_dir=" in process.stderr
    )
    assert (
        "File too large" in process.stderr and "Traceback" not in process.stderr.split("error:")[0]
    )
    assert "continued after epoch " in train(folder, SMALL, "--resume").stdout
    assert_same(folder, small)


@pytest.mark.parametrize("size", [2, 3])
def test_metagenrl_gives_the_same_bits_on_any_number_of_ranks(tmp_path, size):
    """Two shards on two ranks, then with a rank that has none; the agents' checkpoints are the
    same, too.
    """
    flags = SYSTEMS["metagenrl"].flags(agents=4, shard_agents=2, threads=1)
    for folder, under in (("alone", []), ("ranks", ranks(size))):
        process = commands.run("meta_train", *flags, f"--run_dir={tmp_path / folder}", under=under)
        assert process.returncode == 0, process.stderr
    for name in (
        "final/loss.npz",
        "agents/shard_000/weights/epoch_00000003.npz",
        "agents/shard_001/weights/epoch_00000003.npz",
        "agents/shard_001/steps/epoch_00000003.npz",
    ):
        assert (tmp_path / "alone" / name).read_bytes() == (
            tmp_path / "ranks" / name
        ).read_bytes(), name
