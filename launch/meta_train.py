"""Meta-trains what the config names: EPG's losses, MetaGenRL's objectives, MAML or RL².

    epg-tf meta-train --config=point_goal --run_dir=runs/first

On two ranks, EPG (Algorithm 1) and MetaGenRL alone; for MetaGenRL all hosts must see the same
--run_dir, as every rank saves its agents there:

    horovodrun -np 2 -H localhost:2 epg-tf meta-train \\
        --config=point_goal --run_dir=runs/first

A config that names nothing but a family leaves the settings to this command: a tenth of --minutes
chooses them, the rest evolves a loss and says what it is worth:

    epg-tf meta-train --config=gymnasium_env:Pendulum-v1 --minutes=30 --run_dir=runs/pendulum

MAML and RL² are baselines, see `epg-tf meta-test --compare`; E-RL² is
--config.trial.exploratory_episodes=1.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import arguments, command_line, config_flag, run_flags  # first: it silences the frameworks

from absl import flags

_BEGIN_WITH = flags.DEFINE_string(
    "begin_with",
    None,
    "Loss that a new run of EPG begins with: a pretrained loss or a run's folder, of the same "
    "inputs and sizes; or a fixed linear policy, around which a loss begins. By default a fresh "
    "loss.",
)
_BEGIN_SCALE = flags.DEFINE_float(
    "begin_scale",
    None,
    "What the mean actions of the fixed linear policy of --begin_with are multiplied by.",
    lower_bound=1e-6,
    upper_bound=1e6,
)
_MINUTES = flags.DEFINE_float(
    "minutes",
    None,
    "Chooses the settings of EPG that have their defaults in --config and are not on this command "
    "line, evolves a loss with them and says what it is worth, in about so many minutes; 30 where "
    "--config names nothing but a family. --resume needs the whole command again.",
    lower_bound=0.1,
    upper_bound=1e5,
)
flags.adopt_module_key_flags(config_flag)
flags.adopt_module_key_flags(run_flags)

command_line.parse_flags(__name__)

from epg_tf.core.communication import Communicator, launched_rank
from epg_tf.runs.config_files import RUN_SETTINGS, SYSTEMS, AnyExperiment
from epg_tf.epg.process_start import StartedProcess, start_ahead
from epg_tf.epg.settings import Experiment
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.baselines.rl2_settings import RL2Experiment

if TYPE_CHECKING:  # they import TensorFlow
    from epg_tf.runs.folder import RunTarget
    from epg_tf.runs.system import System


def main(argv: list[str]) -> int:
    """Meta-trains to the end, or to Ctrl-C or SIGTERM; returns the exit code."""
    del argv
    experiment = config_flag.experiment_of(tuple(SYSTEMS.values()), cost=_cost)
    command_line.required(run_flags.RUN_DIR, "runs/first")
    if _chooses_settings(experiment):
        target = run_flags.target()
        communicator = run_flags.require_single_process("the choice of settings")
        return run_flags.guard(lambda: _choose_and_evolve(experiment, target, communicator))
    if isinstance(experiment, Experiment) and _is_of_paper(experiment):
        run_flags.write(
            "settings that are not on this command line are the paper's; --minutes=30 chooses them"
        )
    with contextlib.ExitStack() as resources:
        started: list[StartedProcess] = []
        if isinstance(experiment, Experiment) and launched_rank() is None:
            started = resources.enter_context(start_ahead(experiment))  # TensorFlow comes later
        target = run_flags.target()
        if isinstance(experiment, MAMLExperiment | RL2Experiment):
            communicator = run_flags.require_single_process("meta-training by MAML and RL²")
        else:
            communicator = run_flags.join()
        return run_flags.guard(lambda: _meta_train(experiment, target, communicator, started))


def _chooses_settings(experiment: AnyExperiment) -> bool:
    """Returns whether settings are to be chosen.

    Raises:
      UsageError: --minutes is given, and the experiment is not of EPG.
    """
    if not isinstance(experiment, Experiment):
        if _MINUTES.value is not None:
            raise command_line.UsageError(
                f"--minutes={_MINUTES.value:g} chooses settings of EPG, which this is not; leave "
                "it out"
            )
        return False
    from epg_tf.epg.candidates import names_family_alone

    run = Path(flags.FLAGS["run_dir"].value or "") / RUN_SETTINGS
    if _MINUTES.value is None and (run.is_file() or not names_family_alone(experiment, _named())):
        return False
    for flag in (_BEGIN_WITH, _BEGIN_SCALE):
        if flag.value is not None:
            raise command_line.UsageError(
                f"--{flag.name}={flag.value} is what a run begins with, and here that is chosen; "
                "leave it out, or set config.loss.start"
            )
    return True


def _is_of_paper(experiment: Experiment) -> bool:
    """Returns whether a new run has settings that neither --config nor the command line names."""
    from epg_tf.epg.candidates import fixed_settings

    run = Path(flags.FLAGS["run_dir"].value or "") / RUN_SETTINGS
    if run.is_file() or launched_rank():
        return False
    fixed = fixed_settings(experiment, ())
    of_config = {f"{group}.{field}" for group in fixed for field in fixed[group]} - {*_named()}
    return bool(_named()) and all(each.startswith(("task.", "compute.")) for each in of_config)


def _named() -> list[str]:
    """Returns the settings "GROUP.FIELD" that the command line sets."""
    return arguments.overrides(sys.argv[1:])


def _choose_and_evolve(
    experiment: Experiment, target: RunTarget, communicator: Communicator
) -> int:
    """Chooses settings and evolves with them; returns the exit code."""
    from epg_tf.core.errors import Interrupted
    from epg_tf.runs.automatic import AutomaticEvolution, Budget
    from epg_tf.runs.own_families import write_settings

    budget = Budget(experiment, _named(), run_flags.seed(), _MINUTES.value or 30.0)
    work = AutomaticEvolution(budget, target, run_flags.write)
    received = command_line.stop_on_signals(
        "stopping as soon as the work at hand allows", communicator, work.stop
    )
    try:
        best = work.run()
    except Interrupted:
        run_flags.write(f"to go on, run the same command {run_flags.again()}")
        return 128 + received[0]
    file = config_flag.file_of(experiment)
    settings = best if file is None else write_settings(file, best)
    policy = work.policy_of(best)
    begin_with = "" if policy is None else f" {shlex.quote(f'--begin_with={policy}')}"
    run_flags.write(
        f"results are in {target.path}: the loss in best/, its test in test/; to repeat its run: "
        f"{command_line.program('meta_train')} {shlex.quote(f'--config={settings}')} "
        f"--seed={budget.seed} --run_dir=FOLDER{begin_with}"
    )
    own = "" if file is None else f" {shlex.quote(f'--config={file}')}"
    run_flags.write(command_line.page_line(best) + own)
    return 0


# Modules of a system are imported where it runs: each brings libraries that others do without.


def _system_of(experiment: AnyExperiment) -> type[System[Any]]:
    """Returns the class whose runs have such settings."""
    match experiment:
        case Experiment():
            from epg_tf.runs.evolution import EvolutionSystem

            return EvolutionSystem
        case MetaGenRLExperiment():
            from epg_tf.runs.metagenrl import MetaGenRLSystem

            return MetaGenRLSystem
        case MAMLExperiment():
            from epg_tf.runs.maml import MAMLSystem

            return MAMLSystem
        case RL2Experiment():
            from epg_tf.runs.rl2 import RL2System

            return RL2System


def _cost(experiment: AnyExperiment) -> list[str]:
    """Returns lines on what a whole run costs."""
    if not (isinstance(experiment, Experiment) and _chooses_settings(experiment)):
        return _system_of(experiment).costs(experiment)
    from epg_tf.epg.candidates import fixed_settings

    fixed = fixed_settings(experiment, _named())
    kept = [f"config.{group}.{field}" for group in fixed for field in fixed[group]]
    return [f"of these {', '.join(kept)} stay; this command chooses the others"]


def _system(
    experiment: AnyExperiment,
    communicator: Communicator,
    started: list[StartedProcess],
    resources: contextlib.ExitStack,
) -> System[Any]:
    """Returns the system of an experiment; `resources` closes what it uses.

    Raises:
      UsageError: A flag has no effect on it.
    """
    if isinstance(experiment, Experiment):
        return _evolution(experiment, communicator, started, resources)
    for flag in (_BEGIN_WITH, _BEGIN_SCALE):
        if flag.value is not None:
            raise command_line.UsageError(
                f"--{flag.name}={flag.value} is for runs of EPG, which this is not; leave it out"
            )
    return _system_of(experiment)(experiment, run_flags.seed(), communicator)


def _evolution(
    experiment: Experiment,
    communicator: Communicator,
    started: list[StartedProcess],
    resources: contextlib.ExitStack,
) -> System[Any]:
    """Returns EPG with what --begin_with names."""
    from epg_tf.artifacts.artifact import load_loss
    from epg_tf.epg.shards import Shards, processes_fit
    from epg_tf.runs.beginning import scaled
    from epg_tf.runs.evolution import EvolutionSystem

    name, scale, earlier = _BEGIN_WITH.value, _BEGIN_SCALE.value, None
    if name is not None:
        earlier = load_loss(name)
        earlier = earlier if scale is None else scaled(earlier, scale)
    elif scale is not None:
        raise command_line.UsageError(
            f"--begin_scale={scale} scales the policy of --begin_with, which is not given; "
            "name one, or leave it out"
        )
    if not processes_fit(experiment):
        for process in started:
            process.end()
        started = []
    shards = Shards(experiment, processes=communicator.local_size, started=started)
    resources.enter_context(shards)
    return EvolutionSystem(experiment, run_flags.seed(), shards, communicator, earlier)


def _meta_train(
    experiment: AnyExperiment,
    target: RunTarget,
    communicator: Communicator,
    started: list[StartedProcess],
) -> int:
    from epg_tf.runs.session import Session

    with contextlib.ExitStack() as resources:
        system = _system(experiment, communicator, started, resources)
        session = Session(system, target, run_flags.write)
        code = run_flags.run_to_the_end(session, system, elastic=isinstance(experiment, Experiment))
    if not code and communicator.rank == 0:
        _print_next(experiment, target)
    return code


def _print_next(experiment: AnyExperiment, target: RunTarget) -> None:
    """Prints where the results are, and the command that evaluates them."""
    match experiment:
        case Experiment():
            learns = experiment.inner.updates > 0
            run_flags.print_next(experiment.task.family, learns=learns)
        case MetaGenRLExperiment():
            run_flags.print_next(*experiment.environments)
        case _:
            method = "maml" if isinstance(experiment, MAMLExperiment) else experiment.method
            own = config_flag.test_flags_for(experiment.task.family)
            run_flags.write(
                f"results are in {target.path}; next: {command_line.program('meta_test')} "
                f"{shlex.quote(f'--compare={method}:{target.path}')}{own} with a --loss for the "
                "same body"
            )


if __name__ == "__main__":
    command_line.run(main)
