"""Meta-learns an objective with MetaGenRL, in one process or in several.

    epg-tf meta-train-metagenrl --config=metagenrl_laptop \\
        --run_dir=runs/objective

The same on two ranks; all hosts must see the same --run_dir, as every rank saves its agents there:

    horovodrun -np 2 -H localhost:2 epg-tf meta-train-metagenrl \\
        --config=metagenrl_laptop --run_dir=runs/objective
"""

from __future__ import annotations

from . import command_line, config_flag, run_flags  # first: it silences the frameworks

from absl import flags

from epg_tf.artifacts.learned_loss import loss_folder
from epg_tf.core.communication import Communicator
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.metagenrl.state import initial_state
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.metagenrl import MetaGenRLSystem, cost_lines
from epg_tf.runs.session import Session

flags.adopt_module_key_flags(config_flag)
flags.adopt_module_key_flags(run_flags)


def main(argv: list[str]) -> int:
    """Runs meta-training to its end, or to Ctrl-C or SIGTERM; returns the exit code."""
    del argv
    experiment = config_flag.metagenrl_experiment(
        lambda found: cost_lines(found, initial_state(found, run_flags.seed()), 1)[1:]
    )
    target = run_flags.target("runs/objective")
    communicator = run_flags.join()
    return run_flags.guard(lambda: _meta_learn(experiment, target, communicator))


def _meta_learn(
    experiment: MetaGenRLExperiment, target: RunTarget, communicator: Communicator
) -> int:
    system = MetaGenRLSystem(experiment, run_flags.seed(), communicator)
    session = Session(system, target, run_flags.write)
    code = run_flags.run_to_the_end(
        session, communicator, "stopping after the update that agents are in"
    )
    if not code and communicator.rank == 0:
        run_flags.print_next(loss_folder(target.path).name, *experiment.environments)
    return code


if __name__ == "__main__":
    command_line.run(main)
