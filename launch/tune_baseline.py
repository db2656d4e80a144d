"""Tunes what a loss of EPG is compared with, on tasks that neither evolution nor testing meets.

    epg-tf tune-baseline --config=point_goal --rival=sac --budget=12 --json=sac.json

Random search with successive halving: --budget settings (the config's own first) with --lives
agents each, then the better third with three times as many agents, and so on. Prints the settings
to write into the config, and which of them lie at an end of what was tried. --json keeps every
trial as it ends, and --resume goes on from there.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path

from . import arguments, command_line, config_flag  # first: command_line silences the frameworks

from absl import flags

from epg_tf.core import formatting
from epg_tf.epg.evolution_settings import EvolutionConfig
from epg_tf.losses.settings import LossConfig
from epg_tf.epg.baseline_settings import RIVALS
from epg_tf.evaluation.tuning import SPACES, Search, Trial, at_edge, most_budget, rungs, winner
from epg_tf.reports import search_file
from epg_tf.reports.tables import label

flags.adopt_module_key_flags(config_flag)
_RIVAL = flags.DEFINE_enum("rival", "ppo", list(SPACES), "What to tune.")
_BUDGET = flags.DEFINE_integer(
    "budget",
    12,
    "Settings to try; the first is the config's own.",
    lower_bound=2,
    upper_bound=10**4,
)
_LIVES = flags.DEFINE_integer(
    "lives", 8, "Agents per setting at first.", lower_bound=2, upper_bound=10**6
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)
_JSON = flags.DEFINE_string(
    "json", None, "File for all trials and the winner, written after each trial."
)
_RESUME = flags.DEFINE_bool("resume", False, "Go on with the search in --json, if it is there.")


def main(argv: list[str]) -> int:
    """Searches, and names the best settings; returns the exit code."""
    del argv
    rival = _RIVAL.value
    group, space = SPACES[rival]
    if _BUDGET.value > most_budget(space):
        raise command_line.UsageError(
            f"--budget={_BUDGET.value}: --rival={rival} has too few settings to draw from; "
            f"take at most {most_budget(space)}"
        )
    config_flag.refuse(*_unused(), reason="there is no evolution in this command; leave it out")
    unused = (f"loss.{field.name}" for field in dataclasses.fields(LossConfig))
    learned = (name for name in unused if name != "loss.buffer_steps")  # it must hold M steps
    config_flag.refuse(*learned, reason="no learned loss takes part; leave it out")
    others = {*RIVALS} - {group}
    if group != "surrogate":
        others |= {f"surrogate.{name}" for name in SPACES["ppo_as_epg"][1]}
    config_flag.refuse(*others, reason=f"it is not of --rival={rival}; leave it out")
    config_flag.refuse("task.physics", reason="rivals are tuned in exact physics; leave it out")
    search = Search(
        rival, config_flag.experiment(physics="exact"), _SEED.value, _BUDGET.value, _LIVES.value
    )
    earlier = _earlier(search)
    plan = rungs(search.budget, search.agents)
    print(
        f"{label(rival)} on {search.experiment.task.family}, "
        f"{formatting.count(search.experiment.life_steps)} env steps of learning each: "
        + ", then ".join(f"{count} settings x {agents} agents" for count, agents in plan)
        + "; mean final return and 95 % interval",
        flush=True,
    )
    command = shlex.join(["python", "-m", "launch.tune_baseline", *sys.argv[1:]])
    trials: list[Trial] = []
    for trial in search.run(earlier=earlier):
        trials.append(trial)
        print(f"  {_line(trial)}", flush=True)
        if _JSON.value is not None and len(trials) > len(earlier):
            search_file.write_search(_JSON.value, search, trials, command)
    best = winner(trials)
    if best.failed == best.agents:
        raise command_line.UsageError(
            f"--rival={rival}: every agent of the best settings failed; raise --budget"
        )
    edges = at_edge(space, best.settings)
    if _JSON.value is not None:
        print(f"all trials are in {_JSON.value}")
    print(f"best: setting {best.number}, mean {best.mean:.2f}; write into your config:")
    for name, value in best.settings.items():
        edge = f"   ({edges[name]} of those tried)" if name in edges else ""
        print(f"  {group}.{name} = {value:g}{edge}")
    return 0


def _unused() -> list[str]:
    """Returns the settings of evolution that may not be given.

    Lives of evolution may be no longer than `config.inner.updates`; who lowers that must be able to
    lower these lives, too.
    """
    shorter = "inner.updates" in arguments.overrides(sys.argv[1:])
    lengths = ("shortest_life", "longest_life") if shorter else ()
    names = (field.name for field in dataclasses.fields(EvolutionConfig))
    return [f"evolution.{name}" for name in names if name not in lengths]


def _line(trial: Trial) -> str:
    settings = " ".join(f"{name}={value:g}" for name, value in trial.settings.items())
    return (
        f"{trial.number:3d}  {trial.mean:9.2f}  [{trial.ci95[0]:.2f}, {trial.ci95[1]:.2f}]  "
        f"agents {trial.agents}  failed {trial.failed}  {settings}"
    )


def _earlier(search: Search) -> list[Trial]:
    """Returns the trials of the search that --json holds.

    Raises:
      UsageError: The file is there without --resume, or --resume without --json.
    """
    if _JSON.value is None:
        if _RESUME.value:
            raise command_line.UsageError("--resume=True goes on with a file; name it with --json")
        return []
    command_line.check_json(_JSON)
    if not Path(_JSON.value).exists():
        return []
    if not _RESUME.value:
        raise command_line.UsageError(
            f"--json={_JSON.value} is there; pass --resume to go on with its search, or name "
            "another file"
        )
    return search_file.read_trials(_JSON.value, search)


if __name__ == "__main__":
    command_line.run(main)
