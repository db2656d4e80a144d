"""Trains fresh agents with a frozen loss or objective, and by other methods in the same unseen
tasks (EPG, Algorithm 2; MetaGenRL, section 5.1): one `Evaluation`, one table.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import Artifact, LearnedLoss, LearnedObjective
from epg_tf.artifacts.loss_files import checksum
from epg_tf.baselines.inner_loop_method import InnerLoops
from epg_tf.baselines.kept_shards import ShardFiles
from epg_tf.baselines.method import LossName, Method, Request, learned_name
from epg_tf.core.errors import ConfigError
from epg_tf.core.threads import configure_tensorflow, threads_of
from epg_tf.core.types import Array
from epg_tf.epg.baseline_settings import BASELINES
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation import checks, fixed_policies, methods
from epg_tf.evaluation.methods import LOSS_METHODS, OBJECTIVE_METHODS, Evaluated, registry_of
from epg_tf.evaluation.requests import loss_request, objective_request
from epg_tf.evaluation.results import MethodKey, Results, tabulate
from epg_tf.evaluation.trained_methods import TrainedMethod
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.metagenrl.settings import MetaGenRLExperiment


def train_all(
    trained: Iterable[Method], request: Request, known: Mapping[MethodKey, Results] | None = None
) -> Iterator[Results]:
    """Yields the results of each method, in their order, as they are found.

    Args:
      known: Results that an earlier evaluation found; these methods are not run again.
    """
    for method in trained:
        key = method.name, "" if method.loss is None else method.loss.name
        if known and key in known:
            yield known[key]
        else:
            yield tabulate(method, request, method.train(request))


def evaluate(
    experiment: Experiment,
    phi: Array,
    seed: int,
    lives: int = 64,
    updates: int | None = None,
    methods: Sequence[str] = LOSS_METHODS.chosen(["ppo"]),
) -> Results:
    """Trains fresh agents with a frozen loss, and by the other methods on the very same tasks, in
    exact physics.

    Args:
      experiment: Settings.
      phi: [D] float32, the evolved loss.
      seed: Names the tasks; evolution, validation and tuning met none of them, for any seed.
      lives: Number of agents per method.
      updates: Updates per life, or None for the experiment's number.
      methods: Keys of `methods.LOSS_METHODS`, e.g. "epg", "ppo", "untrained", "random_loss".

    Returns:
      One table; agents with the same number met the same task, start and action noise.

    Raises:
      ConfigError: phi is not that of such a loss, or lives < 2, which give no interval.
    """
    checks.check_phi(experiment, phi)
    if lives < 2:
        raise ConfigError(f"lives={lives} gives no interval; ask for 2 or more")
    request = loss_request(experiment, seed, lives, updates)
    learned = LearnedLoss(phi, experiment, {})
    return Results.join([*Evaluation(learned, LossName("phi"), request, tuple(methods)).run()])


def evaluate_objective(
    learned: LearnedObjective,
    seed: int,
    agents: int = 16,
    environment: str | None = None,
    env_steps: int | None = None,
    methods: Sequence[str] = OBJECTIVE_METHODS.always,
) -> Results:
    """Trains fresh agents with a frozen objective, and by the other methods for as many env steps.

    Args:
      learned: The objective and its settings.
      seed: Names agents and their streams; meta-training met none of them.
      agents: Number of agents per method.
      environment: FAMILY or FAMILY@EPISODE_LIMIT; None for the first one of meta-training.
      env_steps: Of learning of each agent; None for as many as an agent of meta-training has.
      methods: Keys of `methods.OBJECTIVE_METHODS`, e.g. "objective", "untrained_objective", "td3".

    Returns:
      One table.

    Raises:
      ConfigError: As `objective_request`.
    """
    request = objective_request(learned.experiment, environment, seed, agents, env_steps)
    name = LossName("objective")
    return Results.join([*Evaluation(learned, name, request, tuple(methods)).run()])


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The evaluation of a loss of EPG or of an objective of MetaGenRL.

    Attributes:
      learned: The loss or objective; its experiment holds the settings of the evaluation.
      loss: Its name.
      request: Which agents are trained.
      methods: Keys of its registry (`methods.registry_of`).
      replaced: Settings that are not those of meta-training: name -> (then, now).
      compare_updates: How many times as long as the others baselines live, >= 1.
      others: Further losses or objectives by name, meta-trained with the same settings and other
        seeds. What evolution moved may differ from the first one's (EPG, EPG+I, PPO+I).
      alpha: Share of PPO in what the loss's agents minimise; None: the one that evolution ends
        with.
      fixed: Fixed policies that are put into the same tasks, see `fixed_policies`.
      trained: Methods that were meta-trained before; they live as long as baselines.
    """

    learned: Artifact[Any]
    loss: LossName
    request: Request
    methods: tuple[str, ...]
    replaced: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
    compare_updates: int = 1
    others: tuple[tuple[LossName, Artifact[Any]], ...] = ()
    alpha: float | None = None
    fixed: tuple[LearnedLoss, ...] = ()
    trained: tuple[TrainedMethod, ...] = ()

    def __post_init__(self) -> None:
        """Raises ConfigError where agents of two losses would live differently, phi does not fit
        the settings or cannot teach, a fixed policy does not fit the body, or memory does not hold
        the lives.
        """
        if self.of_objective:
            checks.check_objectives(self.losses)
            return
        checks.check_losses(self.losses, self.request, self.alpha, "epg" in self.methods)
        for policy in self.fixed:
            fixed_policies.check_body(policy, self.request.task)

    @property
    def of_objective(self) -> bool:
        """Whether objectives of MetaGenRL are evaluated."""
        return isinstance(self.learned.experiment, MetaGenRLExperiment)

    @property
    def losses(self) -> list[tuple[LossName, Artifact[Any]]]:
        """All losses or objectives by name, the first one first."""
        return [(self.loss, self.learned), *self.others]

    def run(
        self,
        known: Mapping[MethodKey, Results] | None = None,
        kept: Mapping[str, ShardFiles] | None = None,
    ) -> Iterator[Results]:
        """Yields the results of each method as they are found, further losses after the first.

        An initial policy without a loss has no unevolved loss beside it.

        Args:
          kept: By some of `methods.IN_SHARDS`, where shards that have lived are found and added.
        """
        registry = registry_of(self.learned.experiment)
        longer = self.request.of_length(self.compare_updates)
        with contextlib.ExitStack() as stack:
            evaluated = self._evaluated(stack, kept or {})
            for name in methods.applicable(self.learned.experiment, self.methods):
                request = longer if name in registry.baselines else self.request
                learned = evaluated if name == registry.always[0] else evaluated[:1]
                yield from train_all(map(registry.methods[name], learned), request, known)
        yield from train_all([each.method for each in self.trained], longer, known)
        yield from train_all(fixed_policies.methods(self.fixed), self.request, known)

    def _evaluated(
        self, stack: contextlib.ExitStack, kept: Mapping[str, ShardFiles]
    ) -> list[Evaluated]:
        """Returns what methods are made from; losses of one kind share threads and functions, and
        follow one another after the first.
        """
        if self.of_objective:
            experiment = self.learned.experiment
            configure_tensorflow(threads_of(experiment.threads))
            return [Evaluated(experiment, each.phi, name, kept=kept) for name, each in self.losses]
        loops: dict[str, InnerLoops] = {}
        for _, each in self.losses:
            kind = learned_name(each.experiment)
            if kind not in loops:
                loops[kind] = stack.enter_context(methods.inner_loops(each.experiment))
        order = list(dict.fromkeys(learned_name(each.experiment) for _, each in self.others))
        others = sorted(self.others, key=lambda named: order.index(_kind(named)))
        found = []
        for name, each in [(self.loss, self.learned), *others]:
            shared, phi = loops[learned_name(each.experiment)], each.phi.copy()
            phi.flags.writeable = False
            alpha = self._alpha_of(each.experiment)
            found.append(Evaluated(shared.experiment, phi, name, shared, alpha, kept))
        return found

    def _alpha_of(self, experiment: Experiment) -> float:
        return checks.alpha_of(experiment, self.alpha)

    def about(self) -> dict[str, Any]:
        """Returns what was evaluated and how, for JSON."""
        return {
            "loss": self.loss.name,
            "other_losses": [name.name for name, _ in self.others],
            "other_loss_facts": {name.name: other.facts for name, other in self.others},
            "phase": self.request.phase,
            "seed": self.request.seed,
            "compare_updates": self.compare_updates,
            "loss_facts": self.learned.facts,
            "config": self.learned.experiment.to_mapping(),
            "replaced": dict(self.replaced),
            **(self._about_objectives() if self.of_objective else self._about_losses()),
        }

    def _about_objectives(self) -> dict[str, Any]:
        request = self.request
        return {
            "environment": request.task.family,
            "episode_limit": request.task.episode_limit,
            "env_steps": request.env_steps,
            "episodes": request.episodes,
            "parameters_sha256": {name.name: checksum(each.phi) for name, each in self.losses},
            "trained_in": self.learned.experiment.environments,
        }

    def _about_losses(self) -> dict[str, Any]:
        experiment, request = self.learned.experiment, self.request
        return {
            "task": dataclasses.asdict(request.task),
            "updates": request.env_steps // experiment.inner.update_period,
            "reward_declared": sees_reward(experiment.loss),
            "parameters_sha256": {
                name: checksum(learned.phi) for name, learned in self._all_learned().items()
            },
            "policy": dataclasses.asdict(experiment.policy),
            "alpha": self._alpha_of(experiment),
            "other_alphas": {
                name.name: self._alpha_of(other.experiment) for name, other in self.others
            },
            "baseline": dataclasses.asdict(experiment.surrogate),
            "rivals": {name: dataclasses.asdict(getattr(experiment, name)) for name in BASELINES},
            "meta_trained": {
                f"{each.method.name} {each.facts['folder']}": each.facts for each in self.trained
            },
            "meta_training_env_steps": self._meta_training(),
            "zero_shot_facts": {
                method.name: method.learned.facts for method in fixed_policies.methods(self.fixed)
            },
        }

    def _all_learned(self) -> dict[str, LearnedLoss]:
        """Returns losses, starts and fixed policies by method and name as "epg runs/first"."""
        named = [*self.losses, *((LossName(policy.name), policy) for policy in self.fixed)]
        return {f"{learned_name(each.experiment)} {name.name}": each for name, each in named}

    def _meta_training(self) -> dict[str, int | None]:
        """Returns what the meta-training of each learned loss, start or policy took; None where it
        is not recorded.
        """
        found = {
            name: learned.facts.get("env_steps") for name, learned in self._all_learned().items()
        }
        return found | {
            f"{each.method.name} {each.facts['folder']}": each.facts.get("env_steps")
            for each in self.trained
        }


def _kind(named: tuple[LossName, Artifact[Any]]) -> str:
    return learned_name(named[1].experiment)


def evaluate_baseline(name: str, experiment: MetaGenRLExperiment, request: Request) -> Results:
    """Returns the results of one method beside objectives, without any objective.

    Args:
      name: Of `methods.OBJECTIVE_METHODS`, but not "objective".

    Raises:
      ConfigError: The settings do not fit together.
    """
    evaluated = Evaluated(experiment, np.zeros(1, np.float32), LossName(""))
    return Results.join([*train_all([OBJECTIVE_METHODS.methods[name](evaluated)], request)])
