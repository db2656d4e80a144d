"""Meta-trains a recurrent policy by RL² or E-RL², to compare learned losses with.

    epg-tf meta-train-rl2 --config=rl2_half_cheetah --run_dir=runs/rl2

E-RL² is --config.trial.exploratory_episodes=1. It is one process; other seeds may run beside it.
"""

from __future__ import annotations

import shlex

from . import command_line, config_flag, run_flags  # first: it silences the frameworks

from absl import flags

from epg_tf.core.communication import Communicator
from epg_tf.core.rl2_experiment import RL2Experiment
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.rl2 import RL2System, cost_lines
from epg_tf.runs.session import Session

flags.adopt_module_key_flags(config_flag)
flags.adopt_module_key_flags(run_flags)


def main(argv: list[str]) -> int:
    """Runs meta-training to its end, or to Ctrl-C or SIGTERM; returns the exit code."""
    del argv
    experiment = config_flag.rl2_experiment(lambda found: cost_lines(found, 0))
    target = run_flags.target("runs/rl2")
    communicator = run_flags.alone("meta-training by RL²")
    return run_flags.guard(lambda: _meta_train(experiment, target, communicator))


def _meta_train(experiment: RL2Experiment, target: RunTarget, communicator: Communicator) -> int:
    session = Session(RL2System(experiment, run_flags.seed()), target, run_flags.write)
    code = run_flags.run_to_the_end(session, communicator, "stopping after this iteration")
    if not code:
        own = config_flag.words_of_own_family(experiment.task.family)
        run_flags.write(
            f"results are in {target.path}; next: {command_line.program('meta_test')} "
            f"{shlex.quote(f'--compare={experiment.method}:{target.path}')}{own} with a --loss for "
            "the same body"
        )
    return code


if __name__ == "__main__":
    command_line.run(main)
