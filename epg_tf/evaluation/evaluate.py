"""Trains fresh agents by several methods on the same unseen tasks (EPG, Algorithm 2)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import LearnedLoss, LearnedObjective
from epg_tf.artifacts.loss_files import checksum
from epg_tf.baselines.inner_loop_method import InnerLoops
from epg_tf.baselines.lived_shards import KeptShards
from epg_tf.baselines.method import LossName, Method, Request, learned_name
from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import Array
from epg_tf.epg.baseline_settings import RIVALS
from epg_tf.epg.memory_needs import refuse_lives_that_cannot_fit
from epg_tf.epg.meta_parameters import moves_loss, needed, vector_shapes
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation import loss_methods, zero_shot
from epg_tf.evaluation.comparisons import LOSSES
from epg_tf.evaluation.results import MethodKey, Results, tabulate
from epg_tf.evaluation.trained_methods import TrainedMethod
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.tasks.settings import Physics


def train_all(
    methods: Iterable[Method], request: Request, known: Mapping[MethodKey, Results] | None = None
) -> Iterator[Results]:
    """Yields the results of each method, in their order, as they are found.

    Args:
      methods: What trains the agents.
      request: Which agents.
      known: Results that an earlier test found; these methods are not run again.
    """
    for method in methods:
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
      others: Further losses by name. What evolution moved may differ from the first one's (EPG,
        EPG+I, PPO+I); losses of which it moved the same were evolved with the same settings and
        other seeds.
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
        check_distinct([(self.loss, self.learned), *self.others])
        firsts = {learned_name(self.learned.experiment): (self.loss, self.learned.experiment)}
        for name, other in self.others:
            kind = learned_name(other.experiment)
            first = firsts.setdefault(kind, (name, other.experiment))
            self._check_alike(name, other.experiment, *first)
            self._check_life(name, other.experiment)
        for learned in (self.learned, *(other for _, other in self.others)):
            check_phi(dataclasses.replace(learned.experiment, task=self.request.task), learned.phi)
        for policy in self.fixed:
            zero_shot.check_body(policy, self.request.task)
        for _, first_experiment in firsts.values():
            self._check_learning(first_experiment)

    def _check_alike(
        self, name: LossName, experiment: Experiment, first: LossName, its: Experiment
    ) -> None:
        """Raises ConfigError where agents of two losses of the same kind would live differently."""
        mine, others = experiment.to_mapping(), its.to_mapping()
        groups = [(group, tuple(mine[group])) for group in ("policy", "loss", "inner")]
        if self.alpha is None:
            groups.append(("evolution", ("final_guidance",)))
        if self._alpha_of(experiment):
            groups.append(("surrogate", tuple(mine["surrogate"])))
        for group, names in groups:
            for field in names:
                if mine[group][field] != others[group][field]:
                    raise ConfigError(
                        f"loss={name.name!r} has config.{group}.{field}={mine[group][field]!r}, "
                        f"{first.name!r} has {others[group][field]!r}; test such losses apart"
                    )

    def _check_life(self, name: LossName, experiment: Experiment) -> None:
        """Raises ConfigError where a loss's agents do not begin and live as those of the first."""
        mine, its = (each.to_mapping() for each in (experiment, self.learned.experiment))
        alike = [("policy", field) for field in mine["policy"]]
        for group, field in (*alike, ("inner", "centred_observations")):
            if mine[group][field] != its[group][field]:
                raise ConfigError(
                    f"loss={name.name!r} has config.{group}.{field}={mine[group][field]!r}, "
                    f"{self.loss.name!r} has {its[group][field]!r}; test such losses apart"
                )
        if experiment.life_steps != self.learned.experiment.life_steps:
            raise ConfigError(
                f"loss={name.name!r} has lives of {experiment.life_steps} env steps, "
                f"{self.loss.name!r} of {self.learned.experiment.life_steps}; test them apart"
            )
        period, steps = experiment.inner.update_period, self.request.env_steps
        if steps % period:
            raise ConfigError(
                f"updates={steps // self.learned.experiment.inner.update_period} gives lives of "
                f"{steps} env steps, no multiple of config.inner.update_period={period} of loss="
                f"{name.name!r}; choose another number of updates"
            )

    def _check_learning(self, experiment: Experiment) -> None:
        """Refuses lives that nothing teaches, and those that memory does not hold."""
        learns = self.request.env_steps and self._alpha_of(experiment) < 1.0
        if learns and not moves_loss(experiment):
            by_ppo = experiment.evolution.final_guidance == 1.0
            remedy = (
                f"leave alpha={self.alpha} out, so that they learn by PPO alone"
                if by_ppo
                else "test it with as many as in evolution, 0"
            )
            raise ConfigError(
                "config.evolution.moves='initialisation': there is a policy and no loss, so lives "
                f"of updates={self.request.env_steps // experiment.inner.update_period} have "
                f"nothing to learn from; {remedy}"
            )
        if learns and "epg" in self.methods:
            refuse_lives_that_cannot_fit(experiment, self.request.agents)

    def run(
        self,
        known: Mapping[MethodKey, Results] | None = None,
        kept: Mapping[str, KeptShards] | None = None,
    ) -> Iterator[Results]:
        """Yields the results of each method as they are found.

        An initial policy without a loss has no unevolved loss beside it.

        Args:
          known: Results that this test found before it was stopped.
          kept: By some of `loss_methods.IN_SHARDS`, where shards that have lived are found and
            added.
        """
        with loss_methods.inner_loops(self.learned.experiment) as loops:
            evaluated = self._evaluated(loops, self.loss, self.learned.phi)
            evaluated = dataclasses.replace(evaluated, kept=kept or {})
            for name in loss_methods.applicable(self.learned.experiment, self.methods):
                request = self.request.of_length(
                    self.compare_updates if name in LOSSES.rivals else 1
                )
                yield from train_all([loss_methods.METHODS[name](evaluated)], request, known)
                if name == "epg":
                    yield from self._other_losses(loops, known)
        request = self.request.of_length(self.compare_updates)
        yield from train_all([each.method for each in self.trained], request, known)
        yield from train_all(self._fixed_policies(), self.request, known)

    def _other_losses(
        self, loops: InnerLoops, known: Mapping[MethodKey, Results] | None
    ) -> Iterator[Results]:
        """Yields the results of the other losses: those like the first one share its `loops`."""
        kinds: dict[str, list[tuple[LossName, LearnedLoss]]] = {}
        for name, other in self.others:
            kinds.setdefault(learned_name(other.experiment), []).append((name, other))
        for kind, losses in kinds.items():
            alike = kind == learned_name(self.learned.experiment)
            own = loss_methods.inner_loops(losses[0][1].experiment)
            with contextlib.nullcontext(loops) if alike else own as used:
                evaluated = [self._evaluated(used, name, other.phi) for name, other in losses]
                yield from train_all(map(loss_methods.learned_loss, evaluated), self.request, known)

    def _evaluated(
        self, loops: InnerLoops, name: LossName, phi: Array
    ) -> loss_methods.EvaluatedLoss:
        phi = phi.copy()
        phi.flags.writeable = False
        return loss_methods.EvaluatedLoss(loops, phi, name, self._alpha_of(loops.experiment))

    def _fixed_policies(self) -> list[zero_shot.FixedPolicy]:
        return zero_shot.methods(self.learned, self.fixed)

    def _alpha_of(self, experiment: Experiment) -> float:
        return experiment.evolution.final_guidance if self.alpha is None else self.alpha

    def about(self) -> dict[str, Any]:
        """Returns what was tested and how, for JSON."""
        experiment, request = self.learned.experiment, self.request
        return {
            "loss": self.loss.name,
            "other_losses": [name.name for name, _ in self.others],
            "other_loss_facts": {name.name: other.facts for name, other in self.others},
            "phase": request.phase,
            "task": dataclasses.asdict(request.task),
            "seed": request.seed,
            "updates": request.env_steps // experiment.inner.update_period,
            "reward_declared": sees_reward(experiment.loss),
            "loss_facts": self.learned.facts,
            "parameters_sha256": {
                name: checksum(learned.phi) for name, learned in self._all_learned().items()
            },
            "policy": dataclasses.asdict(experiment.policy),
            "alpha": self._alpha_of(experiment),
            "other_alphas": {
                name.name: self._alpha_of(other.experiment) for name, other in self.others
            },
            "compare_updates": self.compare_updates,
            "baseline": dataclasses.asdict(experiment.surrogate),
            "rivals": {name: dataclasses.asdict(getattr(experiment, name)) for name in RIVALS},
            "config": experiment.to_mapping(),
            "replaced": dict(self.replaced),
            "meta_trained": {
                f"{each.method.name} {each.facts['folder']}": each.facts for each in self.trained
            },
            "meta_training_env_steps": self._meta_training(),
            "zero_shot_facts": {
                method.name: method.learned.facts for method in self._fixed_policies()
            },
        }

    def _all_learned(self) -> dict[str, LearnedLoss]:
        """Returns losses, starts and fixed policies by method and name as "epg runs/first"."""
        losses = [(self.loss, self.learned), *self.others]
        losses += [(LossName(policy.name), policy) for policy in self.fixed]
        return {f"{learned_name(each.experiment)} {name.name}": each for name, each in losses}

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


def check_distinct(losses: Sequence[tuple[LossName, LearnedLoss | LearnedObjective]]) -> None:
    """Raises ConfigError where two losses have the same name or come from the same folder."""
    folders = [Path(each.folder).resolve() for _, each in losses if each.folder is not None]
    for found in ([name.name for name, _ in losses], folders):
        if twice := [each for number, each in enumerate(found) if each in found[:number]]:
            raise ConfigError(f"loss={str(twice[0])!r} is there twice; name each loss once")
