"""Saves and loads a learned loss with its experiment and its origin."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epg_tf.artifacts import loss_files
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.experiment import Experiment, from_mapping
from epg_tf.core.files import PathLike
from epg_tf.core.old_settings import renamed, renamed_channels
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import Array
from epg_tf.epg.meta_parameters import loss_shapes
from epg_tf.losses.channels import declared_channels
from epg_tf.tasks.registry import make_family

SHIPPED = Path(__file__).parents[1] / "pretrained"

_PACKAGES = ("tensorflow", "tensorflow-probability", "tf-agents", "mujoco", "gymnasium", "numpy")


@dataclasses.dataclass(frozen=True)
class LearnedLoss:
    """A loss and the experiment it was evolved in.

    Attributes:
      phi: [D] float32.
      experiment: Its settings.
      facts: Where it came from: seed, epoch, env steps, validation return, versions.
    """

    phi: Array
    experiment: Experiment
    facts: dict[str, Any]


def versions() -> dict[str, str]:
    """Returns the versions of the packages that results depend on."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def save_loss(
    folder: PathLike, phi: Array, experiment: Experiment, facts: Mapping[str, Any]
) -> None:
    """Writes `loss.npz` (phi) and `loss.json` (what it is) into `folder`.

    Raises:
      ValueError: phi is not a finite float32 vector.
      OSError: A file cannot be written.
    """
    loss_files.save_loss(
        folder,
        phi,
        {
            **interface(experiment),
            "facts": {"versions": versions(), **facts},
            "config": experiment.to_mapping(),
        },
    )


def interface(experiment: Experiment) -> dict[str, Any]:
    """Returns what an experiment implies for its loss, for JSON: family, sizes, inputs, shapes."""
    family = make_family(experiment.task)
    channels = declared_channels(family.spec, experiment.loss)
    return {
        "kind": "temporal_conv_loss",
        "family": family.name,
        "observation_size": family.observation_size,
        "action_size": family.action_size,
        "discrete_actions": family.discrete_actions,
        "channels": [dataclasses.asdict(channel) for channel in channels],
        "parameter_shapes": {name: list(shape) for name, shape in loss_shapes(experiment).items()},
    }


def shipped_losses() -> list[str]:
    """Returns the names of the losses that come with the package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/loss.json"))


def loss_folder(name: PathLike) -> Path:
    """Returns the folder of a loss: the one of that name, else that of the shipped loss."""
    return (
        SHIPPED / name if str(name) in shipped_losses() and not Path(name).exists() else Path(name)
    )


def load_loss(folder: PathLike) -> LearnedLoss:
    """Reads a loss that `save_loss` wrote; runs no code from the files.

    Args:
      folder: Where it is, or one of `shipped_losses` where there is no such folder.

    Raises:
      RecordError: There is no usable loss in `folder`; one line with reason and remedy.
    """
    folder = loss_folder(folder)
    phi, description = loss_files.load_loss(folder)
    if description.get("kind") == "lstm_objective":
        raise RecordError(
            f"{folder}: it is an objective of MetaGenRL, not a loss of EPG; epg-tf meta-test reads "
            "both"
        )
    try:
        experiment = from_mapping(renamed(description.get("config", {})))
        description["channels"] = renamed_channels(description.get("channels"))
        for name, implied in interface(experiment).items():
            stated = description.get(
                name, implied if name == "discrete_actions" else None
            )  # which came later
            if stated != implied:
                raise ConfigError(
                    f"it states {name}={_short(stated)}, its config means {_short(implied)}"
                )
        needed = parameter_count(loss_shapes(experiment))
    except (ConfigError, AttributeError) as error:
        raise RecordError(
            f"{folder}: loss.json does not describe a usable loss ({error}); restore it from the "
            "run that wrote it"
        ) from error
    if needed != phi.size:
        raise RecordError(
            f"{folder}: phi has {phi.size} parameters, its config needs {needed}; restore both "
            "files from the run that wrote them"
        )
    facts = description.get("facts", {})
    return LearnedLoss(phi, experiment, facts if isinstance(facts, dict) else {})


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:100]}..."
