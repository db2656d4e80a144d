"""Saves and loads a learned loss with its experiment and its origin."""

from __future__ import annotations

import dataclasses
import difflib
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
from epg_tf.epg.meta_parameters import loss_channels, moves_loss, vector_shapes
from epg_tf.tasks.registry import is_family, make_family

SHIPPED = Path(__file__).parents[1] / "pretrained"

_KINDS = {
    "loss": "temporal_conv_loss",
    "initialisation": "initial_policy",
    "both": "temporal_conv_loss_and_initial_policy",
}  # by what evolution moves
_PACKAGES = ("tensorflow", "tensorflow-probability", "tf-agents", "mujoco", "gymnasium", "numpy")


@dataclasses.dataclass(frozen=True)
class LearnedLoss:
    """A loss and the experiment it was evolved in.

    Attributes:
      phi: [D] float32, all that evolution moved: the loss, an initial policy, or both, see
        `epg.meta_parameters`.
      experiment: Its settings.
      facts: Where it came from: seed, epoch, env steps, validation return, versions.
      folder: Where it was read from; None if it was not.
    """

    phi: Array
    experiment: Experiment
    facts: dict[str, Any]
    folder: Path | None = None

    @property
    def name(self) -> str:
        """Name of a shipped loss, else the folder; "phi" if it was not read from one."""
        if self.folder is None:
            return "phi"
        return self.folder.name if self.folder.parent == SHIPPED else str(self.folder)


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
    channels = loss_channels(experiment) if moves_loss(experiment) else ()
    return {
        "kind": _KINDS[experiment.evolution.moves],
        "family": ", ".join(make_family(task).name for task in experiment.tasks),
        "observation_size": family.observation_size,
        "action_size": family.action_size,
        "discrete_actions": family.discrete_actions,
        "channels": [dataclasses.asdict(channel) for channel in channels],
        "parameter_shapes": {
            name: list(shape) for name, shape in vector_shapes(experiment).items()
        },
    }


def shipped_losses() -> list[str]:
    """Returns the names of the losses and objectives that come with the package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/loss.json"))


def loss_folder(name: PathLike) -> Path:
    """Returns the folder that the loss or objective of this name is read from.

    Args:
      name: A folder that holds one; the folder of a run, whose `best/` is taken, or `final/` where
        there is no `best/`; or, where there is no such folder, the name of a shipped loss.

    Returns:
      That folder; `name` itself if it is something else that exists.

    Raises:
      RecordError: Nothing has this name, or the folder cannot be read.
    """
    folder = Path(name)
    try:
        if not folder.exists():
            return SHIPPED / _shipped(str(name))
        candidates = (folder, folder / "best", folder / "final")
        return next(filter(loss_files.holds_loss, candidates), folder)
    except OSError as error:
        raise RecordError(f"{name}: {error.strerror}; name the folder of a run") from error


def _shipped(name: str) -> str:
    """Returns `name` if it is that of a shipped loss.

    Raises:
      RecordError: It is not.
    """
    known = shipped_losses()
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=1)
    question = f"did you mean {near[0]!r}?" if near else "name one of them, or a run's folder"
    raise RecordError(
        f"{name}: there is no such folder, and no shipped loss of that name ({', '.join(known)}); "
        f"{question}"
    )


def load_loss(folder: PathLike) -> LearnedLoss:
    """Reads a loss that `save_loss` wrote; runs no code from the files.

    Args:
      folder: Where it is, the folder of a run, or one of `shipped_losses`: see `loss_folder`.

    Raises:
      RecordError: There is no usable loss in `folder`, or its family is a user's own and not
        registered; one line with reason and remedy.
    """
    folder = loss_folder(folder)
    phi, description = loss_files.load_loss(folder)
    if description.get("kind") == "lstm_objective":
        raise RecordError(
            f"{folder}: it is an objective of MetaGenRL, not a loss of EPG; epg-tf meta-test reads "
            "both"
        )
    rivals = {"maml_initialisation": "an initialisation of MAML", "rl2_policy": "a policy of RL²"}
    if rival := rivals.get(str(description.get("kind"))):
        raise RecordError(
            f"{folder}: it is {rival}, not a loss of EPG; epg-tf meta-test "
            "compares losses with it, as maml:FOLDER or rl2:FOLDER"
        )
    try:
        experiment = from_mapping(renamed(description.get("config", {})))
        unknown = [task.family for task in experiment.tasks if not is_family(task.family)]
        if unknown:
            raise RecordError(
                f"{folder}: it was evolved in the family {_short(unknown[0])}, which "
                "is not registered; first load the file that registers it, e.g. the config of its "
                "run"
            )
        description["channels"] = renamed_channels(description.get("channels"))
        for name, implied in interface(experiment).items():
            stated = description.get(
                name, implied if name == "discrete_actions" else None
            )  # which came later
            if stated != implied:
                raise ConfigError(
                    f"it states {name}={_short(stated)}, its config means {_short(implied)}"
                )
        needed = parameter_count(vector_shapes(experiment))
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
    return LearnedLoss(phi, experiment, facts if isinstance(facts, dict) else {}, folder)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:100]}..."
