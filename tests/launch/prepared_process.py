"""Runs launchers in processes that start with the frameworks already imported.

A launcher spends most of a short run importing TensorFlow. So one server process imports what all
launchers import, and is forked for each of them; it runs no operation of TensorFlow, so that a fork
is as good as a new process: it has its own interpreter state, signals, output and exit code.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_PRELOADED = "tests.launch.preloaded"


def _context() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOADED])
    return context


_CONTEXT = _context()


def _run_module(
    words: Sequence[str], environment: Mapping[str, str], folder: str, outputs: Sequence[str]
) -> None:
    """Becomes `python -m WORDS` in a folder, with output to two files."""
    module, *flags = words
    for descriptor, path in zip((1, 2), outputs, strict=True):
        target = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(target, descriptor)
        os.close(target)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, closefd=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.argv = ["-m", *flags]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.stdout.flush()


class PreparedProcess:
    """Holds a running launcher; has the methods of `subprocess.Popen` that tests use.

    Args:
      words: Module and flags, e.g. ["launch.meta_train", "--help"].
      environment: Of the process.
      folder: Its working folder.
      join_errors: Whether standard error goes where standard output goes.

    Attributes:
      stdout: Reads what the process prints; ends when the process does.
    """

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], folder: Path, join_errors: bool
    ):
        self.args = list(words)
        self._home = tempfile.TemporaryDirectory()
        output, self._errors = (Path(self._home.name, name) for name in ("output", "errors"))
        os.mkfifo(output)
        self._errors.touch()
        outputs = [str(output), str(output if join_errors else self._errors)]
        self._process = _CONTEXT.Process(
            target=_run_module, args=(self.args, dict(environment), str(folder), outputs)
        )
        self._process.start()
        self.pid = self._process.pid
        self.stdout = open(output, encoding="utf-8", errors="replace")

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        self._process.join(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Returns the rest of the output, and standard error, when the process has ended."""
        guard = threading.Timer(timeout or 3600.0, self.kill)
        guard.start()
        output = self.stdout.read()
        self.wait(timeout)
        guard.cancel()
        return output, self._errors.read_text("utf-8", "replace")

    def __enter__(self) -> PreparedProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stdout.close()
        self.wait()
