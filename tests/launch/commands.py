"""Runs launchers as a user does, with settings small enough for a test."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "evolution.epochs": 4,
    "evolution.lives": 8,
    "evolution.noise_vectors": 4,
    "evolution.validation_lives": 4,
    "evolution.validation_period": 2,
    "inner.updates": 3,
    "inner.update_period": 8,
    "inner.minibatch": 4,
    "loss.buffer_steps": 64,
    "task.episode_limit": 6,
    "compute.shard_lives": 4,
    "compute.threads": 1,
    "compute.parallel": "threads",
}
_HIDDEN = ("TF_CPP_MIN_LOG_LEVEL", "OPENBLAS_NUM_THREADS")  # what this test process set for itself

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.launch.preload"])


def settings(**changes) -> list[str]:
    """Returns --config flags: the tiny settings with `changes` (GROUP__FIELD=VALUE)."""
    merged = {**TINY, **{name.replace("__", "."): value for name, value in changes.items()}}
    return [f"--config.{name}={value}" for name, value in merged.items()]


def life_settings() -> list[str]:
    """Returns the tiny settings for commands that run lives but no evolution."""
    return [flag for flag in settings() if not flag.startswith("--config.evolution.")]


def command(name: str, *flags: str, under: Sequence[str] = ()) -> list[str]:
    """Returns the words of `UNDER python -m launch.NAME FLAGS`."""
    return [*under, sys.executable, "-m", f"launch.{name}", *flags]


def run(
    name: str, *flags: str, timeout: float = 300, under: Sequence[str] = ()
) -> subprocess.CompletedProcess:
    """Runs a launcher to its end, perhaps under another program; returns exit code and output.

    It runs in a fork of a process that has imported TensorFlow, which saves the seconds that the
    imports take; under another program, or for another MUJOCO_GL, in a new process.
    """
    if under or "MUJOCO_GL" in os.environ:
        return run_fresh(name, *flags, timeout=timeout, under=under)
    with tempfile.TemporaryDirectory() as folder:
        output = [str(Path(folder) / stream) for stream in ("stdout", "stderr")]
        process = _forks.Process(
            target=_launch, args=(name, [*map(str, flags)], output, environment())
        )
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutError(f"launch.{name} took more than {timeout} s")
        texts = [Path(path).read_text() for path in output]
    return subprocess.CompletedProcess(command(name, *flags), process.exitcode, *texts)


def _launch(name: str, flags: list[str], output: Sequence[str], variables: dict[str, str]) -> None:
    """Becomes `python -m launch.NAME FLAGS`, with its output in files."""
    for number, path in zip((1, 2), output, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [f"launch.{name}", *flags]
    sys.path.insert(0, str(ROOT))
    runpy.run_module(f"launch.{name}", run_name="__main__", alter_sys=True)


def run_fresh(
    name: str, *flags: str, timeout: float = 300, under: Sequence[str] = ()
) -> subprocess.CompletedProcess:
    """Runs a launcher to its end in a new process, perhaps under another program."""
    return subprocess.run(
        command(name, *flags, under=under),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(),
        check=False,
    )


class Started:
    """A launcher at work in a fork, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, name: str, flags: Sequence[str]):
        self._folder = tempfile.TemporaryDirectory()
        self._output = Path(self._folder.name) / "output"
        output = [str(self._output)] * 2
        words = [*map(str, flags)]
        self._process = _forks.Process(
            target=_launch, args=(name, words, output, environment()), daemon=True
        )
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            self.kill()
            raise TimeoutError(f"it did not end within {timeout} s: {self._output.read_text()}")
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Waits for the end; returns standard output and standard error together."""
        self.wait(timeout)
        return self._output.read_text(), None


def start(name: str, *flags: str, under: Sequence[str] = ()) -> Started | subprocess.Popen:
    """Starts a launcher, to be interrupted; under another program it is a new process."""
    if not under:
        return Started(name, flags)
    return subprocess.Popen(
        command(name, *flags, under=under),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    )


def environment() -> dict[str, str]:
    """Returns the environment of a user who has activated the virtual environment."""
    kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    path = (str(Path(sys.executable).parent), os.environ.get("PATH", ""))
    return {**kept, "PATH": os.pathsep.join(path)}


def done(name: str, *flags: str) -> str:
    """Runs a launcher that must end well and in silence; returns its standard output."""
    process = run(name, *flags)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


def refused(name: str, *flags: str) -> str:
    """Runs a launcher that must refuse its flags in one line; returns that line."""
    process = run(name, *flags)
    assert process.returncode == 2 and process.stderr.count("\n") == 1, process.stderr
    return process.stderr
