"""Defines the flags of epg-tf meta-test, and reads the test that they describe."""

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
from epg_tf.tasks.settings import Physics
from epg_tf.evaluation import fixed_policies
from epg_tf.evaluation.evaluate import Evaluation
from epg_tf.evaluation.methods import LOSS_METHODS, OBJECTIVE_METHODS, of_loss
from epg_tf.evaluation.requests import loss_request
from epg_tf.evaluation.trained_methods import TrainedMethod, load_all
from epg_tf.tasks.registry import make_family
from .evaluation_flags import request_of, required_losses

LOSS = flags.DEFINE_string(
    "loss",
    None,
    "Folder of a run or of a learned loss, or the name of a pretrained loss; several, separated by "
    "commas: made with the same settings and different seeds, or, of EPG, with another "
    "config.evolution.moves (EPG, EPG+I, PPO+I).",
)
OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for curves.csv, summary.json and curves.png."
)
flags.adopt_module_key_flags(config_flag)
_LIVES = flags.DEFINE_integer(
    "lives",
    None,
    "Lives per method, one unseen task each; 64 by default, 8 agents of MetaGenRL.",
    lower_bound=2,
    upper_bound=10**6,
)
UPDATES = flags.DEFINE_integer(
    "updates",
    None,
    "Updates per life; as in evolution by default.",
    lower_bound=1,
    upper_bound=10**7,
)
_COMPARE = flags.DEFINE_list(
    "compare",
    ["ppo"],
    "Which baselines learn on the same tasks: none, ppo, all, or names separated by commas. With "
    "alone, also beside others, agents that never learn and unevolved losses are left out. For "
    f"losses of EPG ppo means {' and '.join(LOSS_METHODS.groups['ppo'])}; names are "
    f"{', '.join(LOSS_METHODS.groups['all'])}, and NAME:FOLDER of what was meta-trained, "
    f"with the name {' or '.join(LOSS_METHODS.trained)}. Of MetaGenRL names are "
    f"{', '.join(OBJECTIVE_METHODS.groups['all'])}.",
)
COMPARE_UPDATES = flags.DEFINE_integer(
    "compare_updates",
    1,
    "Baselines learn for so many times the env steps of the others.",
    lower_bound=1,
    upper_bound=10**4,
)
_ALPHA = flags.DEFINE_float(
    "alpha",
    None,
    "For losses of EPG: share of PPO in what their agents minimise; by default the share with "
    "which evolution ends (config.evolution.final_guidance).",
    lower_bound=0.0,
    upper_bound=1.0,
)
_SEED = flags.DEFINE_integer("seed", 0, "Names the unseen tasks.", lower_bound=0)
REPORTING = flags.DEFINE_bool(
    "reporting",
    False,
    "Test on tasks that are kept for published numbers: use them once, when nothing is left to "
    "choose.",
)
_PHYSICS = flags.DEFINE_enum(
    "physics",
    None,
    ["exact", "coarse"],
    "For losses of EPG: physics of the test, whatever those of evolution; exact by default.",
)
OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace results in --output_dir; foreign files in it stay."
)
RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "Go on with the test in --output_dir, or begin it: methods that it has are kept, those that "
    "--compare names besides are added. Losses, fixed and meta-trained policies must be the "
    "same.",
)
_FIXED_POLICIES = flags.DEFINE_list(
    "fixed_policies",
    None,
    "For losses of EPG: folders of fixed policies to put into the same tasks, or own: those in the "
    "folder of the loss.",
)
SAVE_POLICY = flags.DEFINE_string(
    "save_policy", None, "Folder for the first agent as a TF-Agents policy."
)
_ENVIRONMENT = flags.DEFINE_string(
    "environment",
    None,
    "For objectives of MetaGenRL: FAMILY or FAMILY@EPISODE_LIMIT, "
    "e.g. gymnasium:Hopper-v5@250; as in meta-training by default.",
)
_ENV_STEPS = flags.DEFINE_integer(
    "env_steps",
    None,
    "For objectives of MetaGenRL: env steps of learning per agent; as in meta-training by default.",
    lower_bound=1,
    upper_bound=10**8,
)
_EPISODES = flags.DEFINE_integer(
    "episodes",
    None,
    "For objectives of MetaGenRL: episodes per agent and evaluation; 5 by default.",
    lower_bound=1,
    upper_bound=10**4,
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
            _PHYSICS,
            _ALPHA,
            _FIXED_POLICIES,
            kind="an objective of MetaGenRL",
        )
        return _of_objective(
            loss, load_objective(loss), [(name, load_objective(name)) for name in others]
        )
    _refuse(_ENVIRONMENT, _ENV_STEPS, _EPISODES, kind="a loss of EPG")
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
        return chosen(_COMPARE.value)
    except ConfigError as error:
        raise command_line.UsageError(f"--{error}") from error


def _of_loss(
    loss: str, learned: LearnedLoss, others: Sequence[tuple[str, LearnedLoss]]
) -> Evaluation:
    """Returns the test of losses of EPG that the flags describe."""
    physics: Physics = "coarse" if _PHYSICS.value == "coarse" else "exact"
    config_flag.refuse("task.physics", reason="--physics says in which physics a test is")
    experiment = config_flag.with_test_settings(learned.experiment, physics)
    try:
        make_family(experiment.task)
    except ConfigError as error:
        raise command_line.UsageError(f"--physics={physics}: {error}") from error
    request = loss_request(experiment, _SEED.value, _LIVES.value or 64, UPDATES.value, physics)
    methods = _methods(lambda words: of_loss(experiment, words, request.env_steps))
    print(config_flag.note_on_centring(experiment, methods), end="")
    return Evaluation(
        dataclasses.replace(learned, experiment=experiment),
        loss_name(loss, learned.facts),
        dataclasses.replace(request, phase="reporting") if REPORTING.value else request,
        methods,
        config_flag.replaced(learned.experiment, experiment),
        fixed=_fixed_policies(learned),
        alpha=_ALPHA.value,
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
    folders = LOSS_METHODS.folders(_COMPARE.value)
    try:
        return load_all(folders, experiment)
    except ConfigError as error:
        raise command_line.UsageError(f"--{error}") from error


def _fixed_policies(learned: LearnedLoss) -> tuple[LearnedLoss, ...]:
    """Returns the fixed policies that --fixed_policies names."""
    found: list[LearnedLoss] = []
    for word in _FIXED_POLICIES.value or ():
        policies = fixed_policies.beside(learned) if word == "own" else None
        if policies == []:
            raise command_line.UsageError(
                f"--fixed_policies=own: the folder of --loss={LOSS.value} holds no "
                f"{' and no '.join(fixed_policies.NAMES)}; name folders of fixed policies"
            )
        found += [fixed_policies.load_fixed_policy(word)] if policies is None else policies
    fixed_policies.methods(learned, found)
    return tuple(found)


def _of_objective(
    loss: str, learned: LearnedObjective, others: Sequence[tuple[str, LearnedObjective]]
) -> Evaluation:
    """Returns the test of objectives of MetaGenRL that the flags describe."""
    experiment = config_flag.with_baseline(learned.experiment)
    request = request_of(
        experiment,
        _ENVIRONMENT.value,
        _SEED.value,
        _LIVES.value or 8,
        _ENV_STEPS.value,
        _EPISODES.value or 5,
    )
    return Evaluation(
        dataclasses.replace(learned, experiment=experiment),
        loss_name(loss, learned.facts),
        dataclasses.replace(request, phase="objective_reporting") if REPORTING.value else request,
        _methods(OBJECTIVE_METHODS.chosen),
        config_flag.replaced(learned.experiment, experiment),
        compare_updates=COMPARE_UPDATES.value,
        others=tuple((loss_name(name, other.facts), other) for name, other in others),
    )
