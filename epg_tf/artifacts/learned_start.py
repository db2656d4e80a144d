"""Saves and loads an initialisation of MAML with its experiment and its origin.

The files are those of learned losses: one vector, here of the policy's weights and then the shift
and the scale of observations, and its description.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.agents.policies import policy_shapes
from epg_tf.artifacts import loss_files
from epg_tf.artifacts.learned_loss import loss_folder, versions
from epg_tf.baselines.maml_lives import Initialisation
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.files import PathLike
from epg_tf.core.maml_experiment import MAMLExperiment, maml_from_mapping
from epg_tf.core.old_settings import renamed
from epg_tf.core.parameters import parameter_count
from epg_tf.tasks.registry import make_family

KIND = "maml_initialisation"


@dataclasses.dataclass(frozen=True)
class LearnedStart:
    """An initialisation and the experiment it was meta-trained in.

    Attributes:
      start: The initialisation.
      experiment: Its settings.
      facts: Where it came from: seed, iteration, env steps, validation return, versions.
      folder: Where it was read from.
    """

    start: Initialisation
    experiment: MAMLExperiment
    facts: dict[str, Any]
    folder: Path


def save_start(
    folder: PathLike, start: Initialisation, experiment: MAMLExperiment, facts: Mapping[str, Any]
) -> None:
    """Writes `loss.npz` (the vector) and `loss.json` (what it is) into `folder`.

    Raises:
      ValueError: The numbers are not finite float32.
      OSError: A file cannot be written.
    """
    loss_files.save_loss(
        folder,
        np.concatenate(start),
        {
            "kind": KIND,
            "parameter_shapes": _shapes(experiment),
            "facts": {"versions": versions(), **facts},
            "config": experiment.to_mapping(),
        },
    )


def _shapes(experiment: MAMLExperiment) -> dict[str, list[int]]:
    spec = make_family(experiment.task).spec
    shapes = {name: list(shape) for name, shape in policy_shapes(spec, experiment.policy).items()}
    observed = [spec.observation_size]
    return {**shapes, "observation/shift": observed, "observation/scale": observed}


def load_start(folder: PathLike) -> LearnedStart:
    """Reads an initialisation that `save_start` wrote; runs no code from the files.

    Args:
      folder: Where it is, or the folder of a run, whose `best/` is taken.

    Raises:
      RecordError: There is none that is usable; one line with reason and remedy.
    """
    folder = loss_folder(folder)
    vector, description = loss_files.load_loss(folder)
    if description.get("kind") != KIND:
        raise RecordError(
            f"{folder}: it is a {str(description.get('kind'))[:50]}, not a {KIND}; name the folder "
            "of a run of epg-tf meta-train"
        )
    try:
        experiment = maml_from_mapping(renamed(description.get("config", {})))
        shapes = _shapes(experiment)
    except ConfigError as error:
        raise RecordError(
            f"{folder}: loss.json does not describe a usable initialisation ({error}); restore it "
            "from the run that wrote it"
        ) from error
    needed = parameter_count({name: tuple(shape) for name, shape in shapes.items()})
    if description.get("parameter_shapes") != shapes or needed != vector.size:
        raise RecordError(
            f"{folder}: loss.json and loss.npz do not fit the config in loss.json; restore both "
            "files from the run that wrote them"
        )
    size = make_family(experiment.task).spec.observation_size
    parts = np.split(vector, [vector.size - 2 * size, vector.size - size])
    facts = description.get("facts", {})
    return LearnedStart(
        Initialisation(*parts), experiment, facts if isinstance(facts, dict) else {}, folder
    )
