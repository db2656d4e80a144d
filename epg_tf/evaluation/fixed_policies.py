"""Fixed policies as baselines of a learned loss: evolved on the training tasks by the same
estimator, and put into unseen ones without any learning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from epg_tf.artifacts.artifact import LearnedLoss, load_loss
from epg_tf.artifacts.loss_files import PRETRAINED, holds_loss
from epg_tf.baselines.inner_loop_method import InnerLoops
from epg_tf.baselines.method import LearningCurves, Method, Request, learned_name
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.files import PathLike
from epg_tf.epg.inner_loop import final_inner_settings
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

NAMES = ("zero_shot_linear", "zero_shot_policy")
"""Keys of the methods, and the folders that hold such policies beside a loss."""


@dataclasses.dataclass(frozen=True)
class FixedPolicy(Method):
    """Puts one policy into every task; it never learns.

    Without updates it sees observations as they are. With some, at a learning rate of 0, it first
    acts for as many steps, from which observations are normalised as those of learning agents are.
    It acts with its noise, as learning agents do, so its episodes are listed with theirs; its curve
    is flat.

    Attributes:
      name: Key of the method in files: with or without hidden layers.
      learned: The policy, from `load_fixed_policy`.
    """

    learned: LearnedLoss

    def train(self, request: Request) -> LearningCurves:
        """Plays the final episodes of the L agents, in the same tasks and from the same starts.

        Raises:
          ConfigError: Observations or actions of the request's task have other sizes.
        """
        check_body(self.learned, request.task)
        experiment, phi = self.learned.experiment, self.learned.phi
        unlearning = dataclasses.replace(request, env_steps=experiment.life_steps)
        with InnerLoops(experiment) as loops:
            found = loops.run(unlearning, lambda agent: phi, final_inner_settings(experiment))
        ends = np.unique([0, request.env_steps])
        flat = np.repeat(found.final_return[:, None], len(ends), axis=1)
        return dataclasses.replace(
            found, env_steps=ends, returns=flat, kl=np.full(flat.shape, np.nan)
        )


def fits(policy: LearnedLoss, task: TaskConfig) -> bool:
    """Returns whether observations and actions of a task have the sizes of the policy's."""
    return make_family(policy.experiment.task).spec == make_family(task).spec


def check_body(policy: LearnedLoss, task: TaskConfig) -> None:
    """Raises ConfigError if observations or actions of a task have other sizes."""
    if not fits(policy, task):
        raise ConfigError(
            f"{policy.name}: the policy is for {policy.experiment.task.family}, whose observations "
            f"or actions are not those of {task.family}; evolve one there"
        )


def load_fixed_policy(folder: PathLike) -> LearnedLoss:
    """Reads a fixed policy from its folder or that of its run.

    Raises:
      RecordError: There is none; one line that begins with the folder.
    """
    learned = load_loss(folder)
    experiment = learned.experiment
    if experiment.learns or experiment.evolution.moves != "initialisation":
        raise RecordError(
            f"{folder}: it is no fixed policy; name the folder of a run with config.evolution."
            "moves='initialisation' and config.inner.updates=0 or config.inner.learning_rate=0"
        )
    return learned


def beside(learned: LearnedLoss) -> list[LearnedLoss]:
    """Returns the fixed policies in the folder of a loss, in the order of `NAMES`.

    Raises:
      RecordError: One of them is damaged.
    """
    if learned.folder is None:
        return []
    folders = [Path(learned.folder) / name for name in NAMES]
    return [load_fixed_policy(folder) for folder in folders if holds_loss(folder)]


def of_tasks(learned: LearnedLoss, task: TaskConfig) -> list[LearnedLoss]:
    """Returns the fixed policies that a test of a loss has where nobody names any: those in its
    folder, if they fit; else the best in validation of those beside pretrained losses of the very
    same tasks, whatever their physics. There are none beside what does not learn.

    Raises:
      RecordError: One of them is damaged.
    """
    if not learned.experiment.learns:
        return []
    if own := [policy for policy in beside(learned) if fits(policy, task)]:
        return own
    found = []
    for name in NAMES:
        there = [load_fixed_policy(path.parent) for path in PRETRAINED.glob(f"*/{name}/loss.json")]
        same = [
            policy
            for policy in there
            if dataclasses.replace(policy.experiment.task, physics=task.physics) == task
        ]
        found += sorted(same, key=lambda policy: policy.facts["validation_return_mean"])[-1:]
    return found


def methods(policies: Sequence[LearnedLoss]) -> list[FixedPolicy]:
    """Returns the methods of fixed policies beside a learned loss.

    Raises:
      ConfigError: Two of them have the same name, which would be one row.
    """
    found = [FixedPolicy(learned_name(policy.experiment), policy) for policy in policies]
    names = [method.name for method in found]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"{', '.join(policy.name for policy in policies)}: several fixed policies of the kind "
            f"{max(names, key=names.count)}; name one of each"
        )
    return found
