"""Trains fresh agents with the objectives kept during meta-training, one panel each (MetaGenRL,
Figures 4 and 10).

    epg-tf objective-progress --run_dir=runs/objective \\
        --output_dir=runs/objective-progress
"""

from __future__ import annotations

from . import command_line, config_flag  # first: it silences the frameworks

from collections.abc import Mapping

from absl import flags

from epg_tf.artifacts.artifact import LearnedObjective, load_objective
from epg_tf.core import formatting
from epg_tf.baselines.method import Request, loss_name
from epg_tf.evaluation.evaluate_objective import ObjectiveEvaluation
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.summary import summarize
from epg_tf.reports.evaluation_report import OWN, write_grid
from epg_tf.runs.kept_objectives import kept_name, kept_objectives
from epg_tf.runs.reader import read_run
from .evaluation_flags import prepare_results, request_of, required

flags.adopt_module_key_flags(config_flag)
_RUN_DIR = flags.DEFINE_string("run_dir", None, "Run of epg-tf meta-train, finished or not.")
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for curves.csv, curves.png and summary.json."
)
_ENVIRONMENT = flags.DEFINE_string(
    "environment", None, "FAMILY or FAMILY@EPISODE_LIMIT; as in training by default."
)
_AGENTS = flags.DEFINE_integer(
    "agents", 3, "Fresh agents per objective.", lower_bound=1, upper_bound=10**4
)
_ENV_STEPS = flags.DEFINE_integer(
    "env_steps",
    None,
    "Env steps of learning per agent; as in training by default.",
    lower_bound=1,
    upper_bound=10**8,
)
_EPISODES = flags.DEFINE_integer(
    "episodes", 5, "Episodes per agent and evaluation.", lower_bound=1, upper_bound=10**4
)
_EVERY = flags.DEFINE_integer(
    "every", 1, "Test every so many of the kept objectives.", lower_bound=1
)
_SEED = flags.DEFINE_integer("seed", 0, "Names the agents' streams.", lower_bound=0)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace results in --output_dir; foreign files in it stay."
)


def main(argv: list[str]) -> int:
    """Tests every kept objective and draws the grid; returns the exit code."""
    del argv
    config_flag.load_families()
    run, output = required(_RUN_DIR, "runs/objective"), required(_OUTPUT_DIR, "runs/progress")
    kept = kept_objectives(run)[:: _EVERY.value]
    if not kept:
        raise command_line.UsageError(
            f"--run_dir={run}: it holds no objectives/round_*; name a run of "
            f"{command_line.program('meta_train')}"
        )
    learned = {number: load_objective(folder) for number, folder in kept}
    request = request_of(
        learned[kept[0][0]].experiment,
        _ENVIRONMENT.value,
        _SEED.value,
        _AGENTS.value,
        _ENV_STEPS.value,
        _EPISODES.value,
    )
    prepare_results(_OUTPUT_DIR, _OVERWRITE.value, OWN)
    print(
        f"{len(kept)} objectives, {request.agents} fresh agents each in {request.task.family}, "
        f"{formatting.count(request.env_steps)} env steps of learning",
        flush=True,
    )
    results, trained = _tested(learned, request)
    last = learned[kept[-1][0]]
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
    picture = write_grid(output, results, trained, about)
    print(f"results are in {output}; the grid:\n{picture}")
    file = config_flag.word_of_own_file(request.task.family)
    print(command_line.page_line(output) + file)
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
        table = Results.join(
            list(ObjectiveEvaluation(objective, loss, request, ("objective",)).run())
        )
        steps = number * objective.experiment.round_steps
        trained[name] = f"{formatting.count(steps)} env steps"
        tables.append(table)
        mean = summarize(table)["objective"].final_return_mean
        print(f"  after {trained[name]} per agent: mean final return {mean:.2f}", flush=True)
    return Results.join(tables), trained


if __name__ == "__main__":
    command_line.run(main)
