"""Trains fresh agents with a frozen loss on unseen tasks (Algorithm 2), beside rivals on the same
tasks.

    epg-tf meta-test --loss=runs/first/best --output_dir=runs/first-test

How many rewarded env steps is the loss worth? All rivals, with four times the env steps:

    epg-tf meta-test --loss=runs/first/best --compare=all --compare_updates=4 \\
        --output_dir=runs/first-against-all

Objectives of MetaGenRL can be tested in any environment with continuous actions:

    epg-tf meta-test --loss=runs/objective/final \\
        --environment=gymnasium:Hopper-v5 --output_dir=runs/test
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.artifacts import saved_policy
from epg_tf.artifacts.learned_loss import LearnedLoss, load_loss
from epg_tf.artifacts.learned_objective import LearnedObjective, is_objective, load_objective
from epg_tf.baselines.method import learned_name, loss_name
from epg_tf.core import formatting
from epg_tf.core.errors import ConfigError
from epg_tf.core.experiment import Experiment
from epg_tf.core.mix_settings import Physics
from epg_tf.epg.meta_parameters import moves_loss
from epg_tf.evaluation import comparisons, zero_shot
from epg_tf.evaluation.evaluate import LossEvaluation, loss_request
from epg_tf.evaluation.evaluate_objective import ObjectiveEvaluation
from epg_tf.evaluation.results import MethodKey, Results
from epg_tf.evaluation.summary import summarize
from epg_tf.evaluation.trained_agent import train_agent
from epg_tf.evaluation.trained_methods import TrainedMethod, load_all
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.reports import resumed_tests
from epg_tf.reports.evaluation_report import OWN, write_report
from epg_tf.reports.tables import label, meta_training_line, summary_table
from epg_tf.runs.provenance import continued
from epg_tf.tasks.registry import make_family
from .evaluation_flags import (
    prepare_nested,
    prepare_results,
    prepare_saved_model,
    request_of,
    required,
    required_losses,
)

_LOSS = flags.DEFINE_string(
    "loss",
    None,
    "Folder of a run or of a learned loss, or the name of a shipped loss; several, separated by "
    "commas: made with the same settings and different seeds, or, of EPG, with another "
    "config.evolution.moves (EPG, EPG+I, PPO+I).",
)
_OUTPUT_DIR = flags.DEFINE_string(
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
_UPDATES = flags.DEFINE_integer(
    "updates",
    None,
    "Updates per life; as in evolution by default.",
    lower_bound=1,
    upper_bound=10**7,
)
_COMPARE = flags.DEFINE_list(
    "compare",
    ["ppo"],
    "Which rivals learn on the same tasks: none, ppo, all, or names separated by commas. With "
    "alone, also beside others, agents that never learn and unevolved losses are left out. For "
    f"losses of EPG ppo means {' and '.join(comparisons.LOSSES.groups['ppo'])}; names are "
    f"{', '.join(comparisons.LOSSES.groups['all'])}, and NAME:FOLDER of what was meta-trained, "
    f"with the name {' or '.join(comparisons.LOSSES.trained)}. Of MetaGenRL names are "
    f"{', '.join(comparisons.OBJECTIVES.groups['all'])}.",
)
_COMPARE_UPDATES = flags.DEFINE_integer(
    "compare_updates",
    1,
    "Rivals learn for so many times the env steps of the others.",
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
_REPORTING = flags.DEFINE_bool(
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
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace results in --output_dir; foreign files in it stay."
)
_RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "Go on with the test in --output_dir, or begin it: methods that it has are kept, those that "
    "--compare names besides are added. Losses, fixed policies and meta-trained rivals must be the "
    "same.",
)
_ZERO_SHOT = flags.DEFINE_list(
    "zero_shot",
    None,
    "For losses of EPG: folders of fixed policies to put into the same tasks, or own: those in the "
    "folder of the loss.",
)
_SAVE_POLICY = flags.DEFINE_string(
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


def main(argv: list[str]) -> int:
    """Tests a loss and writes what was found; returns the exit code."""
    del argv
    loss, *others = required_losses(_LOSS, "runs/first")
    evaluation: LossEvaluation | ObjectiveEvaluation
    kinds = {name: is_objective(name) for name in (loss, *others)}
    if len({*kinds.values()}) > 1:
        raise command_line.UsageError(
            f"--loss={_LOSS.value} names objectives of MetaGenRL and losses of EPG; test them apart"
        )
    if kinds[loss]:
        _refuse(
            _UPDATES, _SAVE_POLICY, _PHYSICS, _ALPHA, _ZERO_SHOT, kind="an objective of MetaGenRL"
        )
        evaluation = _of_objective(
            loss, load_objective(loss), [(name, load_objective(name)) for name in others]
        )
    else:
        _refuse(_ENVIRONMENT, _ENV_STEPS, _EPISODES, kind="a loss of EPG")
        evaluation = _of_loss(loss, load_loss(loss), [(name, load_loss(name)) for name in others])
    output = required(_OUTPUT_DIR, "runs/first-test")
    request, about = evaluation.request, evaluation.about()
    found: dict[MethodKey, Results] = {}
    earlier = None
    if _RESUME.value:
        command_line.refuse_runs(_OUTPUT_DIR)  # before anything in it is removed
        found, earlier = resumed_tests.read_found(output, about, request)
    _prepare_folders(output)
    made_with = continued(earlier)  # by the code that runs the test
    print(
        f"{request.agents} fresh agents per method on unseen {request.task.family} tasks in "
        f"{request.task.physics} physics, {formatting.count(request.env_steps)} env steps of "
        f"learning each{_long_lives()}",
        flush=True,
    )
    results = _run(evaluation, found, output, {**about, **made_with})
    added = len(results) > sum(map(len, found.values()))
    about |= made_with if added or earlier is None else earlier
    title = f"{request.task.family}: fresh agents on unseen tasks"
    picture = write_report(output, results, about, title)
    resumed_tests.discard_unfinished(output)
    print(f"\n{_facts_of_loss(evaluation)}{summary_table(summarize(results))}")
    print(f"results are in {output}; the learning curves:\n{picture}")
    if isinstance(evaluation, LossEvaluation) and _SAVE_POLICY.value is not None:
        _save_policy(evaluation, _SAVE_POLICY.value)
    file = config_flag.word_of_own_file(request.task.family)
    print(command_line.page_line(output) + file)
    return 0


def _run(
    evaluation: LossEvaluation | ObjectiveEvaluation,
    found: Mapping[MethodKey, Results],
    output: str,
    about: Mapping[str, Any],
) -> Results:
    """Runs the methods that were not found yet; keeps in --output_dir what is there so far."""
    tables: dict[MethodKey, Results] = {}
    for table in evaluation.run(found):
        ((key, _),) = table.by_method().items()
        tables[key] = table
        known = key in found
        print(f"  {label(key[0])}: {'was there' if known else 'done'}", flush=True)
        if not known:
            resumed_tests.write_unfinished(
                output, Results.join([*{**tables, **found}.values()]), about
            )
    return Results.join([*{**tables, **found}.values()])


def _long_lives() -> str:
    """Returns how much longer rivals learn; empty where they do not."""
    times = _COMPARE_UPDATES.value
    return "" if times == 1 else f", {times} times as many by rivals"


def _facts_of_loss(evaluation: LossEvaluation | ObjectiveEvaluation) -> str:
    """Returns lines on whether a loss of EPG sees the reward, and on what meta-training took; empty
    for objectives.
    """
    if isinstance(evaluation, ObjectiveEvaluation):
        return ""
    kinds = {
        learned_name(learned.experiment): sees_reward(learned.experiment.loss)
        for learned in (evaluation.learned, *(other for _, other in evaluation.others))
        if moves_loss(learned.experiment)
    }
    lines = [
        f"the reward is {'an input' if sees else 'not an input'} of the {label(kind)}"
        for kind, sees in kinds.items()
    ]
    cost = meta_training_line(evaluation.about()["meta_training_env_steps"])
    return "".join(f"{line}\n" for line in [*lines, cost])


def _refuse(*given: flags.FlagHolder, kind: str) -> None:
    """Refuses flags that mean nothing for what is tested."""
    for flag in given:
        if flag.value is not None:
            raise command_line.UsageError(
                f"--{flag.name}: --loss={_LOSS.value} is {kind}, which it does not apply to; "
                "leave it out"
            )


def _methods(chosen: Callable[[Sequence[str]], tuple[str, ...]]) -> tuple[str, ...]:
    """Returns the methods that --compare asks for."""
    try:
        return chosen(_COMPARE.value)
    except ConfigError as error:
        raise command_line.UsageError(f"--{error}") from error


def _of_loss(
    loss: str, learned: LearnedLoss, others: Sequence[tuple[str, LearnedLoss]]
) -> LossEvaluation:
    """Returns the test of losses of EPG that the flags describe."""
    physics: Physics = "coarse" if _PHYSICS.value == "coarse" else "exact"
    config_flag.refuse("task.physics", reason="--physics says in which physics a test is")
    experiment = config_flag.elsewhere(learned.experiment, physics)
    try:
        make_family(experiment.task)
    except ConfigError as error:
        raise command_line.UsageError(f"--physics={physics}: {error}") from error
    request = loss_request(experiment, _SEED.value, _LIVES.value or 64, _UPDATES.value, physics)
    methods = _methods(lambda words: comparisons.of_loss(experiment, words))
    print(config_flag.note_on_centring(experiment, methods), end="")
    return LossEvaluation(
        dataclasses.replace(learned, experiment=experiment),
        loss_name(loss, learned.facts),
        dataclasses.replace(request, phase="reporting") if _REPORTING.value else request,
        methods,
        config_flag.replaced(learned.experiment, experiment),
        fixed=_fixed_policies(learned),
        alpha=_ALPHA.value,
        compare_updates=_COMPARE_UPDATES.value,
        others=tuple(
            (
                loss_name(name, other.facts),
                dataclasses.replace(
                    other, experiment=config_flag.elsewhere(other.experiment, physics)
                ),
            )
            for name, other in others
        ),
        trained=_trained(experiment),
    )


def _trained(experiment: Experiment) -> tuple[TrainedMethod, ...]:
    """Returns the methods of --compare that were meta-trained before."""
    folders = comparisons.LOSSES.folders(_COMPARE.value)
    try:
        return load_all(folders, experiment)
    except ConfigError as error:
        raise command_line.UsageError(f"--{error}") from error


def _fixed_policies(learned: LearnedLoss) -> tuple[LearnedLoss, ...]:
    """Returns the fixed policies that --zero_shot names."""
    found: list[LearnedLoss] = []
    for word in _ZERO_SHOT.value or ():
        policies = zero_shot.beside(learned) if word == "own" else None
        if policies == []:
            raise command_line.UsageError(
                f"--zero_shot=own: the folder of --loss={_LOSS.value} holds no "
                f"{' and no '.join(zero_shot.NAMES)}; name folders of fixed policies"
            )
        found += [zero_shot.load_fixed_policy(word)] if policies is None else policies
    zero_shot.methods(learned, found)
    return tuple(found)


def _of_objective(
    loss: str, learned: LearnedObjective, others: Sequence[tuple[str, LearnedObjective]]
) -> ObjectiveEvaluation:
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
    return ObjectiveEvaluation(
        dataclasses.replace(learned, experiment=experiment),
        loss_name(loss, learned.facts),
        dataclasses.replace(request, phase="objective_reporting") if _REPORTING.value else request,
        _methods(comparisons.OBJECTIVES.chosen),
        config_flag.replaced(learned.experiment, experiment),
        _COMPARE_UPDATES.value,
        tuple((loss_name(name, other.facts), other) for name, other in others),
    )


def _prepare_folders(output: str) -> None:
    """Prepares --output_dir and --save_policy."""

    def prepare_output() -> None:
        prepare_results(
            _OUTPUT_DIR, _OVERWRITE.value, (*OWN, *resumed_tests.UNFINISHED), _RESUME.value
        )

    def prepare_policy() -> None:
        prepare_saved_model(_SAVE_POLICY, _OVERWRITE.value, saved_policy.MARKERS)

    if _SAVE_POLICY.value is None:
        prepare_output()
        return
    if _REPORTING.value or "," in str(_LOSS.value):
        raise command_line.UsageError(
            f"--save_policy={_SAVE_POLICY.value} saves an agent of one loss in the usual tasks; "
            "leave out --reporting and further losses, or --save_policy"
        )
    if Path(_SAVE_POLICY.value).resolve() == Path(output).resolve():
        raise command_line.UsageError(
            f"--save_policy={_SAVE_POLICY.value} is --output_dir; name a folder of its own"
        )
    prepare_nested((output, _SAVE_POLICY.value), (prepare_output, prepare_policy))


def _save_policy(evaluation: LossEvaluation, folder: str) -> None:
    """Saves the first agent of a test as a TF-Agents policy."""
    agent = train_agent(
        evaluation.learned,
        evaluation.request.seed,
        updates=_UPDATES.value,
        physics=evaluation.request.task.physics,
        alpha=evaluation.alpha,
    )
    saved_policy.save_policy(agent.policy, folder, agent.facts)
    print(f"the policy of the first agent (return {agent.final_return:.2f}) is in {folder}")


if __name__ == "__main__":
    command_line.run(main)
