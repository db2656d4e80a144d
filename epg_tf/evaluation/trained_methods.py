"""Loads methods that were meta-trained before, each from the folder of its run.

Another such method needs an entry in `LOADERS` and a label in `baselines.method.LABELS`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import load
from epg_tf.baselines.maml_lives import Initialisation
from epg_tf.baselines.maml_method import STEPS, MAMLMethod
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.method import Method, loss_name
from epg_tf.baselines.rl2_lives import RL2Method
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig


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


def load_maml(name: str, folder: str, experiment: Experiment) -> TrainedMethod:
    """Returns MAML with the initialisation in a folder.

    Args:
      name: Of `maml_method.STEPS`.
      folder: Of the run, or of the initialisation itself.
      experiment: Settings of the test.

    Raises:
      RecordError: There is none.
    """
    found = load(folder, MAMLExperiment)
    size = make_family(found.experiment.task).spec.observation_size
    parts = np.split(found.phi, [found.phi.size - 2 * size, found.phi.size - size])
    return TrainedMethod(
        MAMLMethod(
            name,
            found.experiment,
            Initialisation(*parts),
            experiment.compute.threads,
            loss=loss_name(str(found.folder), found.facts),
        ),
        found.experiment.task,
        {
            **found.facts,
            "folder": str(found.folder),
            "task": dataclasses.asdict(found.experiment.task),
            "adaptation": dataclasses.asdict(found.experiment.adaptation),
        },
    )


def load_recurrent(name: str, folder: str, experiment: Experiment) -> TrainedMethod:
    """Returns RL² or E-RL² with the policy in a folder.

    Args:
      name: "rl2" or "e_rl2".
      folder: Of the run, or of the policy itself.
      experiment: Settings of the test; points of the curve are at the same env steps as the loss's.

    Raises:
      RecordError: There is none, or it is of the other method.
    """
    found = load(folder, RL2Experiment)
    if found.experiment.method != name:
        raise RecordError(
            f"{found.folder}: it is a policy of {found.experiment.method}; compare it by that name"
        )
    method = RL2Method(
        name,
        found.experiment,
        found.phi,
        experiment.inner.update_period,
        experiment.compute.threads,
        loss=loss_name(str(found.folder), found.facts),
    )
    facts = {
        **found.facts,
        "folder": str(found.folder),
        "task": dataclasses.asdict(found.experiment.task),
    }
    return TrainedMethod(method, found.experiment.task, facts)


LOADERS: dict[str, Callable[[str, Experiment], TrainedMethod]] = {
    **{name: functools.partial(load_maml, name) for name in STEPS},
    **{name: functools.partial(load_recurrent, name) for name in ("rl2", "e_rl2")},
}
"""Key of a method -> what loads it, given its folder and the settings of the test."""


def load_all(
    folders: Sequence[tuple[str, str]], experiment: Experiment
) -> tuple[TrainedMethod, ...]:
    """Returns the methods of a test that were meta-trained before.

    Args:
      folders: Pairs of a key of `LOADERS` and a folder, see `comparisons.Menu.folders`.
      experiment: Settings of the test.

    Raises:
      RecordError: A folder does not hold such a method.
      ConfigError: One was made for other observations or actions, or is named twice.
    """
    found: list[TrainedMethod] = []
    for name, folder in folders:
        trained = LOADERS[name](folder, experiment)
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
