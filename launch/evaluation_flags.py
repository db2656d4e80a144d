"""Reads the flags of commands that train fresh agents, and prepares their folders."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import command_line  # first: it silences the frameworks

from absl import flags

from epg_tf.artifacts.loss_files import loss_folder
from epg_tf.core import files
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs.folder_lock import FolderLock

if TYPE_CHECKING:  # they import TensorFlow, and flags are read before it is
    from epg_tf.artifacts.artifact import LearnedLoss
    from epg_tf.baselines.method import Request

# What commands write into folders, which is no file for --json.
_IN_FOLDERS = (
    *("config.json", "loss.json", "summary.json", "unfinished.json"),
    *("adaptation.json", "robustness.json", "policy.json", "metadata.json"),
)
_OF_FOLDERS = {"about", "kind"}  # keys of such files

flags.disclaim_key_flags()  # what `learning_flags` defines are flags of the command that calls it


def learning_flags(of: str, usual: str) -> tuple[flags.FlagHolder[Any], ...]:
    """Defines --environment, --env_steps and --episodes.

    Args:
      of: What they are for, the beginning of their help texts.
      usual: What holds where the first two are not given.
    """
    return (
        flags.DEFINE_string(
            "environment",
            None,
            f"{of}: FAMILY or FAMILY@EPISODE_LIMIT, e.g. gymnasium:Hopper-v5@250; {usual} by "
            "default.",
        ),
        flags.DEFINE_integer(
            "env_steps",
            None,
            f"{of}: env steps of learning per agent; {usual} by default.",
            lower_bound=1,
            upper_bound=10**8,
        ),
        flags.DEFINE_integer(
            "episodes",
            None,
            f"{of}: episodes per agent and evaluation; 5 by default.",
            lower_bound=1,
            upper_bound=10**4,
        ),
    )


def required_loss(flag: flags.FlagHolder[str | None], example: str) -> str:
    """Returns the value of --loss; says which loss is taken where that is the folder of a run.

    Raises:
      UsageError: It is missing or empty.
      RecordError: Nothing has this name.
    """
    return _announced(flag.name, command_line.required(flag, example))


def _announced(flag: str, loss: str) -> str:
    """Returns a value of --loss; says which loss is taken where it is the folder of a run."""
    folder = loss_folder(loss)
    if Path(loss).exists() and folder != Path(loss):
        print(f"--{flag}={loss} is the folder of a run; its {folder.name}/ is taken", flush=True)
    return loss


def losses_exist(*names: str) -> bool:
    """Validates the value of a flag: while flags are read, which is before TensorFlow is imported.

    Returns:
      True.

    Raises:
      ValidationError: Nothing has one of the names.
    """
    try:
        for name in names:
            loss_folder(name)
    except RecordError as error:
        prefix = f"{names[0]}: " if len(names) == 1 else ""
        raise flags.ValidationError(str(error).removeprefix(prefix)) from error
    return True


def required_losses(flag: flags.FlagHolder[str | None], example: str) -> list[str]:
    """Returns the values of --loss, separated by commas; errors as of `required_loss`."""
    losses = command_line.required(flag, example).split(",")
    if len(set(losses)) < len(losses) or "" in losses:
        raise command_line.UsageError(f"--{flag.name}={flag.value} names a loss twice, or none")
    return [_announced(flag.name, loss) for loss in losses]


def refuse_runs(flag: flags.FlagHolder) -> None:
    """Refuses the folder of a run or loss for results of a test: files have the same names.

    Raises:
      UsageError: The flag names such a folder.
    """
    for name in ("checkpoints", "loss.npz"):
        if (Path(flag.value) / name).exists():
            raise command_line.UsageError(
                f"--{flag.name}={flag.value}: it holds {name}, so it belongs to a run or loss; "
                "choose another folder"
            )


def check_json(flag: flags.FlagHolder) -> None:
    """Refuses, before anything is measured, a file that cannot be written.

    Raises:
      UsageError: The flag names such a file.
    """
    if flag.value is None:
        return
    path = Path(flag.value)
    check_parent(flag.name, path)
    if path.name in _IN_FOLDERS:
        raise command_line.UsageError(
            f"--{flag.name}={path} has a name that files of runs, tests and losses have; choose "
            "another one"
        )
    if os.path.lexists(path) and not _is_result(path):
        raise command_line.UsageError(
            f"--{flag.name}={path} is there, and is no result of a command; name another file"
        )


def check_parent(flag: str, path: Path) -> None:
    """Raises UsageError where no file can be written beside the one that a flag names."""
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise command_line.UsageError(
            f"--{flag}={path}: {path.parent} is not a folder that can be written to; create it"
        )


def _is_result(path: Path) -> bool:
    """Returns whether a command of this package wrote a file: all state a format version."""
    try:
        found = files.read_json(path, "the file")
    except RecordError:
        return False
    return "format_version" in found and not _OF_FOLDERS & found.keys()


def lock_results(flag: flags.FlagHolder[str | None]) -> None:
    """Keeps other tests from writing to a folder, if it is there, until the process ends.

    Raises:
      RecordError: Another process writes to it.
    """
    folder = Path(str(flag.value))
    if folder.is_dir():
        _lock_of(folder).acquire()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from writing to a folder, which is made where it is missing, and
    removed again where it stays empty.

    Raises:
      RecordError: Another process writes to it.
    """
    lock, made = FolderLock(folder), not folder.exists()
    with contextlib.suppress(OSError):  # what prepares the folder says what is wrong with it
        folder.mkdir(parents=True, exist_ok=True)
    try:
        if folder.is_dir():
            lock.acquire()
        yield
    finally:
        lock.release()
        with contextlib.suppress(OSError):
            if made:
                folder.rmdir()


@functools.cache
def _lock_of(folder: Path) -> FolderLock:
    return FolderLock(folder)


def prepare_results(
    flag: flags.FlagHolder[str | None],
    overwrite: bool,
    own: tuple[str, ...],
    resume: bool | None = None,
) -> None:
    """Prepares the folder of a test's results, which must not be that of a run or a loss.

    Args:
      resume: Whether they are kept; None: the command cannot go on with them.

    Raises:
      UsageError: The folder belongs to a run or a loss.
      RecordError: It cannot be used, or is in use, also by another process.
    """
    refuse_runs(flag)
    if flag.value:
        with contextlib.suppress(OSError):  # prepare_folder says what is wrong with the name
            Path(flag.value).mkdir(parents=True, exist_ok=True)
    lock_results(flag)  # before anything in it is removed
    files.prepare_folder(str(flag.value), own, overwrite=overwrite, resume=resume)


def request_of(
    experiment: MetaGenRLExperiment,
    learning: Sequence[flags.FlagHolder[Any]],
    seed: int,
    agents: int,
) -> Request:
    """Returns `objective_request` of the values of `learning_flags`.

    Raises:
      UsageError: As there; the message names the flag.
    """
    from epg_tf.evaluation.requests import objective_request

    environment, env_steps, episodes = (flag.value for flag in learning)
    try:
        return objective_request(experiment, environment, seed, agents, env_steps, episodes or 5)
    except ConfigError as error:
        if str(error).startswith("env_steps="):
            raise command_line.UsageError(f"--{error}") from error
        field = (
            "--environment"
            if environment
            else "config.environments of the objective, which --environment replaces"
        )
        raise command_line.UsageError(f"{field}: {error}") from error


def facts_of_lives(
    loss: str, learned: LearnedLoss, request: Request, fixed: Sequence[LearnedLoss]
) -> dict[str, Any]:
    """Returns what a measurement of a loss of EPG was made with, for JSON."""
    from epg_tf.evaluation import fixed_policies

    return {
        "loss": loss,
        "loss_facts": learned.facts,
        "task": dataclasses.asdict(request.task),
        "seed": request.seed,
        "phase": request.phase,
        "updates": request.env_steps // learned.experiment.inner.update_period,
        "env_steps": request.env_steps,
        "policy": dataclasses.asdict(learned.experiment.policy),
        "zero_shot_facts": {
            method.name: method.learned.facts for method in fixed_policies.methods(fixed)
        },
    }
