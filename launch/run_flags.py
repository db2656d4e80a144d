"""Flags of the commands that make a run, and what these commands share."""

from __future__ import annotations

import contextlib
import functools
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.core import communication, files
from epg_tf.core.errors import ConfigError, Interrupted, RecordError, Stopped

if TYPE_CHECKING:  # they import TensorFlow, and flags are read before it is
    from epg_tf.runs.folder import RunTarget
    from epg_tf.runs.session import Session
    from epg_tf.runs.system import System

RUN_DIR = flags.DEFINE_string(
    "run_dir", None, "Folder for all files of the run; for MetaGenRL one that all hosts share."
)
_SEED = flags.DEFINE_integer(
    "seed",
    0,
    "Seed of all randomness; with --resume that of the run, if there is one.",
    lower_bound=0,
)
_RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "Continue the run in --run_dir, which needs no --config, or start it if there is none.",
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace the run in --run_dir; other files beside it stay."
)
_ALLOW_CHANGED_FAMILY = flags.DEFINE_bool(
    "allow_changed_family",
    False,
    "With --resume: go on although the code or the model of your own task family has changed.",
)
_RANK_TIMEOUT = flags.DEFINE_float(
    "rank_timeout",
    3600.0,
    "Under horovodrun: seconds that ranks wait for others at most; longer than a shard takes.",
    lower_bound=1.0,
)


write = functools.partial(print, flush=True)


def target() -> RunTarget:
    """Returns the folder of the run, and what happens to an earlier run there.

    Raises:
      RecordError: Flags contradict each other.
    """
    from epg_tf.runs.folder import RunTarget

    return RunTarget(
        RUN_DIR.value or "", _RESUME.value, _OVERWRITE.value, _ALLOW_CHANGED_FAMILY.value
    )


def seed() -> int:
    """Returns the seed of all randomness: as given, else that of the run to be resumed, else 0.

    Raises:
      RecordError: That run has none.
    """
    if not _RESUME.value or flags.FLAGS["seed"].present or not RUN_DIR.value:
        return _SEED.value
    config = Path(RUN_DIR.value) / "config.json"
    if not config.exists():
        return _SEED.value
    found = files.read_json(config, "the settings of a run").get("seed")
    if type(found) is not int or found < 0:
        raise RecordError(f"{config}: its seed={found!r:.50} is no whole number >= 0; restore it")
    return found


def join() -> communication.Communicator:
    """Joins the other ranks, if there are any; none waits longer than --rank_timeout.

    Raises:
      CommunicationError: As `communication.join`.
    """
    return communication.join(_RANK_TIMEOUT.value)


def require_single_process(what: str) -> communication.Communicator:
    """Joins as `join`, and refuses to be one of several ranks.

    Raises:
      UsageError: There are other ranks.
      CommunicationError: As `communication.join`.
    """
    communicator = join()
    if communicator.size > 1:
        raise command_line.UsageError(
            f"{what} runs in one process, not on {communicator.size} ranks; start it without "
            "horovodrun"
        )
    return communicator


def run_to_the_end(session: Session, system: System, elastic: bool) -> int:
    """Runs to the end or to a signal, closes the session, and prints what to do after a signal.

    Args:
      elastic: Whether it can go on after ranks were lost or joined.

    Returns:
      The exit code.
    """
    communicator = system.communicator

    def work() -> None:
        for _ in session.steps():
            pass

    received = command_line.stop_on_signals(system.stopping, communicator, session.stop)
    try:
        with contextlib.closing(session):
            if elastic:
                communicator.run(work)
            else:
                work()
    except (Interrupted, Stopped):
        if communicator.rank == 0:
            write(f"to go on, run the same command {again()}")
        return 128 + received[0]
    return 0


def again() -> str:
    """Returns how the command has to be repeated, so that the run goes on."""
    return "again" if _RESUME.value else "with --resume"


def guard(run: Callable[[], int]) -> int:
    """Returns the exit code of `run`; prints what to do after an error of the disk, which is 1.

    Where settings turn out to be unusable, a folder that was made for them is removed again, so
    that the corrected command can be the same.
    """
    from epg_tf.runs.folder import CONFIG, is_new

    new = is_new(Path(RUN_DIR.value or ""), CONFIG)
    try:
        return run()
    except (ConfigError, MemoryError):
        if new and not communication.launched_rank():
            _remove_beginning(Path(RUN_DIR.value or ""))
        raise
    except (BrokenPipeError, PermissionError, IsADirectoryError, NotADirectoryError):
        raise  # of any path, not of this run's folder alone
    except OSError as error:
        print(
            f"error: cannot write to --run_dir={RUN_DIR.value} ({error}); checkpoints written "
            f"before are intact: remove the cause and run the same command {again()}",
            file=sys.stderr,
        )
        return 1


def _remove_beginning(folder: Path) -> None:
    """Removes a run that has done nothing yet, unless another process has made it."""
    from epg_tf.runs.folder_lock import FolderLock

    lock = FolderLock(folder)
    with contextlib.suppress(OSError, RecordError):
        lock.acquire()
        if not any((folder / name).exists() for name in ("metrics.csv", "search.json")):
            shutil.rmtree(folder)
    lock.release()


def print_next(*families: str, learns: bool = True) -> None:
    """Prints where the results are, and the commands that test a loss and make the run's page.

    Args:
      families: FAMILY or FAMILY@EPISODE_LIMIT, in which it was made; the file of an own one is
        named in the command.
      learns: Whether agents do; beside others nothing learns either.
    """
    from epg_tf.artifacts.loss_files import loss_folder

    path = Path(RUN_DIR.value or "")
    flag, output = shlex.quote(f"{loss_folder(path)}"), shlex.quote(f"{path}-test")
    own = next(filter(None, map(config_flag.test_flags_for, families)), "")
    write(
        f"results are in {path}; next: {command_line.program('meta_test')} --loss={flag} "
        f"--output_dir={output}{own}{'' if learns else ' --compare=none'}"
    )
    file = next(filter(None, map(config_flag.config_flag_for, families)), "")
    write(command_line.page_line(path) + file)
