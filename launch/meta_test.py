"""Trains fresh agents with a frozen loss on unseen tasks (Algorithm 2), beside baselines on the
same tasks.

    epg-tf meta-test --loss=runs/first/best --output_dir=runs/first-test

How many rewarded env steps is the loss worth? All baselines, with four times the env steps:

    epg-tf meta-test --loss=runs/first/best --compare=all --compare_updates=4 \\
        --output_dir=runs/first-against-all

Objectives of MetaGenRL can be tested in any environment with continuous actions:

    epg-tf meta-test --loss=runs/objective/final \\
        --environment=gymnasium:Hopper-v5 --output_dir=runs/test
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import command_line, config_flag, meta_test_flags  # first: it silences the frameworks

from absl import flags

flags.adopt_module_key_flags(meta_test_flags)

command_line.parse_flags(__name__)

from epg_tf.artifacts import saved_models, saved_policy
from epg_tf.baselines.kept_shards import ShardFiles, discard_shards, digest_of_test
from epg_tf.baselines.method import learned_name
from epg_tf.core import formatting
from epg_tf.epg.meta_parameters import evolves_loss
from epg_tf.evaluation.evaluate import Evaluation
from epg_tf.evaluation.methods import IN_SHARDS
from epg_tf.evaluation.results import MethodKey, Results
from epg_tf.evaluation.summary import summarize
from epg_tf.evaluation.trained_agent import train_agent
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.reports import resumed_tests
from epg_tf.reports.evaluation_report import OWN, write_report
from epg_tf.reports.tables import label, meta_training_line, summary_table
from epg_tf.runs.progress import reminding
from epg_tf.runs.provenance import continued
from . import described_test
from .evaluation_flags import (
    lock_results,
    prepare_results,
    refuse_runs,
)
from .meta_test_flags import (
    COMPARE_UPDATES,
    LOSS,
    OUTPUT_DIR,
    OVERWRITE,
    REPORTING,
    RESUME,
    SAVE_POLICY,
    UPDATES,
)


def main(argv: list[str]) -> int:
    """Tests a loss and writes what was found; returns the exit code."""
    del argv
    evaluation = described_test.evaluation()
    output = command_line.required(OUTPUT_DIR, "runs/first-test")
    request, about = evaluation.request, evaluation.about()
    test = digest_of_test(about, request.agents)
    found: dict[MethodKey, Results] = {}
    earlier = None
    if RESUME.value:
        refuse_runs(OUTPUT_DIR)  # before anything in it is removed
        lock_results(OUTPUT_DIR)
        found, earlier = resumed_tests.read_found(output, about, request)
    _prepare_folders(output)
    words = [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    command = shlex.join([*shlex.split(command_line.program("meta_test")), *words])
    made_with = {"command": command, **continued(earlier)}  # by the code that runs the test
    print(
        f"{request.agents} fresh agents per method on unseen {request.task.family} tasks in "
        f"{request.task.physics} physics, {formatting.count(request.env_steps)} env steps of "
        f"learning each{_long_lives()}",
        flush=True,
    )
    results = _run(evaluation, found, output, {**about, **made_with}, test)
    added = len(results) > sum(map(len, found.values()))
    about |= made_with if added or earlier is None else earlier
    title = f"{request.task.family}: fresh agents on unseen tasks"
    picture = write_report(output, results, about, title)
    discard_shards(output, {*results.method}, test)
    resumed_tests.discard_unfinished(output)
    print(f"\n{_facts_of_loss(evaluation)}{summary_table(summarize(results))}")
    print(f"results are in {output}; the learning curves:\n{picture}")
    if SAVE_POLICY.value is not None:
        _save_policy(evaluation, SAVE_POLICY.value)
    file = config_flag.config_flag_for(request.task.family)
    print(command_line.page_line(output) + file)
    return 0


def _run(
    evaluation: Evaluation,
    found: Mapping[MethodKey, Results],
    output: str,
    about: Mapping[str, Any],
    test: str,
) -> Results:
    """Runs the methods that were not found yet; keeps in --output_dir what is there so far."""
    tables: dict[MethodKey, Results] = {}

    def keep() -> None:
        resumed_tests.write_unfinished(output, Results.join([*{**tables, **found}.values()]), about)

    shards = {name: ShardFiles(Path(output), name, test, keep) for name in IN_SHARDS}
    with reminding() as reminder:
        for table in evaluation.run(found, shards):
            ((key, _),) = table.by_method().items()
            tables[key] = table
            known = key in found
            print(f"  {label(key[0])}: {'was there' if known else 'done'}", flush=True)
            reminder.spoke()
            if not known:
                keep()
    return Results.join([*{**tables, **found}.values()])


def _long_lives() -> str:
    """Returns how much longer baselines learn; empty where they do not."""
    times = COMPARE_UPDATES.value
    return "" if times == 1 else f", {times} times as many by rivals"


def _facts_of_loss(evaluation: Evaluation) -> str:
    """Returns lines on whether a loss of EPG sees the reward, and on what meta-training took; empty
    for objectives.
    """
    if evaluation.of_objective:
        return ""
    kinds = {
        learned_name(learned.experiment): sees_reward(learned.experiment.loss)
        for _, learned in evaluation.losses
        if evolves_loss(learned.experiment)
    }
    lines = [
        f"the reward is {'an input' if sees else 'not an input'} of the {label(kind)}"
        for kind, sees in kinds.items()
    ]
    cost = meta_training_line(evaluation.about()["meta_training_env_steps"])
    return "".join(f"{line}\n" for line in [*lines, cost])


def _prepare_folders(output: str) -> None:
    """Prepares --output_dir and --save_policy."""

    own = (*resumed_tests.UNFINISHED, *OWN)
    if SAVE_POLICY.value is None:
        prepare_results(OUTPUT_DIR, OVERWRITE.value, own, RESUME.value)
        return
    if REPORTING.value or "," in str(LOSS.value):
        raise command_line.UsageError(
            f"--save_policy={SAVE_POLICY.value} saves an agent of one loss in the usual tasks; "
            "leave out --reporting and further losses, or --save_policy"
        )
    policy = Path(SAVE_POLICY.value).resolve()
    if policy == Path(output).resolve():
        raise command_line.UsageError(
            f"--save_policy={SAVE_POLICY.value} is --output_dir; name a folder of its own"
        )
    # The outer one first, or the inner one would be found in it.
    output_first = Path(output).resolve() in policy.parents
    if output_first:
        prepare_results(OUTPUT_DIR, OVERWRITE.value, own, RESUME.value)
    saved_models.prepare_target(SAVE_POLICY.value, OVERWRITE.value, saved_policy.MARKERS)
    if not output_first:
        prepare_results(OUTPUT_DIR, OVERWRITE.value, own, RESUME.value)


def _save_policy(evaluation: Evaluation, folder: str) -> None:
    """Saves the first agent of a test as a TF-Agents policy."""
    agent = train_agent(
        evaluation.learned,
        evaluation.request.seed,
        updates=UPDATES.value,
        physics=evaluation.request.task.physics,
        alpha=evaluation.alpha,
        lives=evaluation.request.agents,
    )
    saved_policy.save_policy(agent.policy, folder, agent.facts)
    print(f"the policy of the first agent (return {agent.final_return:.2f}) is in {folder}")


if __name__ == "__main__":
    command_line.run(main)
