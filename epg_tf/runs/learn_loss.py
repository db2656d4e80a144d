"""Evolves a loss for an environment with one call."""

from __future__ import annotations

from epg_tf.artifacts.artifact import LearnedLoss, load_loss
from epg_tf.core import files
from epg_tf.epg.settings import Experiment
from epg_tf.runs.automatic import AutomaticEvolution, Budget
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.progress import Write
from epg_tf.tasks.registry import named_environment
from epg_tf.tasks.settings import TaskConfig


def learn_loss(
    environment: str,
    run_dir: files.PathLike,
    minutes: float = 30.0,
    seed: int = 0,
    *,
    resume: bool = False,
    write: Write | None = print,
) -> LearnedLoss:
    """Evolves a loss for an environment, with settings that choose themselves.

    Args:
      environment: FAMILY or FAMILY@EPISODE_LIMIT, one of yours or "gymnasium:ID".
      run_dir: Folder for everything that is found.
      minutes: For everything but the last tests.
      seed: Of all randomness, >= 0.
      resume: Go on with what is in the folder, or start.
      write: Called with lines about progress; None is silent.

    Returns:
      The loss with the best validation, as `load_loss(run_dir)` reads it.

    Raises:
      ConfigError: There is no such environment.
      RecordError: The folder cannot be used in this way; nothing has been deleted.
      OSError, RunFailed: As of `evolve_in_folder`.
    """
    family = named_environment(environment)
    task = TaskConfig(family.name, family.frame_skip, family.episode_limit)
    budget = Budget(Experiment(task=task), (), seed, minutes)
    AutomaticEvolution(budget, RunTarget(run_dir, resume=resume), write).run()
    return load_loss(run_dir)
