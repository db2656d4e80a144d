"""Flags of the commands that make a run, and what these commands do alike around it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from launch import command_line  # first: it quietens the frameworks

from absl import flags  # isort: skip

from epg_tf.core import communication
from epg_tf.artifacts.learned_loss import versions

_RUN_DIR = flags.DEFINE_string(
    "run_dir", None, "Folder for all that the run leaves; for MetaGenRL one that all hosts share."
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)
_RESUME = flags.DEFINE_bool(
    "resume", False, "Go on with the run in --run_dir, or start it if there is none."
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace the run in --run_dir; other files beside it stay."
)
_RANK_TIMEOUT = flags.DEFINE_float(
    "rank_timeout",
    3600.0,
    "Under horovodrun: seconds that a rank may keep the others waiting; longer than a shard takes.",
    lower_bound=1.0,
)


@dataclasses.dataclass(frozen=True)
class RunFlags:
    """What the flags say.

    Attributes:
      run_dir: The run's folder.
      seed: Of all randomness.
      resume: Whether to go on with what is there.
      overwrite: Whether to replace it.
    """

    run_dir: str
    seed: int
    resume: bool
    overwrite: bool

    def identity(self, settings: Mapping[str, Any]) -> bytes:
        """Returns the SHA-256 of what must be the same on every rank, given the settings that
        decide the numbers.
        """
        return hashlib.sha256(
            json.dumps([settings, self.seed, versions()], sort_keys=True).encode()
        ).digest()

    def guard(self, run: Callable[[], int]) -> int:
        """Runs; where the folder cannot be written to, says what to do.

        Args:
          run: Does the work and returns the exit code.

        Returns:
          The exit code: that of `run`, or 1.
        """
        try:
            return run()
        except BrokenPipeError:
            raise
        except OSError as error:
            print(
                f"error: cannot write to --run_dir={self.run_dir} ({error}); checkpoints written "
                "before are intact: "
                f"mend the cause and run the same command with --resume",
                file=sys.stderr,
            )
            return 1


def read(example: str) -> RunFlags:
    """Reads the flags.

    Args:
      example: A folder to propose where none is named.

    Returns:
      What they say.

    Raises:
      UsageError: No folder is named, or flags contradict each other.
    """
    if _RUN_DIR.value is None:
        raise command_line.UsageError(
            f"--run_dir is missing; name a folder, e.g. --run_dir={example}"
        )
    if _RESUME.value and _OVERWRITE.value:
        raise command_line.UsageError(
            "--resume and --overwrite contradict each other; pass one of them"
        )
    return RunFlags(_RUN_DIR.value, _SEED.value, _RESUME.value, _OVERWRITE.value)


def join() -> communication.Communicator:
    """Joins the other ranks, if there are any; none waits longer than --rank_timeout. Errors as of
    that module.
    """
    return communication.join(_RANK_TIMEOUT.value)
