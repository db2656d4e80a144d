"""Evolves a loss (Algorithm 1), in one process or in several.

    python -m launch.meta_train --config=configs/point_goal.py --run_dir=runs/first

The same on two ranks:

    horovodrun -np 2 -H localhost:2 python -m launch.meta_train \\
        --config=configs/point_goal.py --run_dir=runs/first
"""

from __future__ import annotations

import contextlib

from launch import command_line, run_flags  # first: it silences the frameworks

from absl import flags
from ml_collections import config_flags

from epg_tf.core.communication import Communicator
from epg_tf.core.experiment import Experiment
from epg_tf.epg.shards import Shards
from epg_tf.runs.evolution_session import EvolutionSession, Workers
from epg_tf.runs.folder import RunTarget

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment file, e.g. configs/random_hopper.py:paper."
)
flags.adopt_module_key_flags(run_flags)


def main(argv: list[str]) -> int:
    """Runs evolution to its end, or to Ctrl-C or SIGTERM; returns the exit code."""
    del argv
    experiment = command_line.experiment_of(_CONFIG)
    target = run_flags.target("runs/first")
    communicator = run_flags.join()
    return run_flags.guard(lambda: _evolve(experiment, target, communicator))


def _evolve(experiment: Experiment, target: RunTarget, communicator: Communicator) -> int:
    with Shards(experiment, processes=communicator.local_size) as shards:
        session = EvolutionSession(
            experiment,
            run_flags.seed(),
            target,
            Workers(shards, communicator),
            run_flags.write,
        )
        received = command_line.stop_on_signals(
            "stopping as soon as the lives have finished the update they are in",
            communicator,
            session.stop,
        )

        def work() -> None:
            for _ in session.epochs():
                pass

        with contextlib.closing(session):
            code = run_flags.to_the_end(lambda: communicator.run(work), received, communicator)
    if not code and communicator.rank == 0:
        run_flags.print_next("best")
    return code


if __name__ == "__main__":
    command_line.run(main)
