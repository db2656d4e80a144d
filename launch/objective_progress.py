"""Trains fresh agents with the objectives kept during meta-training, one panel each (MetaGenRL,
Figures 4 and 10).

python -m launch.objective_progress --run_dir=runs/objective --output_dir=runs/objective-progress
"""

from __future__ import annotations

from pathlib import Path

from launch import command_line  # first: it quietens the frameworks

from absl import flags  # isort: skip

from epg_tf.core import formatting
from epg_tf.artifacts.learned_objective import load_objective
from epg_tf.core import files
from epg_tf.reports import objective_plots
from launch import objective_report

_RUN_DIR = flags.DEFINE_string(
    "run_dir", None, "Run of launch.meta_train_metagenrl, finished or not."
)
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
    for flag, value in (("run_dir", _RUN_DIR.value), ("output_dir", _OUTPUT_DIR.value)):
        if not value:
            raise command_line.UsageError(
                f"--{flag} is missing; name a folder, e.g. --{flag}=runs/objective"
            )
    folders = sorted(Path(_RUN_DIR.value).glob("objectives/round_*"))[:: _EVERY.value]
    if not folders:
        raise command_line.UsageError(
            f"--run_dir={_RUN_DIR.value}: it holds no objectives/round_*; name a run of "
            f"launch.meta_train_metagenrl"
        )
    learned = [load_objective(folder) for folder in folders]
    plan = objective_report.plan_test(
        learned[0].experiment,
        _ENVIRONMENT.value,
        _SEED.value,
        _AGENTS.value,
        _ENV_STEPS.value,
        _EPISODES.value,
    )
    command_line.refuse_runs(_OUTPUT_DIR)
    files.prepare_folder(
        _OUTPUT_DIR.value, objective_report.OWN, overwrite=_OVERWRITE.value
    )
    print(
        f"{len(folders)} objectives, {plan.agents} fresh agents each in {plan.family.name}, "
        f"{formatting.count(plan.steps)} env steps of learning",
        flush=True,
    )
    curves, summary = {}, {}
    for folder, objective in zip(folders, learned, strict=True):
        trained = int(folder.name.removeprefix("round_")) * objective.experiment.round_steps
        tested = objective_report.test_methods(objective, plan, ["objective"], lambda method: None)
        curves[trained] = tested["objective"]
        summary[str(trained)] = row = objective_report.scores(tested)["objective"]
        print(
            f"  after {formatting.count(trained)} env steps per agent: mean final return "
            f"{row['final_return_mean']:.2f}",
            flush=True,
        )
    output = Path(_OUTPUT_DIR.value)
    objective_plots.curves_csv(curves, "trained_env_steps", output / "curves.csv")
    objective_plots.objective_grid(
        curves, output / "curves.png", f"Fresh agents in {plan.family.name}"
    )
    files.write_json(
        output / "summary.json",
        {
            "objectives": summary,
            "about": {
                "run": str(_RUN_DIR.value),
                "environment": plan.family.name,
                "seed": plan.seed,
                "env_steps": plan.steps,
                "episodes": plan.episodes,
            },
        },
    )
    print(f"results are in {output}; the grid:\n{output / 'curves.png'}")
    return 0


if __name__ == "__main__":
    command_line.run(main)
