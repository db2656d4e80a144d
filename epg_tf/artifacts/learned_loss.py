"""Keeps a learned loss with all that is needed to use it again: phi, its experiment, where it came
from.
"""

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
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import Array
from epg_tf.epg.outer_loop import loss_shapes
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
    """Returns the versions of the packages that decide results."""
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
    """Returns what an experiment makes of a loss, for JSON: family, sizes, inputs and the shapes of
    phi's parts.
    """
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
    """Returns where a loss is kept: the folder of that name, or that of a shipped loss where there
    is none.
    """
    return (
        SHIPPED / name if str(name) in shipped_losses() and not Path(name).exists() else Path(name)
    )


def load_loss(folder: PathLike) -> LearnedLoss:
    """Reads a loss that `save_loss` wrote; executes nothing that the files bring.

    Args:
      folder: Where it is, or one of `shipped_losses` where there is no such folder.

    Raises:
      RecordError: There is no usable loss in `folder`; one line that says why and what to do.
    """
    folder = loss_folder(folder)
    phi, description = loss_files.load_loss(folder)
    if description.get("kind") == "lstm_objective":
        raise RecordError(
            f"--loss={folder}: it is an objective of MetaGenRL, which this command does not read; "
            f"launch.meta_test does"
        )
    try:
        experiment = from_mapping(description.get("config", {}))
        for name, implied in interface(experiment).items():
            stated = description.get(
                name, implied if name == "discrete_actions" else None
            )  # which came later
            if stated != implied:
                raise ConfigError(
                    f"it says {name}={_short(stated)}, its config means {_short(implied)}"
                )
        needed = parameter_count(loss_shapes(experiment))
    except (ConfigError, AttributeError) as error:
        raise RecordError(
            f"--loss={folder}: loss.json does not describe a usable loss ({error}); restore it "
            "from the "
            f"run that wrote it"
        ) from error
    if needed != phi.size:
        raise RecordError(
            f"--loss={folder}: phi has {phi.size} parameters, its config needs {needed}; restore "
            "both "
            f"files from the run that wrote them"
        )
    facts = description.get("facts", {})
    return LearnedLoss(phi, experiment, facts if isinstance(facts, dict) else {})


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:100]}..."
