"""Saves and loads the recurrent policy of RL² or E-RL² with its experiment and its origin."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epg_tf.artifacts import loss_files
from epg_tf.artifacts.learned_loss import loss_folder, versions
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.files import PathLike
from epg_tf.core.rl2_experiment import RL2Experiment, rl2_from_mapping
from epg_tf.core.types import Array

KIND = "rl2_policy"


@dataclasses.dataclass(frozen=True, eq=False)
class RL2Policy:
    """A policy and the experiment it was meta-trained in.

    Attributes:
      vector: [D] float32, of `RecurrentAgent.policy_vector`.
      experiment: Its settings.
      facts: Where it came from: seed, iteration, env steps, validation return, versions.
      folder: Where it was read from.
    """

    vector: Array
    experiment: RL2Experiment
    facts: dict[str, Any]
    folder: Path


def save_rl2(
    folder: PathLike,
    vector: Array,
    shapes: Mapping[str, list[int]],
    experiment: RL2Experiment,
    facts: Mapping[str, Any],
) -> None:
    """Writes `loss.npz` (the policy) and `loss.json` (what it is) into `folder`.

    The names are those of learned losses, so that one name of a folder serves for all that was
    meta-learned.

    Raises:
      ValueError: The policy is not a finite float32 vector.
      OSError: A file cannot be written.
    """
    loss_files.save_loss(
        folder,
        vector,
        {
            "kind": KIND,
            "method": experiment.method,
            "parameter_shapes": dict(shapes),
            "facts": {"versions": versions(), **facts},
            "config": experiment.to_mapping(),
        },
    )


def load_rl2(folder: PathLike) -> RL2Policy:
    """Reads a policy that `save_rl2` wrote; runs no code from the files.

    Args:
      folder: Where it is, or the folder of a run, whose `best/` is taken, or `final/` where there
        is no `best/`.

    Raises:
      RecordError: There is no usable policy in `folder`; one line with reason and remedy.
    """
    folder = loss_folder(folder)
    vector, description = loss_files.load_loss(folder)
    if description.get("kind") != KIND:
        raise RecordError(
            f"{folder}: it is a {str(description.get('kind'))[:50]}, not an {KIND}; name a folder "
            "written by epg-tf meta-train, e.g. RUN_DIR/best"
        )
    try:
        experiment = rl2_from_mapping(description.get("config"))
        shapes = description["parameter_shapes"].values()
        if not all(type(size) is int and 0 < size for shape in shapes for size in shape):
            raise TypeError("parameter_shapes are not lists of sizes")
        needed = sum(math.prod(shape) for shape in shapes)
    except (ConfigError, AttributeError, KeyError, TypeError) as error:
        raise RecordError(
            f"{folder}: loss.json does not describe a usable policy ({error}); restore it from the "
            "run that wrote it"
        ) from error
    if needed != vector.size:
        raise RecordError(
            f"{folder}: it has {vector.size} parameters, its shapes need {needed}; restore both "
            "files from the run that wrote them"
        )
    facts = description.get("facts", {})
    return RL2Policy(vector, experiment, facts if isinstance(facts, dict) else {}, folder)
