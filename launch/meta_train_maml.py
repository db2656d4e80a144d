"""Meta-trains an initialisation by MAML, a rival of evolved losses, in one process.

    epg-tf meta-train-maml --config=maml_half_cheetah --run_dir=runs/maml

    epg-tf meta-test --loss=runs/first --compare=ppo,maml:runs/maml,maml10:runs/maml \\
        --output_dir=runs/first-test
"""

from __future__ import annotations

import shlex

from . import command_line, config_flag, run_flags  # first: it silences the frameworks

from absl import flags

from epg_tf.core.communication import Communicator
from epg_tf.core.maml_experiment import MAMLExperiment
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.maml import MAMLSystem, cost_lines
from epg_tf.runs.session import Session

flags.adopt_module_key_flags(config_flag)
flags.adopt_module_key_flags(run_flags)


def main(argv: list[str]) -> int:
    """Runs meta-training to its end, or to Ctrl-C or SIGTERM; returns the exit code."""
    del argv
    experiment = config_flag.maml_experiment(lambda found: cost_lines(found, 0)[1:])
    target = run_flags.target("runs/maml")
    communicator = run_flags.alone("meta-training by MAML")
    return run_flags.guard(lambda: _meta_train(experiment, target, communicator))


def _meta_train(experiment: MAMLExperiment, target: RunTarget, communicator: Communicator) -> int:
    session = Session(MAMLSystem(experiment, run_flags.seed()), target, run_flags.write)
    code = run_flags.run_to_the_end(session, communicator, "stopping before the next iteration")
    if not code:
        own = config_flag.words_of_own_family(experiment.task.family)
        run_flags.write(
            f"results are in {target.path}; next: {command_line.program('meta_test')} "
            f"{shlex.quote(f'--compare=maml:{target.path}')}{own} with a --loss for the same body"
        )
    return code


if __name__ == "__main__":
    command_line.run(main)
