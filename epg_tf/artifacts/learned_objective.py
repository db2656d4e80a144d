"""Saves and loads an objective of MetaGenRL with its experiment and its origin."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epg_tf.artifacts import loss_files
from epg_tf.artifacts.learned_loss import SHIPPED, loss_folder, shipped_losses, versions
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.files import PathLike
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment, metagenrl_from_mapping
from epg_tf.core.old_settings import renamed
from epg_tf.core.types import Array
from epg_tf.losses.lstm_objective import parameter_count, parameter_shapes

KIND = "lstm_objective"


@dataclasses.dataclass(frozen=True)
class LearnedObjective:
    """An objective and the experiment it was meta-learned in.

    Attributes:
      parameters: alpha, [D] float32.
      experiment: Its settings.
      facts: Where it came from: seed, round, env steps, versions.
      folder: Where it was read from; None if it was not.
    """

    parameters: Array
    experiment: MetaGenRLExperiment
    facts: dict[str, Any]
    folder: Path | None = None

    @property
    def name(self) -> str:
        """Name of a shipped one, else its folder; "objective" if it was not read from one."""
        if self.folder is None:
            return "objective"
        return self.folder.name if self.folder.parent == SHIPPED else str(self.folder)


def save_objective(
    folder: PathLike,
    parameters: Array,
    experiment: MetaGenRLExperiment,
    facts: Mapping[str, Any],
) -> None:
    """Writes `loss.npz` (the weights) and `loss.json` (what they are) into `folder`.

    Raises:
      ValueError: The weights are not a finite float32 vector.
      OSError: A file cannot be written.
    """
    loss_files.save_loss(
        folder,
        parameters,
        {
            "kind": KIND,
            "parameter_shapes": _shapes(experiment),
            "facts": {"versions": versions(), **facts},
            "config": experiment.to_mapping(),
        },
    )


def _shapes(experiment: MetaGenRLExperiment) -> dict[str, list[int]]:
    return {name: list(shape) for name, shape in parameter_shapes(experiment.objective).items()}


def is_objective(folder: PathLike) -> bool:
    """Returns whether a loss is an objective of MetaGenRL; arguments and errors as in
    `load_objective`.
    """
    return loss_files.load_loss(loss_folder(folder))[1].get("kind") == KIND


def holds_objective(folder: Path) -> bool:
    """Returns whether a folder, or that of a run, holds an objective; False if it is unreadable."""
    try:
        return folder.is_dir() and is_objective(folder)
    except RecordError:
        return False


def shipped_objectives() -> list[str]:
    """Returns the names of the objectives among the `shipped_losses`."""
    return [name for name in shipped_losses() if holds_objective(SHIPPED / name)]


def load_objective(folder: PathLike) -> LearnedObjective:
    """Reads an objective that `save_objective` wrote; runs no code from the files.

    Args:
      folder: Where it is; the folder of a run, see `loss_folder`; or the name of a shipped one.

    Raises:
      RecordError: There is no usable objective in `folder`; one line with reason and remedy.
    """
    folder = loss_folder(folder)
    parameters, description = loss_files.load_loss(folder)
    if description.get("kind") != KIND:
        raise RecordError(
            f"{folder}: it is a {str(description.get('kind'))[:50]}, not an {KIND}; name a folder "
            "written by epg-tf meta-train, e.g. RUN_DIR/final"
        )
    try:
        experiment = metagenrl_from_mapping(renamed(description.get("config", {})))
    except (ConfigError, AttributeError) as error:
        raise RecordError(
            f"{folder}: loss.json does not describe a usable objective ({error}); restore it from "
            "the run that wrote it"
        ) from error
    if description.get("parameter_shapes") != _shapes(experiment):
        raise RecordError(
            f"{folder}: loss.json states other parameter_shapes than its config means; restore it "
            "from the run that wrote it"
        )
    needed = parameter_count(experiment.objective)
    if needed != parameters.size:
        raise RecordError(
            f"{folder}: it has {parameters.size} parameters, its config needs {needed}; restore "
            "both files from the run that wrote them"
        )
    facts = description.get("facts", {})
    known = facts if isinstance(facts, dict) else {}
    return LearnedObjective(parameters, experiment, known, folder)
