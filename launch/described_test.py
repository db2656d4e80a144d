"""Reads the test that the flags of epg-tf meta-test describe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.artifacts.artifact import (
    LearnedLoss,
    LearnedObjective,
    is_objective,
    load_loss,
    load_objective,
)
from epg_tf.baselines.method import loss_name
from epg_tf.core.errors import ConfigError
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.settings import Physics, TaskConfig
from epg_tf.evaluation import fixed_policies
from epg_tf.evaluation.evaluate import Evaluation
from epg_tf.evaluation.methods import ALONE, LOSS_METHODS, OBJECTIVE_METHODS, of_loss
from epg_tf.evaluation.requests import loss_request
from epg_tf.evaluation.trained_methods import TrainedMethod, load_all
from epg_tf.reports.resumed_tests import lacks_fixed_policies
from epg_tf.tasks.registry import make_family
from .evaluation_flags import request_of, required_losses
from .meta_test_flags import (
    LOSS,
    LIVES,
    UPDATES,
    COMPARE,
    COMPARE_UPDATES,
    ALPHA,
    SEED,
    REPORTING,
    PHYSICS,
    FIXED_POLICIES,
    OUTPUT_DIR,
    RESUME,
    SAVE_POLICY,
    LEARNING,
)


def evaluation() -> Evaluation:
    """Returns the test that the flags describe; prints which loss of a run is taken.

    Raises:
      UsageError: Flags contradict each other, or mean nothing for what is tested.
      ConfigError: A loss, a fixed policy or a meta-trained baseline does not fit the test.
      RecordError: One of them does not exist, or is damaged.
    """
    loss, *others = required_losses(LOSS, "runs/first")
    kinds = {name: is_objective(name) for name in (loss, *others)}
    if len({*kinds.values()}) > 1:
        raise command_line.UsageError(
            f"--loss={LOSS.value} names objectives of MetaGenRL and losses of EPG; test them apart"
        )
    if kinds[loss]:
        _refuse(
            UPDATES,
            SAVE_POLICY,
            PHYSICS,
            ALPHA,
            FIXED_POLICIES,
            kind="an objective of MetaGenRL",
        )
        return _of_objective(
            loss, load_objective(loss), [(name, load_objective(name)) for name in others]
        )
    _refuse(*LEARNING, kind="a loss of EPG")
    return _of_loss(loss, load_loss(loss), [(name, load_loss(name)) for name in others])


def _refuse(*given: flags.FlagHolder, kind: str) -> None:
    """Refuses flags that mean nothing for what is tested."""
    for flag in given:
        if flag.value is not None:
            raise command_line.UsageError(
                f"--{flag.name}={flag.value}: --loss={LOSS.value} is {kind}, to which this does "
                "not apply; leave it out"
            )


def _methods(chosen: Callable[[Sequence[str]], tuple[str, ...]]) -> tuple[str, ...]:
    """Returns the methods that --compare asks for."""
    try:
        return chosen(COMPARE.value)
    except ConfigError as error:
        raise command_line.UsageError(f"--{error}") from error


def _of_loss(
    loss: str, learned: LearnedLoss, others: Sequence[tuple[str, LearnedLoss]]
) -> Evaluation:
    """Returns the test of losses of EPG that the flags describe."""
    physics: Physics = "coarse" if PHYSICS.value == "coarse" else "exact"
    config_flag.refuse("task.physics", reason="--physics says in which physics a test is")
    experiment = config_flag.with_test_settings(learned.experiment, physics)
    try:
        make_family(experiment.task)
    except ConfigError as error:
        raise command_line.UsageError(f"--physics={physics}: {error}") from error
    request = loss_request(experiment, SEED.value, LIVES.value or 64, UPDATES.value, physics)
    methods = _methods(lambda words: of_loss(experiment, words, request.env_steps))
    print(config_flag.note_on_centring(experiment, methods), end="")
    return Evaluation(
        dataclasses.replace(learned, experiment=experiment),
        loss_name(loss, learned.facts),
        dataclasses.replace(request, phase="reporting") if REPORTING.value else request,
        methods,
        config_flag.replaced(learned.experiment, experiment),
        fixed=_fixed_policies(learned, request.task),
        alpha=ALPHA.value,
        compare_updates=COMPARE_UPDATES.value,
        others=tuple(
            (
                loss_name(name, other.facts),
                dataclasses.replace(
                    other, experiment=config_flag.with_test_settings(other.experiment, physics)
                ),
            )
            for name, other in others
        ),
        trained=_trained(experiment),
    )


def _trained(experiment: Experiment) -> tuple[TrainedMethod, ...]:
    """Returns the methods of --compare that were meta-trained before."""
    folders = LOSS_METHODS.folders(COMPARE.value)
    try:
        return load_all(folders, experiment)
    except ConfigError as error:
        raise command_line.UsageError(f"--{error}") from error


def _fixed_policies(learned: LearnedLoss, task: TaskConfig) -> tuple[LearnedLoss, ...]:
    """Returns the fixed policies that --fixed_policies names; a test that goes on has its own."""
    if FIXED_POLICIES.value is None:
        without = RESUME.value and lacks_fixed_policies(OUTPUT_DIR.value or "")
        alone = ALONE in COMPARE.value
        return () if without or alone else tuple(fixed_policies.of_tasks(learned, task))
    found: list[LearnedLoss] = []
    for word in FIXED_POLICIES.value:
        policies = fixed_policies.beside(learned) if word == "own" else None
        if policies == []:
            raise command_line.UsageError(
                f"--fixed_policies=own: the folder of --loss={LOSS.value} holds no "
                f"{' and no '.join(fixed_policies.NAMES)}; name folders of fixed policies"
            )
        found += [fixed_policies.load_fixed_policy(word)] if policies is None else policies
    fixed_policies.methods(found)
    return tuple(found)


def _of_objective(
    loss: str, learned: LearnedObjective, others: Sequence[tuple[str, LearnedObjective]]
) -> Evaluation:
    """Returns the test of objectives of MetaGenRL that the flags describe."""
    experiment = config_flag.with_baseline(learned.experiment)
    request = request_of(experiment, LEARNING, SEED.value, LIVES.value or 8)
    return Evaluation(
        dataclasses.replace(learned, experiment=experiment),
        loss_name(loss, learned.facts),
        dataclasses.replace(request, phase="objective_reporting") if REPORTING.value else request,
        _methods(OBJECTIVE_METHODS.chosen),
        config_flag.replaced(learned.experiment, experiment),
        compare_updates=COMPARE_UPDATES.value,
        others=tuple((loss_name(name, other.facts), other) for name, other in others),
    )
