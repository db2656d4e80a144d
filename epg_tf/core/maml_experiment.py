"""Holds every setting of a run of MAML (Finn et al. 2017), each with its type, bounds, meaning and
default, and checks what must fit together.

Task and policy are the groups of an experiment of EPG. Files in `configs/` and launch flags speak
of these as `config.GROUP.FIELD`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any

from epg_tf.core import fields
from epg_tf.core.errors import ConfigError
from epg_tf.core.experiment import PolicyConfig, TaskConfig
from epg_tf.core.fields import Count, Natural, Positive, Share, means
from epg_tf.core.mix_settings import Physics


@dataclasses.dataclass(frozen=True)
class AdaptationConfig:
    """The inner loop: gradient descent on REINFORCE's loss (Algorithm 3, lines 5 to 7)."""

    steps: Annotated[
        Count, means("gradient steps in meta-training; a test takes its own number of them")
    ] = 1
    env_steps: Annotated[Count, means("U, env steps of samples for each gradient step")] = 2048
    learning_rate: Annotated[Positive, means("alpha, of gradient descent")] = 0.1
    discount: Annotated[Share, means("gamma, per env step")] = 0.99
    gae_lambda: Annotated[Share, means("lambda of generalized advantage estimation")] = 1.0


@dataclasses.dataclass(frozen=True)
class OuterConfig:
    """The outer loop: Adam on PPO's loss of the adapted policies (Algorithm 3, line 10)."""

    iterations: Annotated[Natural, means("of meta-training")] = 300
    tasks: Annotated[
        Count, means("lives in an iteration, in lockstep; also agents of a test, to rounding")
    ] = 20
    learning_rate: Annotated[Positive, means("beta, of Adam")] = 1e-3
    epochs: Annotated[Count, means("steps of Adam on the samples of an iteration")] = 5
    clip: Annotated[Positive, means("epsilon, of the probability ratio")] = 0.2
    validation_period: Annotated[
        Natural, means("iterations between validations, which choose the best; 0: none")
    ] = 10
    final_episodes: Annotated[Count, means("of each adapted policy, in validation")] = 3


@dataclasses.dataclass(frozen=True)
class MAMLExperiment:
    """Everything that decides a run, except its seed."""

    task: TaskConfig = TaskConfig()
    policy: PolicyConfig = PolicyConfig()
    adaptation: AdaptationConfig = AdaptationConfig()
    outer: OuterConfig = OuterConfig()

    @property
    def iteration_steps(self) -> int:
        """Env steps of an iteration, without validation: samples before each step and after."""
        return self.outer.tasks * self.adaptation.env_steps * (self.adaptation.steps + 1)

    def in_physics(self, physics: Physics) -> MAMLExperiment:
        """Returns the same experiment in other physics."""
        return dataclasses.replace(self, task=dataclasses.replace(self.task, physics=physics))

    def to_mapping(self) -> dict[str, dict[str, Any]]:
        """Returns the settings as nested dictionaries."""
        return dataclasses.asdict(self)


def maml_from_mapping(mapping: Any) -> MAMLExperiment:
    """Returns an experiment read from nested mappings; missing fields take their defaults.

    Raises:
      ConfigError: A name is unknown, a value has the wrong type or is out of bounds, or settings do
        not fit together.
    """
    experiment = fields.read(MAMLExperiment, mapping)
    for conflict in _conflicts(experiment):
        raise ConfigError(conflict)
    return experiment


def _conflicts(experiment: MAMLExperiment) -> Iterator[str]:
    steps, limit = experiment.adaptation.env_steps, experiment.task.episode_limit
    if steps < limit:
        yield (
            f"config.adaptation.env_steps={steps} is below config.task.episode_limit={limit}; "
            "samples must hold a whole episode"
        )
