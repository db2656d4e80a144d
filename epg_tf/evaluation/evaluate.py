"""Trains fresh agents by several methods on the same unseen tasks (EPG, Algorithm 2; MetaGenRL,
section 5.1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from epg_tf.artifacts.learned_loss import LearnedLoss
from epg_tf.artifacts.learned_objective import LearnedObjective
from epg_tf.baselines.inner_loop_method import InnerLoops
from epg_tf.baselines.method import LossName, Method, Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.experiment import Experiment, TaskConfig
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.mix_settings import Physics
from epg_tf.core.parameters import parameter_count
from epg_tf.core.rival_settings import RIVALS
from epg_tf.core.threads import configure_tensorflow, cpus
from epg_tf.core.types import Array
from epg_tf.epg.memory_needs import refuse_lives_that_cannot_fit
from epg_tf.epg.meta_parameters import moves_loss, needed, vector_shapes
from epg_tf.evaluation import loss_methods, objective_methods, zero_shot
from epg_tf.evaluation.comparisons import LOSSES, OBJECTIVES
from epg_tf.evaluation.results import Results, tabulate
from epg_tf.evaluation.summary import Summary, summarize
from epg_tf.evaluation.trained_methods import TrainedMethod
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.metagenrl.agents import check_continuous
from epg_tf.tasks.registry import named_environment


def train_all(methods: Iterable[Method], request: Request) -> Iterator[Results]:
    """Yields the results of each method, in their order, as they are found."""
    for method in methods:
        yield tabulate(method, request, method.train(request))


def evaluate(
    experiment: Experiment,
    phi: Array,
    seed: int,
    lives: int = 64,
    updates: int | None = None,
    methods: Sequence[str] = LOSSES.chosen(["ppo"]),
) -> Results:
    """Trains fresh agents with a frozen loss, and by the other methods on the very same tasks, in
    exact physics.

    Args:
      experiment: Settings.
      phi: [D] float32, the evolved loss.
      seed: Names the tasks; evolution, validation and tuning met none of them, for any seed.
      lives: Number of agents per method.
      updates: Updates per life, or None for the experiment's number.
      methods: Of `loss_methods.METHODS`: "epg"; "ppo", "reinforce", "sac" and "td3", each with
        settings of its own; "ppo_as_epg", PPO with EPG's M; "untrained", an agent that never
        learns; "random_loss", "centred_loss" and, where the loss began so, "policy_gradient_loss",
        a new loss for each agent that was never evolved.

    Returns:
      One table; agents with the same number met the same task, start and action noise.

    Raises:
      ConfigError: phi is not that of such a loss, or lives < 2, which give no interval.
    """
    check_phi(experiment, phi)
    if lives < 2:
        raise ConfigError(f"lives={lives} gives no interval; ask for 2 or more")
    evaluation = LossEvaluation(
        LearnedLoss(phi, experiment, {}),
        LossName("phi"),
        loss_request(experiment, seed, lives, updates),
        tuple(methods),
    )
    return Results.join(list(evaluation.run()))


def check_phi(experiment: Experiment, phi: Array) -> None:
    """Raises ConfigError if phi is not what these settings move: a loss, a policy or both."""
    if np.shape(phi) != (parameter_count(vector_shapes(experiment)),):
        raise ConfigError(f"phi has shape {np.shape(phi)}; {needed(experiment)}")


def loss_request(
    experiment: Experiment,
    seed: int,
    lives: int,
    updates: int | None = None,
    physics: Physics = "exact",
) -> Request:
    """Returns the request of the test of a loss of EPG, whatever physics it evolved in; other
    arguments as in `evaluate`.
    """
    inner = experiment.inner
    return Request(
        experiment.in_physics(physics).task,
        seed,
        "test",
        lives,
        (inner.updates if updates is None else updates) * inner.update_period,
        inner.final_episodes,
    )


@dataclasses.dataclass(frozen=True)
class LossEvaluation:
    """The test of a loss of EPG.

    Attributes:
      learned: The loss; its experiment holds the settings of the test.
      loss: Its name.
      request: Which agents are trained.
      methods: Of `loss_methods.METHODS`.
      replaced: Settings that are not those of evolution: name -> (then, now).
      fixed: Fixed policies that are put into the same tasks, see `zero_shot`.
      alpha: Share of PPO in what the loss's agents minimise; None: the one that evolution ends
        with.
      compare_updates: How many times as long as the others rivals live, >= 1.
      others: Further losses by name, evolved with the same settings and other seeds.
      trained: Methods that were meta-trained before; they live as long as rivals.
    """

    learned: LearnedLoss
    loss: LossName
    request: Request
    methods: tuple[str, ...]
    replaced: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
    fixed: tuple[LearnedLoss, ...] = ()
    alpha: float | None = None
    compare_updates: int = 1
    others: tuple[tuple[LossName, LearnedLoss], ...] = ()
    trained: tuple[TrainedMethod, ...] = ()

    def __post_init__(self) -> None:
        """Raises ConfigError where phi does not fit the settings or cannot teach, a fixed policy
        does not fit the body, or memory does not hold the lives.
        """
        for name, other in self.others:
            _check_alike(self.learned.experiment, name.name, other)
        experiment = self.learned.experiment
        check_phi(experiment, self.learned.phi)
        for policy in self.fixed:
            zero_shot.check_body(policy, self.request.task)
        learns = self.request.env_steps and self._alpha < 1.0
        if learns and not moves_loss(experiment):
            raise ConfigError(
                "config.evolution.moves='initialisation': there is a policy and no loss, so lives "
                f"of updates={self.request.env_steps // experiment.inner.update_period} have "
                "nothing to learn from; test it with as many as in evolution, 0"
            )
        if learns and "epg" in self.methods:
            refuse_lives_that_cannot_fit(experiment, self.request.agents)

    def run(self) -> Iterator[Results]:
        """Yields the results of each method as they are found.

        An initial policy without a loss has no unevolved loss beside it.
        """
        phi = self.learned.phi.copy()
        phi.flags.writeable = False
        with loss_methods.inner_loops(self.learned.experiment) as loops:
            evaluated = loss_methods.EvaluatedLoss(loops, phi, self.loss, self._alpha)
            for name in loss_methods.applicable(self.learned.experiment, self.methods):
                request = _long(self.request, name in LOSSES.rivals, self.compare_updates)
                yield from train_all([loss_methods.METHODS[name](evaluated)], request)
                if name == "epg":
                    yield from train_all(self._other_losses(loops), request)
            request = _long(self.request, True, self.compare_updates)
            yield from train_all([each.method for each in self.trained], request)
            yield from train_all(self._fixed_policies(), self.request)

    def _other_losses(self, loops: InnerLoops) -> list[Method]:
        return [
            loss_methods.learned_loss(
                loss_methods.EvaluatedLoss(loops, other.phi, name, self._alpha)
            )
            for name, other in self.others
        ]

    def _fixed_policies(self) -> list[zero_shot.FixedPolicy]:
        return zero_shot.methods(self.learned, self.fixed)

    @property
    def _alpha(self) -> float:
        if self.alpha is None:
            return self.learned.experiment.evolution.final_guidance
        return self.alpha

    def about(self) -> dict[str, Any]:
        """Returns what was tested and how, for JSON."""
        experiment, request = self.learned.experiment, self.request
        return {
            "loss": self.loss.name,
            "other_losses": [name.name for name, _ in self.others],
            "phase": request.phase,
            "task": dataclasses.asdict(request.task),
            "seed": request.seed,
            "updates": request.env_steps // experiment.inner.update_period,
            "reward_declared": sees_reward(experiment.loss),
            "loss_facts": self.learned.facts,
            "policy": dataclasses.asdict(experiment.policy),
            "alpha": self._alpha,
            "compare_updates": self.compare_updates,
            "baseline": dataclasses.asdict(experiment.surrogate),
            "rivals": {name: dataclasses.asdict(getattr(experiment, name)) for name in RIVALS},
            "config": experiment.to_mapping(),
            "replaced": dict(self.replaced),
            "meta_trained": {each.method.name: each.facts for each in self.trained},
            "zero_shot_facts": {
                method.name: method.learned.facts for method in self._fixed_policies()
            },
        }


def _check_alike(experiment: Experiment, name: str, other: LearnedLoss) -> None:
    """Raises ConfigError where agents of another loss would live otherwise."""
    mine, its = experiment.to_mapping(), other.experiment.to_mapping()
    for group in ("policy", "loss", "inner"):
        for field in mine[group]:
            if mine[group][field] != its[group][field]:
                raise ConfigError(
                    f"loss={name!r} has config.{group}.{field}={its[group][field]!r}, the first "
                    f"loss {mine[group][field]!r}; test such losses apart"
                )
    check_phi(experiment, other.phi)


def _long(request: Request, rival: bool, times: int) -> Request:
    """Returns the request of a method; rivals live so many times as long."""
    return dataclasses.replace(request, env_steps=request.env_steps * (times if rival else 1))


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
    """

    learned: LearnedObjective
    loss: LossName
    request: Request
    methods: tuple[str, ...]
    replaced: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
    compare_updates: int = 1

    def run(self) -> Iterator[Results]:
        """Yields the results of each method as they are found."""
        experiment = self.learned.experiment
        configure_tensorflow(experiment.threads or cpus(1))
        evaluated = objective_methods.EvaluatedObjective(
            experiment, self.learned.parameters, self.loss
        )
        for name in self.methods:
            request = _long(self.request, name in OBJECTIVES.rivals, self.compare_updates)
            yield from train_all([objective_methods.METHODS[name](evaluated)], request)

    def about(self) -> dict[str, Any]:
        """Returns what was tested and how, for JSON."""
        experiment, request = self.learned.experiment, self.request
        return {
            "loss": self.loss.name,
            "environment": request.task.family,
            "episode_limit": request.task.episode_limit,
            "phase": request.phase,
            "seed": request.seed,
            "env_steps": request.env_steps,
            "episodes": request.episodes,
            "compare_updates": self.compare_updates,
            "loss_facts": self.learned.facts,
            "trained_in": experiment.environments,
            "config": experiment.to_mapping(),
            "replaced": dict(self.replaced),
        }


def loss_name(name: str, facts: dict[str, Any]) -> LossName:
    """Returns the name of a loss, with the seed that its facts state."""
    seed = facts.get("seed")
    return LossName(name, seed if isinstance(seed, int) else None)


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
