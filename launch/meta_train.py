"""Evolves a loss (Algorithm 1), in one process or in many.

python -m launch.meta_train --config=configs/point_goal.py --run_dir=runs/first
horovodrun -np 2 -H localhost:2 python -m launch.meta_train --config=configs/point_goal.py
--run_dir=runs/first
"""

from __future__ import annotations

from launch import command_line  # first: it quietens the frameworks

from absl import flags  # isort: skip
from ml_collections import config_flags  # isort: skip

from epg_tf.core.errors import Interrupted, Stopped
from epg_tf.epg.state import EvolutionState, broadcast_state
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.shards import Shards
from epg_tf.core.communication import Communicator
from epg_tf.core.experiment import Experiment
from launch import run_flags
from epg_tf.runs.recorder import NullRecorder, Recorder
from launch.run_flags import RunFlags

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment file, e.g. configs/random_hopper.py:paper."
)
flags.adopt_module_key_flags(run_flags)


def main(argv: list[str]) -> int:
    """Runs evolution to its end, or to Ctrl-C or SIGTERM; returns the exit code."""
    del argv
    experiment = command_line.experiment_of(_CONFIG)
    asked = run_flags.read("runs/first")
    communicator = run_flags.join()

    def run() -> int:
        with Shards(experiment, processes=communicator.local_size) as shards:
            return communicator.run(_Run(experiment, asked, shards, communicator).evolve)

    return asked.guard(run)


class _Run:
    """One rank's part in a run."""

    def __init__(
        self, experiment: Experiment, asked: RunFlags, shards: Shards, communicator: Communicator
    ):
        self._experiment, self._asked, self._shards, self._communicator = (
            experiment,
            asked,
            shards,
            communicator,
        )
        self._stopped_by = command_line.stop_on_signals(
            "stopping as soon as the lives have finished the update they are in",
            communicator,
            shards.stop,
        )
        self._recorder: NullRecorder = NullRecorder(experiment, asked.seed)
        self._state: EvolutionState | None = None

    def evolve(self) -> int:
        """Evolves and records until the end or a signal, from where rank 0 is; returns the exit
        code.
        """
        experiment, asked, communicator = self._experiment, self._asked, self._communicator
        settings = experiment.to_mapping()
        settings["compute"].pop("threads")
        communicator.check_same(
            "what the run does (settings, seed, versions)", asked.identity(settings)
        )
        if communicator.rank == 0 and not isinstance(self._recorder, Recorder):
            self._recorder = Recorder(
                experiment, asked.seed, asked.run_dir, asked.resume, asked.overwrite
            )
        recorder = self._recorder
        try:
            self._state = broadcast_state(
                recorder.begin(self._state, communicator.size), communicator
            )
            for result in evolve(
                experiment, asked.seed, self._state, self._shards, recorder.advance, communicator
            ):
                recorder.record(result)
                self._state = result.state
                if self._stopped_by:
                    raise Interrupted
                communicator.admit()
        except (Interrupted, Stopped):
            recorder.stopped(self._state)
            return 128 + self._stopped_by[0]
        finally:
            recorder.close()
        recorder.finished(self._state)
        return 0


if __name__ == "__main__":
    command_line.run(main)
