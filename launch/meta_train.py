"""Evolves a loss (Algorithm 1), in one process or in many.

    python -m launch.meta_train --config=configs/point_goal.py --run_dir=runs/first
    horovodrun -np 2 -H localhost:2 python -m launch.meta_train --config=configs/point_goal.py --run_dir=runs/first
"""

from __future__ import annotations

import hashlib
import json
import sys

from launch import command_line  # first: it quietens the frameworks

from absl import flags  # isort: skip
from ml_collections import config_flags  # isort: skip

from epg_tf import communication
from epg_tf.algorithms.evolution import EvolutionState, evolve, share_state
from epg_tf.algorithms.inner_loop import Interrupted
from epg_tf.algorithms.shards import Shards
from epg_tf.communication import Communicator
from epg_tf.config import Experiment
from epg_tf.learned_loss import versions
from launch.recorder import Bystander, Recorder

_CONFIG = config_flags.DEFINE_config_file("config", None, "Experiment file, e.g. configs/random_hopper.py:paper.")
_RUN_DIR = flags.DEFINE_string("run_dir", None, "Folder for all that the run leaves.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)
_RESUME = flags.DEFINE_bool("resume", False, "Go on with the run in --run_dir, or start it if there is none.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace the run in --run_dir; other files beside it stay.")
_RANK_TIMEOUT = flags.DEFINE_float("rank_timeout", 3600.0, "Under horovodrun: seconds that a rank may keep the others "
                                   "waiting; longer than a shard takes.", lower_bound=1.0)


def main(argv: list[str]) -> int:
    """Runs evolution to its end, or to Ctrl-C or SIGTERM; returns the exit code."""
    del argv
    experiment = command_line.experiment_of(_CONFIG)
    if _RUN_DIR.value is None:
        raise command_line.UsageError("--run_dir is missing; name a folder, e.g. --run_dir=runs/first")
    if _RESUME.value and _OVERWRITE.value:
        raise command_line.UsageError("--resume and --overwrite contradict each other; pass one of them")
    communicator = communication.join(_RANK_TIMEOUT.value)
    try:
        with Shards(experiment, processes=communicator.local_size) as shards:
            return communicator.run(_Run(experiment, shards, communicator).evolve)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"error: cannot write to --run_dir={_RUN_DIR.value} ({error}); checkpoints written before are intact: "
              f"mend the cause and run the same command with --resume", file=sys.stderr)
        return 1


class _Run:
    """One rank's part in a run."""

    def __init__(self, experiment: Experiment, shards: Shards, communicator: Communicator):
        self._experiment, self._shards, self._communicator = experiment, shards, communicator
        self._stopped_by = command_line.stop_on_signals(
            "stopping as soon as the lives have finished the update they are in", communicator, shards.stop)
        self._recorder: Bystander = Bystander(experiment, _SEED.value)
        self._state: EvolutionState | None = None

    def evolve(self) -> int:
        """Evolves and records until the end or a signal, from where rank 0 is; returns the exit code."""
        experiment, communicator = self._experiment, self._communicator
        communicator.check_same("what the run does (settings, seed, versions)", _identity(experiment))
        if communicator.rank == 0 and not isinstance(self._recorder, Recorder):
            self._recorder = Recorder(experiment, _SEED.value, _RUN_DIR.value, _RESUME.value, _OVERWRITE.value)
        recorder = self._recorder
        try:
            self._state = share_state(recorder.begin(self._state, communicator.size), communicator)
            for result in evolve(experiment, _SEED.value, self._state, self._shards, recorder.advance, communicator):
                recorder.record(result)
                self._state = result.state
                if self._stopped_by:
                    raise Interrupted
                communicator.admit()
        except (Interrupted, communication.Stopped):
            recorder.stopped(self._state)
            return 128 + self._stopped_by[0]
        finally:
            recorder.close()
        recorder.finished(self._state)
        return 0


def _identity(experiment: Experiment) -> bytes:
    """Returns the SHA-256 of what must be the same on every rank."""
    settings = experiment.to_mapping()
    settings["compute"].pop("threads")
    return hashlib.sha256(json.dumps([settings, _SEED.value, versions()], sort_keys=True).encode()).digest()


if __name__ == "__main__":
    command_line.run(main)
