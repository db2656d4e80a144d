"""Saves and loads whatever was learned: one vector, the experiment it is from, and its origin.

The kind in loss.json says what was learned: a loss or an initial policy of EPG, an objective of
MetaGenRL, an initialisation of MAML, or a policy of RL².
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from epg_tf.agents.policies import policy_shapes
from epg_tf.artifacts import loss_files
from epg_tf.artifacts.loss_files import PRETRAINED, loss_folder, pretrained_losses
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.files import PathLike
from epg_tf.core.old_settings import renamed, renamed_channels
from epg_tf.core.settings import Settings
from epg_tf.core.types import Array
from epg_tf.epg.meta_parameters import evolves_loss, loss_channels, vector_shapes
from epg_tf.epg.settings import Experiment
from epg_tf.losses.lstm_objective import parameter_shapes
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.registry import is_registered, make_family

OBJECTIVE = "lstm_objective"  # kind of what MetaGenRL learns
_EPG_KINDS = {
    "loss": "temporal_conv_loss",
    "initialisation": "initial_policy",
    "both": "temporal_conv_loss_and_initial_policy",
}  # by what evolution moves
# Facts that others compute with -> their form; all others are only shown.
_FACTS: dict[str, Any] = {
    **dict.fromkeys(("seed", "env_steps"), int),
    **dict.fromkeys(("versions", "begun_with"), dict),
    "validation_return_mean": int | float,
    "commit": str,
}
_FORMS = {int: "whole number", dict: "object", int | float: "number", str: "text"}
_PACKAGES = ("tensorflow", "tensorflow-probability", "tf-agents", "mujoco", "gymnasium", "numpy")

E = TypeVar("E", bound=Settings)


@dataclasses.dataclass(frozen=True, eq=False)
class Artifact(Generic[E]):
    """What was learned, and the experiment it was learned in.

    Attributes:
      phi: [D] float32, all that was learned: EPG's loss, initial policy, or both, see
        `epg.meta_parameters`; MetaGenRL's alpha; MAML's `Initialisation`, its parts one after
        another; the vector of RL²'s `RecurrentAgent.policy_vector`.
      experiment: Its settings.
      facts: Where it came from: seed, epoch, env steps, validation return, versions.
      folder: Where it was read from; None if it was not.
    """

    phi: Array
    experiment: E
    facts: dict[str, Any]
    folder: Path | None = None

    @property
    def name(self) -> str:
        """Name of a pretrained one, else the folder; "phi" if it was not read from one."""
        if self.folder is None:
            return "phi"
        pretrained = self.folder.is_relative_to(PRETRAINED)
        return str(self.folder.relative_to(PRETRAINED) if pretrained else self.folder)


LearnedLoss = Artifact[Experiment]
LearnedObjective = Artifact[MetaGenRLExperiment]


def versions() -> dict[str, str]:
    """Returns the versions of the packages that results depend on."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def save(
    folder: PathLike,
    phi: Array,
    experiment: Any,
    facts: Mapping[str, Any],
    shapes: Mapping[str, list[int]] | None = None,
) -> None:
    """Writes `loss.npz` (phi) and `loss.json` (what it is) into `folder`.

    Args:
      folder: Created if missing; what is there is replaced.
      phi: [D] float32, see `Artifact`.
      experiment: Settings of the system that learned it.
      facts: Where it came from.
      shapes: Name -> shape of the parts of phi, where the experiment does not imply them (RL²).

    Raises:
      ValueError: phi is not a finite float32 vector.
      OSError: A file cannot be written.
    """
    described = interface(experiment) | ({} if shapes is None else {"parameter_shapes": shapes})
    facts = {"versions": versions(), **facts}
    loss_files.save_loss(
        folder, phi, {**described, "facts": facts, "config": experiment.to_mapping()}
    )


save_loss = save_objective = save


def interface(experiment: Any) -> dict[str, Any]:
    """Returns what an experiment implies for what it learns, for JSON: its kind, the shapes of its
    parts; for EPG, family, sizes and inputs as well.
    """
    return _SYSTEMS[type(experiment)].interface(experiment)


def _of_epg(experiment: Experiment) -> dict[str, Any]:
    family = make_family(experiment.task)
    channels = loss_channels(experiment) if evolves_loss(experiment) else ()
    return {
        "kind": _EPG_KINDS[experiment.evolution.moves],
        "family": ", ".join(make_family(task).name for task in experiment.tasks),
        "observation_size": family.observation_size,
        "action_size": family.action_size,
        "discrete_actions": list(family.action_parts) or family.discrete_actions,
        "channels": [dataclasses.asdict(channel) for channel in channels],
        "parameter_shapes": _lists(vector_shapes(experiment)),
    }


def _of_metagenrl(experiment: MetaGenRLExperiment) -> dict[str, Any]:
    return {"kind": OBJECTIVE, "parameter_shapes": _lists(parameter_shapes(experiment.objective))}


def _of_maml(experiment: MAMLExperiment) -> dict[str, Any]:
    spec = make_family(experiment.task).spec
    observed = {f"observation/{name}": [spec.observation_size] for name in ("shift", "scale")}
    shapes = _lists(policy_shapes(spec, experiment.policy)) | observed
    return {"kind": "maml_initialisation", "parameter_shapes": shapes}


def _of_rl2(experiment: RL2Experiment) -> dict[str, Any]:
    return {"kind": "rl2_policy", "method": experiment.method}


def _lists(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {name: list(shape) for name, shape in shapes.items()}


class _System(NamedTuple):
    """What it learns and what that is for, in words; its `interface`."""

    what: str
    use: str
    interface: Callable[[Any], dict[str, Any]]


_READ, _COMPARED = "reads it", "compares with it, as {}:FOLDER"  # epg-tf meta-test
_SYSTEMS: dict[type[Settings], _System] = {
    Experiment: _System("a loss of EPG", _READ, _of_epg),
    MetaGenRLExperiment: _System("an objective of MetaGenRL", _READ, _of_metagenrl),
    MAMLExperiment: _System("an initialisation of MAML", _COMPARED.format("maml"), _of_maml),
    RL2Experiment: _System("a policy of RL²", _COMPARED.format("rl2"), _of_rl2),
}
_KINDS: dict[str, type[Settings]] = {
    **dict.fromkeys(_EPG_KINDS.values(), Experiment),
    OBJECTIVE: MetaGenRLExperiment,
    "maml_initialisation": MAMLExperiment,
    "rl2_policy": RL2Experiment,
}


def load(folder: PathLike, wanted: type[E] | None = None) -> Artifact[E]:
    """Reads what `save` wrote; runs no code from the files.

    Args:
      folder: Where it is, the folder of a run, or the name of a pretrained one: see `loss_folder`.
        Of its settings the number of threads is left out: that was of another machine.
      wanted: Type of its experiment; None: whatever the kind in loss.json says.

    Raises:
      RecordError: There is nothing usable in `folder`, or something else than what is wanted, or
        its family or environment is not registered; one line with reason and remedy.
    """
    folder = loss_folder(folder)
    phi, description = loss_files.load_loss(folder)
    found = _KINDS.get(str(description.get("kind")))
    kind = wanted or found or Experiment
    system = _SYSTEMS[kind]
    if wanted and found and wanted is not found:
        raise RecordError(
            f"{folder}: it is {_SYSTEMS[found].what}, not {system.what} (epg-tf meta-test "
            f"{_SYSTEMS[found].use}); name the folder of a run of epg-tf meta-train"
        )
    try:
        experiment = _on_any_machine(kind.from_mapping(renamed(description.get("config", {}))))
        for family in [task.family for task in getattr(experiment, "tasks", ())]:
            if not is_registered(family):
                raise RecordError(
                    f"{folder}: it was evolved in the family {_short(family)}, which is not "
                    "registered; first load the file that registers it, e.g. the config of its run"
                )
        _check_description(description, system.interface(experiment))
        needed = _size(description["parameter_shapes"])
    except (ConfigError, AttributeError, KeyError, TypeError) as error:
        raise RecordError(
            f"{folder}: loss.json does not describe {system.what} ({error}); restore it from the "
            "run that wrote it"
        ) from error
    if needed != phi.size:
        raise RecordError(
            f"{folder}: phi has {phi.size} parameters, its shapes need {needed}; restore both "
            "files from the run that wrote them"
        )
    return Artifact(phi, experiment, _checked_facts(folder, description.get("facts", {})), folder)


def _on_any_machine(experiment: Any) -> Any:
    """Returns settings without a number of threads."""
    if isinstance(experiment, Experiment):
        compute = dataclasses.replace(experiment.compute, threads=0)
        return dataclasses.replace(experiment, compute=compute)
    none = {"threads": 0} if hasattr(experiment, "threads") else {}
    return dataclasses.replace(experiment, **none)


def _checked_facts(folder: Path, facts: Any) -> dict[str, Any]:
    """Returns the facts of a description; raises RecordError where one has another form."""
    if not isinstance(facts, dict):
        raise RecordError(f"{folder}: loss.json has facts={_short(facts)}, no object; restore it")
    for name, kind in _FACTS.items():
        value = facts.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise RecordError(
                f"{folder}: the facts in loss.json have {name}={_short(value)}, which is no "
                f"{_FORMS[kind]}; restore the file from the run that wrote it"
            )
        if isinstance(value, int) and not 0 <= value < 2**63:
            raise RecordError(
                f"{folder}: the facts in loss.json have {name}={_short(value)}, which is no "
                "count; restore the file from the run that wrote it"
            )
    return facts


def load_loss(folder: PathLike) -> LearnedLoss:
    """Reads a loss or an initial policy of EPG; arguments and errors as in `load`."""
    return load(folder, Experiment)


def load_objective(folder: PathLike) -> LearnedObjective:
    """Reads an objective of MetaGenRL; arguments and errors as in `load`."""
    return load(folder, MetaGenRLExperiment)


def _check_description(description: dict[str, Any], implied: Mapping[str, Any]) -> None:
    """Raises ConfigError if a description is not what its config implies."""
    if "channels" in implied:
        description["channels"] = renamed_channels(description.get("channels"))
    for name, value in implied.items():
        if (stated := description.get(name)) != value:
            raise ConfigError(
                f"it states {name}={_short(stated)}, its config means {_short(value)}"
            )


def _size(shapes: Mapping[str, list[int]]) -> int:
    """Returns how many numbers parts have; raises TypeError if a file's shapes are no shapes."""
    if not all(type(size) is int and size > 0 for shape in shapes.values() for size in shape):
        raise TypeError("parameter_shapes are not lists of sizes")
    return sum(math.prod(shape) for shape in shapes.values())


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:100]}..."


def is_objective(folder: PathLike) -> bool:
    """Returns whether a folder has an objective of MetaGenRL; arguments and errors as in `load`."""
    return loss_files.load_loss(loss_folder(folder))[1].get("kind") == OBJECTIVE


def pretrained_objectives() -> list[str]:
    """Returns the names of the objectives among the `pretrained_losses`."""
    return [name for name in pretrained_losses() if is_objective(PRETRAINED / name)]
