"""Trains fresh agents with an objective of MetaGenRL, and by other methods for as many env steps
(Kirsch et al. 2019, section 5.1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import LearnedObjective
from epg_tf.artifacts.loss_files import checksum
from epg_tf.baselines.method import LossName, Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.threads import configure_tensorflow, cpus
from epg_tf.evaluation import objective_methods
from epg_tf.evaluation.comparisons import OBJECTIVES
from epg_tf.evaluation.evaluate import check_distinct, train_all
from epg_tf.evaluation.results import MethodKey, Results
from epg_tf.evaluation.summary import Summary, summarize
from epg_tf.metagenrl.agents import check_continuous
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.registry import named_environment
from epg_tf.tasks.settings import TaskConfig

_NO_EFFECT = ("baseline", "failed_rounds", "objective_period", "threads")  # on final/ and best/


def objective_request(
    experiment: MetaGenRLExperiment,
    environment: str | None,
    seed: int,
    agents: int,
    env_steps: int | None = None,
    episodes: int = 5,
) -> Request:
    """Returns the request of the test of an objective of MetaGenRL.

    Args:
      experiment: Settings.
      environment: FAMILY or FAMILY@EPISODE_LIMIT; None for the first one of meta-training.
      seed: Names agents and their streams; meta-training met none of them.
      agents: Number of agents per method.
      env_steps: Of learning of each; None for as many as an agent of meta-training has.
      episodes: In each evaluation.

    Raises:
      ConfigError: The environment is unknown or has no continuous actions, or the env steps are no
        whole rounds or no whole updates of the baselines.
    """
    family = named_environment(environment or experiment.environments[0])
    check_continuous(family)
    steps = env_steps or (experiment.life_rounds or experiment.rounds) * experiment.round_steps
    for period, field in (
        (experiment.round_steps, "round_steps"),
        (experiment.baseline.update_period, "baseline.update_period"),
    ):
        if steps % period:
            raise ConfigError(
                f"env_steps={steps} is no multiple of the objective's config.{field}={period}; "
                "choose one"
            )
    task = TaskConfig(family.name, family.frame_skip, family.episode_limit)
    return Request(task, seed, "objective_test", agents, steps, episodes)


def evaluate_objective(
    learned: LearnedObjective,
    seed: int,
    agents: int = 16,
    environment: str | None = None,
    env_steps: int | None = None,
    methods: Sequence[str] = OBJECTIVES.always,
) -> Results:
    """Trains fresh agents with a frozen objective, and by the other methods for as many env steps.

    Args:
      learned: The objective and its settings.
      seed: Names agents and their streams; meta-training met none of them.
      agents: Number of agents per method.
      environment: FAMILY or FAMILY@EPISODE_LIMIT; None for the first one of meta-training.
      env_steps: Of learning of each agent; None for as many as an agent of meta-training has.
      methods: Of `objective_methods.METHODS`, e.g. "objective", "untrained_objective", "td3".

    Returns:
      One table.

    Raises:
      ConfigError: As `objective_request`.
    """
    request = objective_request(learned.experiment, environment, seed, agents, env_steps)
    evaluation = ObjectiveEvaluation(learned, LossName("objective"), request, tuple(methods))
    return Results.join(list(evaluation.run()))


@dataclasses.dataclass(frozen=True)
class ObjectiveEvaluation:
    """The test of an objective of MetaGenRL.

    Attributes:
      learned: The objective; its experiment holds the settings of the test.
      loss: Its name.
      request: Which agents are trained.
      methods: Of `objective_methods.METHODS`.
      replaced: Settings that are not those of meta-training: name -> (then, now).
      compare_updates: How many times as long as the others rivals live, >= 1.
      others: Further objectives by name, meta-trained with the same settings and other seeds.
    """

    learned: LearnedObjective
    loss: LossName
    request: Request
    methods: tuple[str, ...]
    replaced: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
    compare_updates: int = 1
    others: tuple[tuple[LossName, LearnedObjective], ...] = ()

    def __post_init__(self) -> None:
        """Raises ConfigError where an objective is there twice, or settings differ."""
        check_distinct([(self.loss, self.learned), *self.others])
        mine = _deciding(self.learned.experiment)
        for name, other in self.others:
            for field, value in _deciding(other.experiment).items():
                if value != mine[field]:
                    raise ConfigError(
                        f"loss={name.name!r} has config.{field}={value!r}, {self.loss.name!r} has "
                        f"{mine[field]!r}; test such objectives apart"
                    )

    def run(self, known: Mapping[MethodKey, Results] | None = None) -> Iterator[Results]:
        """Yields the results of each method as they are found, further objectives after the
        first.

        Args:
          known: Results that this test found before it was stopped.
        """
        experiment = self.learned.experiment
        configure_tensorflow(experiment.threads or cpus(1))
        evaluated = [
            objective_methods.EvaluatedObjective(experiment, each.phi, name)
            for name, each in ((self.loss, self.learned), *self.others)
        ]
        for name in self.methods:
            request = self.request.of_length(
                self.compare_updates if name in OBJECTIVES.rivals else 1
            )
            learned = evaluated if name == "objective" else evaluated[:1]
            yield from train_all(map(objective_methods.METHODS[name], learned), request, known)

    def about(self) -> dict[str, Any]:
        """Returns what was tested and how, for JSON."""
        experiment, request = self.learned.experiment, self.request
        return {
            "loss": self.loss.name,
            "other_losses": [name.name for name, _ in self.others],
            "other_loss_facts": {name.name: other.facts for name, other in self.others},
            "environment": request.task.family,
            "episode_limit": request.task.episode_limit,
            "phase": request.phase,
            "seed": request.seed,
            "env_steps": request.env_steps,
            "episodes": request.episodes,
            "compare_updates": self.compare_updates,
            "loss_facts": self.learned.facts,
            "parameters_sha256": {
                name.name: checksum(each.phi)
                for name, each in ((self.loss, self.learned), *self.others)
            },
            "trained_in": experiment.environments,
            "config": experiment.to_mapping(),
            "replaced": dict(self.replaced),
        }


def _deciding(experiment: MetaGenRLExperiment) -> dict[str, Any]:
    """Returns the settings that decide an objective and the lives of its agents, by the names of
    their flags.
    """
    found: dict[str, Any] = {}
    for name, value in experiment.to_mapping().items():
        if name in _NO_EFFECT:
            continue
        if isinstance(value, dict):
            found |= {f"{name}.{field}": each for field, each in value.items()}
        else:
            found[name] = value
    return found


def evaluate_rival(name: str, experiment: MetaGenRLExperiment, request: Request) -> Summary:
    """Returns the summary of one method of the test of an objective, without any objective.

    Args:
      name: Of `objective_methods.METHODS`, but not "objective".
      experiment: Settings.
      request: Which agents are trained.

    Raises:
      ConfigError: The settings do not fit together.
    """
    nothing = np.zeros(1, np.float32)
    evaluated = objective_methods.EvaluatedObjective(experiment, nothing, LossName(""))
    (table,) = train_all([objective_methods.METHODS[name](evaluated)], request)
    return summarize(table)[name]
