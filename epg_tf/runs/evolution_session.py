"""Evolves a loss in a folder: starts or resumes the run, and records every epoch."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from epg_tf.artifacts.learned_loss import LearnedLoss
from epg_tf.core.communication import Communicator, SingleProcess
from epg_tf.core.errors import Interrupted, RunFailed, Stopped
from epg_tf.core.experiment import Experiment
from epg_tf.core.files import PathLike
from epg_tf.core.memory import refuse_what_cannot_fit
from epg_tf.epg.memory_needs import evolution_needs
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.post_mortem import why_lives_failed
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import EpochResult, EvolutionState, broadcast_state
from epg_tf.runs.evolution_run import identity_of
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.progress import EvolutionProgress, SilentProgress, Write
from epg_tf.runs.recorder import NullRecorder, Recorder


def evolve_in_folder(
    experiment: Experiment,
    seed: int,
    run_dir: PathLike,
    *,
    resume: bool = False,
    overwrite: bool = False,
    begin_with: LearnedLoss | None = None,
    write: Write | None = None,
) -> Iterator[EpochResult]:
    """Evolves a loss in this process and records the run, as the command epg-tf meta-train does.

    Stopped in any way, the run can be resumed, and ends with the same bits as without the stop.

    Args:
      experiment: Settings.
      seed: Of all randomness, >= 0.
      run_dir: Folder for all files of the run; `read_run` reads it.
      resume: Continue the run that is there, or start it if there is none.
      overwrite: Replace the run that is there; other files in the folder stay.
      begin_with: What a new run begins with, e.g. `load_loss("random_hopper_night")`; its inputs,
        sizes and `evolution.moves` are those of the settings. None: a fresh loss.
      write: Called with lines about progress, e.g. print; None is silent.

    Yields:
      An `EpochResult` per epoch, after it is recorded. After the last one `best/`, `final/` and
      `summary.json` are written.

    Raises:
      RecordError: The folder cannot be used in this way; nothing has been deleted.
      ConfigError: The settings need more memory than there is, or do not fit `begin_with`.
      OSError: A file cannot be written; earlier checkpoints are unchanged.
      RunFailed: In `config.evolution.failed_epochs` epochs in a row all lives failed.
    """
    target = RunTarget(run_dir, resume, overwrite)
    with Shards(experiment) as shards:
        workers = Workers(shards, SingleProcess())
        with contextlib.closing(
            EvolutionSession(experiment, seed, target, workers, write, begin_with)
        ) as session:
            yield from session.epochs()


@dataclasses.dataclass(frozen=True)
class Workers:
    """What runs the lives of an epoch.

    Attributes:
      shards: Of this process.
      communicator: The ranks that share the work.
    """

    shards: Shards
    communicator: Communicator


class EvolutionSession:
    """What one rank does in a run of evolution.

    Args:
      experiment: Settings, the same on every rank.
      seed: Of the run.
      target: The folder, and what happens to an earlier run there; only rank 0 uses it.
      workers: Shards and ranks.
      write: Called with lines about progress on rank 0; None is silent.
      earlier: What a new run begins with; rank 0's counts. None: a fresh loss.

    Attributes:
      state: The newest state; None before the first one. It stays when other ranks are lost.

    Raises:
      ConfigError: The settings need more memory than there is.
    """

    def __init__(
        self,
        experiment: Experiment,
        seed: int,
        target: RunTarget,
        workers: Workers,
        write: Write | None = None,
        earlier: LearnedLoss | None = None,
    ):
        self._experiment, self._seed, self._target = experiment, seed, target
        self._earlier = earlier
        self._workers = workers
        needs = evolution_needs(experiment, workers.shards.threads)
        refuse_what_cannot_fit(needs, workers.communicator.local_size)
        self._progress = SilentProgress()
        if write is not None:
            self._progress = EvolutionProgress(experiment, target.path, write)
        self._recorder = NullRecorder(experiment, seed)
        self._stopped = False
        self._failed_epochs = 0
        self.state: EvolutionState | None = None

    def epochs(self) -> Iterator[EpochResult]:
        """Evolves and records to the end, from where rank 0 is.

        Elastic Horovod calls this again after ranks were lost or joined.

        Yields:
          An `EpochResult` per epoch, after it is recorded.

        Raises:
          Interrupted, Stopped: `stop` was called.
          ConfigError: What the run is to begin with does not fit the settings.
          RecordError, OSError, RunFailed: As `evolve_in_folder`.
        """
        communicator, recorder = self._workers.communicator, self._own_recorder()
        try:
            start = recorder.begin(self.state, communicator.size)
            self.state = state = broadcast_state(start, communicator)
            # The same on every rank, or one alone would end the run.
            self._failed_epochs = communicator.broadcast_number(recorder.failed_epochs())
            for result in evolve(
                self._experiment,
                self._seed,
                state,
                self._workers.shards,
                recorder.advance,
                communicator,
            ):
                recorder.record(result)
                before, self.state = state, result.state
                state = result.state
                yield result
                self._check_failures(before, result)
                if self._stopped:
                    raise Interrupted
                communicator.admit()
        except (Interrupted, Stopped, KeyboardInterrupt, GeneratorExit):
            if self.state is not None:
                recorder.stopped(self.state)
            raise
        finally:
            recorder.pause()
        recorder.finished(state)

    def _check_failures(self, before: EvolutionState, result: EpochResult) -> None:
        """Counts epochs in a row whose lives all failed.

        Raises:
          RunFailed: There were too many.
        """
        evolution = self._experiment.evolution
        failed = result.metrics["failed_lives"] == evolution.lives
        self._failed_epochs = self._failed_epochs + 1 if failed else 0
        most = min(evolution.failed_epochs, evolution.epochs)  # a short run does not end well
        if not most or self._failed_epochs < most:
            return
        stop = self._workers.shards.stopped
        reason = why_lives_failed(self._experiment, self._seed, before, stop)
        raise RunFailed(
            f"all {evolution.lives} lives of {self._failed_epochs} epochs in a row failed "
            f"(config.evolution.failed_epochs), the last in epoch {result.state.epoch}: {reason}; "
            "correct the environment, or make learning rates, sigma or deviations smaller"
        )

    def _own_recorder(self) -> NullRecorder:
        """Returns what records on this rank, whose number may have changed."""
        communicator = self._workers.communicator
        communicator.check_same(
            "what the run does (settings, seed, versions)",
            identity_of(self._experiment, self._seed).digest(),
        )
        if communicator.rank == 0 and not isinstance(self._recorder, Recorder):
            self._recorder = Recorder(
                self._experiment, self._seed, self._target, self._progress, self._earlier
            )
        return self._recorder

    def stop(self) -> None:
        """Ends lives after the update they are in, and the waiting for other ranks."""
        self._stopped = True
        self._workers.shards.stop()
        self._workers.communicator.stop()

    def close(self) -> None:
        """Lets other processes use the folder."""
        self._recorder.close()
