"""Loads methods that were meta-trained before, each from the folder of its run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import Artifact, load
from epg_tf.baselines.maml_lives import Initialisation
from epg_tf.baselines.maml_method import MAMLMethod
from epg_tf.baselines.maml_settings import TEST_STEPS, MAMLExperiment
from epg_tf.baselines.method import Method, loss_name
from epg_tf.baselines.rl2_lives import RL2Method
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

NAMES = (*TEST_STEPS, "rl2", "e_rl2")
"""Keys of the methods."""


@dataclasses.dataclass(frozen=True)
class TrainedMethod:
    """A method that was meta-trained before.

    Attributes:
      method: Trains fresh agents with what was learned.
      task: What it was meta-trained in.
      facts: Of its meta-training: folder, seed, env steps and others, for JSON.
    """

    method: Method
    task: TaskConfig
    facts: dict[str, Any]


def load_trained(name: str, folder: str, experiment: Experiment) -> TrainedMethod:
    """Returns MAML, RL² or E-RL² with what is in a folder.

    Args:
      name: Of `NAMES`.
      folder: Of the run, or of what it learned.
      experiment: Settings of the evaluation; points of RL²'s curve are at the loss's env steps.

    Raises:
      RecordError: There is none, or it is of another method.
    """
    artifact: Artifact[Any] = load(folder, MAMLExperiment if name in TEST_STEPS else RL2Experiment)
    settings, phi, threads = artifact.experiment, artifact.phi, experiment.compute.threads
    facts = {
        **artifact.facts,
        "folder": str(artifact.folder),
        "task": dataclasses.asdict(settings.task),
    }
    loss = loss_name(str(artifact.folder), artifact.facts)
    if name in TEST_STEPS:
        size = make_family(settings.task).spec.observation_size
        start = Initialisation(*np.split(phi, [phi.size - 2 * size, phi.size - size]))
        facts["adaptation"] = dataclasses.asdict(settings.adaptation)
        method = MAMLMethod(name, settings, start, threads, loss=loss)
        return TrainedMethod(method, settings.task, facts)
    if settings.method != name:
        raise RecordError(
            f"{artifact.folder}: it is a policy of {settings.method}; compare it by that name"
        )
    period = experiment.inner.update_period
    return TrainedMethod(
        RL2Method(name, settings, phi, period, threads, loss=loss), settings.task, facts
    )


def load_all(
    folders: Sequence[tuple[str, str]], experiment: Experiment
) -> tuple[TrainedMethod, ...]:
    """Returns the methods of an evaluation that were meta-trained before.

    Args:
      folders: Pairs of a name of `NAMES` and a folder, see `methods.Registry.folders`.
      experiment: Settings of the evaluation.

    Raises:
      RecordError: A folder does not hold such a method.
      ConfigError: One was made for other observations or actions, or is named twice.
    """
    found: list[TrainedMethod] = []
    for name, folder in folders:
        trained = load_trained(name, folder, experiment)
        here, there = make_family(experiment.task), make_family(trained.task)
        if here.spec != there.spec:
            raise ConfigError(
                f"compare={f'{name}:{folder}'!r} was meta-trained in {there.name}, whose "
                f"observations or actions are not those of {here.name}; meta-train it there"
            )
        run = (name, Path(trained.facts["folder"]).resolve())
        if run in {(each.method.name, Path(each.facts["folder"]).resolve()) for each in found}:
            raise ConfigError(f"compare={f'{name}:{folder}'!r} is there twice; name each run once")
        found.append(trained)
    return tuple(found)
