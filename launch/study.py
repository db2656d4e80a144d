"""Studies what was learned: whether a loss adapts agents or holds a policy, what it is worth away
from where it evolved, and how good objectives were along meta-training.

    epg-tf study --measure=adaptation --loss=random_hopper --output_dir=runs/adaptation
    epg-tf study --measure=robustness --loss=random_hopper --output_dir=runs/robustness
    epg-tf study --measure=progress --loss=runs/objective --output_dir=runs/progress

adaptation: how agents do in each other's tasks, when they are taught from each other's experience,
and when their task switches. robustness: tasks at the ends of their range and outside it, policies
of other shapes, lives four times as long. progress: fresh agents with the objectives that a run of
MetaGenRL has kept, one panel each (MetaGenRL, Figures 4 and 10).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from .evaluation_flags import learning_flags, losses_exist

flags.adopt_module_key_flags(config_flag)
_MEASURE = flags.DEFINE_enum(
    "measure", None, ["adaptation", "robustness", "progress"], "What to measure."
)
flags.register_validator("measure", bool, "is missing; for example --measure=adaptation")
_LOSS = flags.DEFINE_string(
    "loss",
    None,
    "Folder of a run or of a learned loss, or the name of a pretrained loss; for progress, a run "
    "of MetaGenRL, finished or not.",
)
flags.register_validator("loss", lambda name: not name or losses_exist(name))
_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Folder for numbers and picture.")
_LIVES = flags.DEFINE_integer(
    "lives",
    None,
    "Agents per measure, one unseen task each: 64 for adaptation, 32 for robustness; 3 per "
    "objective for progress.",
    lower_bound=2,
    upper_bound=10**6,
)
_SEED = flags.DEFINE_integer("seed", 0, "Names the unseen tasks.", lower_bound=0)
_REPORTING = flags.DEFINE_bool(
    "reporting",
    False,
    "Measure on tasks that are kept for published numbers, those of epg-tf meta-test --reporting.",
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace results in --output_dir; foreign files in it stay."
)
_RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "For robustness: keep the changes that --output_dir has and measure those that are missing. "
    "Lives without a change are measured again, and must give the same returns.",
)
_UPDATES = flags.DEFINE_integer(
    "updates",
    None,
    "For adaptation: updates per life, as in evolution by default; tasks switch half-way.",
    lower_bound=2,
    upper_bound=10**7,
)
_LEARNING = learning_flags("For progress", "as in training")
_EVERY = flags.DEFINE_integer(
    "every", 1, "For progress: test every so many of the kept objectives.", lower_bound=1
)

command_line.parse_flags(__name__)

from epg_tf.artifacts.artifact import LearnedLoss, LearnedObjective, load_loss, load_objective
from epg_tf.baselines.method import Request, loss_name
from epg_tf.core import formatting
from epg_tf.core.errors import ConfigError
from epg_tf.epg.baseline_settings import BASELINES
from epg_tf.evaluation import fixed_policies
from epg_tf.studies.adaptation import MEASURES, AdaptationTest, summarize_adaptation
from epg_tf.evaluation.evaluate import Evaluation
from epg_tf.evaluation.requests import loss_request
from epg_tf.evaluation.results import Results
from epg_tf.studies.robustness import RobustnessTest, changes, summarize_robustness
from epg_tf.evaluation.summary import summarize
from epg_tf.reports import adaptation_report, evaluation_report, robustness_report
from epg_tf.runs.kept_objectives import kept_name, kept_objectives
from epg_tf.runs.progress import reminding
from epg_tf.runs.reader import read_run
from .evaluation_flags import (
    facts_of_lives,
    prepare_results,
    request_of,
    required_loss,
)


def main(argv: list[str]) -> int:
    """Measures, prints and writes; returns the exit code."""
    del argv
    measure = command_line.required(_MEASURE, "adaptation")
    return {"adaptation": _adaptation, "robustness": _robustness, "progress": _progress}[measure]()


def _adaptation() -> int:
    loss = required_loss(_LOSS, "runs/first")
    learned = load_loss(loss)
    config_flag.refuse("task.physics", reason="adaptation is measured in exact physics")
    alone = "agents learn from the loss alone; leave it out"
    config_flag.refuse("surrogate", *BASELINES, reason=alone)
    learned = dataclasses.replace(
        learned, experiment=config_flag.with_test_settings(learned.experiment)
    )
    request = _request(learned, 64)
    fixed = [
        policy
        for policy in fixed_policies.beside(learned)
        if fixed_policies.fits(policy, learned.experiment.task)
    ]
    try:
        test = AdaptationTest(learned, request, tuple(fixed))
    except ConfigError as error:
        raise command_line.UsageError(f"--loss={_LOSS.value}: {error}") from error
    output = command_line.required(_OUTPUT_DIR, "runs/first-adaptation")
    prepare_results(_OUTPUT_DIR, _OVERWRITE.value, adaptation_report.OWN)
    _, differing = test.pairs()
    print(
        f"{_opening(request)}; {len(MEASURES)} measures; {differing} of {request.agents} "
        "pairs have different tasks",
        flush=True,
    )
    found = {}
    with reminding() as reminder:
        for name, returns in test.run():
            found[name] = returns
            print(f"  {name}: done", flush=True)
            reminder.spoke()
    summary = summarize_adaptation(found, differing, test.updates // 2)
    about = facts_of_lives(loss, learned, request, fixed)
    title = f"{request.task.family}: what agents learn from"
    picture = adaptation_report.write_adaptation(output, summary, about, title)
    return _end(adaptation_report.table(summary), output, picture)


def _robustness() -> int:
    loss = required_loss(_LOSS, "runs/first")
    learned = load_loss(loss)
    config_flag.load_families()
    learned = dataclasses.replace(learned, experiment=learned.experiment.in_physics("exact"))
    request, fixed = _request(learned, 32), tuple(fixed_policies.beside(learned))
    try:
        test = RobustnessTest(learned, request, fixed)
    except ConfigError as error:
        raise command_line.UsageError(f"--loss={_LOSS.value}: {error}") from error
    output = command_line.required(_OUTPUT_DIR, "runs/first-robustness")
    prepare_results(_OUTPUT_DIR, _OVERWRITE.value, robustness_report.OWN, _RESUME.value)
    about, wanted = facts_of_lives(loss, learned, request, fixed), changes(learned.experiment)
    known = robustness_report.read_known(output, wanted, about) if _RESUME.value else {}
    there = f", {len(known)} of which are there" if known else ""
    print(f"{_opening(request)}, under {len(wanted)} conditions{there}", flush=True)
    title = f"{request.task.family}: away from what evolution had"
    found = []
    with reminding() as reminder:
        for change, returns in test.run(known):
            found.append((change, returns))
            measured = summarize_robustness(found)
            summary = robustness_report.join_changes(output, known, measured, wanted)
            picture = robustness_report.write_robustness(output, summary, about, title)
            print(f"  {change.label}: done", flush=True)
            reminder.spoke()
    return _end(robustness_report.table(summary), output, picture)


def _request(learned: LearnedLoss, lives: int) -> Request:
    """Returns which agents live; `lives` of them unless a flag says otherwise."""
    request = loss_request(learned.experiment, _SEED.value, _LIVES.value or lives, _UPDATES.value)
    return dataclasses.replace(request, phase="reporting") if _REPORTING.value else request


def _opening(request: Request) -> str:
    return (
        f"{request.agents} fresh agents on unseen {request.task.family} tasks, "
        f"{formatting.count(request.env_steps)} env steps of learning each"
    )


def _end(table: str, output: str, picture: Any) -> int:
    print(f"\n{table}\nresults are in {output}; the picture:\n{picture}")
    return 0


def _progress() -> int:
    config_flag.load_families()
    run, output = (
        command_line.required(_LOSS, "runs/objective"),
        command_line.required(_OUTPUT_DIR, "runs/progress"),
    )
    kept = kept_objectives(run)[:: _EVERY.value]
    if not kept:
        raise command_line.UsageError(
            f"--loss={run}: it holds no objectives/round_*; name a run of MetaGenRL"
        )
    learned = {number: load_objective(folder) for number, folder in kept}
    last = learned[kept[-1][0]]
    request = request_of(last.experiment, _LEARNING, _SEED.value, _LIVES.value or 3)
    prepare_results(_OUTPUT_DIR, _OVERWRITE.value, evaluation_report.OWN)
    print(f"{len(kept)} objectives; {_opening(request)}", flush=True)
    results, trained = _tested(learned, request)
    about = {
        "run": run,
        "run_finished": read_run(run).finished,
        "config": last.experiment.to_mapping(),
        "loss_facts": {"seed": last.facts["seed"]},
        "environment": request.task.family,
        "seed": request.seed,
        "env_steps": request.env_steps,
        "episodes": request.episodes,
    }
    picture = evaluation_report.write_grid(output, results, trained, about)
    print(f"results are in {output}; the grid:\n{picture}")
    print(command_line.page_line(output) + config_flag.config_flag_for(request.task.family))
    return 0


def _tested(
    learned: Mapping[int, LearnedObjective], request: Request
) -> tuple[Results, dict[str, str]]:
    """Tests objectives by the round in which they were kept, and prints each mean; returns the
    results and how long the training of each was, by its name.
    """
    tables, trained = [], {}
    for number, objective in learned.items():
        name = kept_name(number)
        loss = loss_name(name, objective.facts)
        evaluation = Evaluation(objective, loss, request, ("objective",))
        with reminding():
            table = Results.join(list(evaluation.run()))
        steps = number * objective.experiment.round_steps
        trained[name] = f"{formatting.count(steps)} env steps"
        tables.append(table)
        mean = summarize(table)["objective"].final_return_mean
        print(f"  after {trained[name]} per agent: mean final return {mean:.2f}", flush=True)
    return Results.join(tables), trained


if __name__ == "__main__":
    command_line.run(main)
