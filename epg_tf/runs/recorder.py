"""Records what a rank does: rank 0 in the folder of the run, the other ranks nowhere."""

from __future__ import annotations

from epg_tf.artifacts.learned_loss import LearnedLoss
from epg_tf.core.experiment import Experiment
from epg_tf.epg.state import EpochResult, EvolutionState, initial_state
from epg_tf.runs.evolution_run import EvolutionRun
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.progress import SilentProgress


class NullRecorder:
    """Records nothing.

    Args:
      experiment: Settings of the run.
      seed: Of the run.
    """

    def __init__(self, experiment: Experiment, seed: int):
        self._experiment, self._seed = experiment, seed

    def begin(self, state: EvolutionState | None, ranks: int) -> EvolutionState:
        """Prepares for epochs.

        Args:
          state: The newest state of this process; None if it has only started.
          ranks: Number of processes at work.

        Returns:
          The state to continue from.
        """
        del ranks
        return state or initial_state(self._experiment, self._seed)

    def failed_epochs(self) -> int:
        """Returns how many of the newest recorded epochs, in a row, had only lives that failed."""
        return 0

    def advance(self, lives: int) -> None:
        """Counts lives that have ended."""

    def record(self, result: EpochResult) -> None:
        """Records an epoch."""

    def stopped(self, state: EvolutionState) -> None:
        """Records that the run was stopped after a state."""

    def finished(self, state: EvolutionState) -> None:
        """Records that the run is finished."""

    def pause(self) -> None:
        """Removes the progress bar; `begin` makes a new one."""

    def close(self) -> None:
        """Lets other processes use the folder."""


class Recorder(NullRecorder):
    """Records in the folder of the run, and shows progress.

    Args:
      experiment: Settings of the run.
      seed: Of the run.
      target: The folder, and what happens to an earlier run there.
      progress: Shows what is recorded.
      earlier: What a new run begins with; None: a fresh vector.
    """

    def __init__(
        self,
        experiment: Experiment,
        seed: int,
        target: RunTarget,
        progress: SilentProgress,
        earlier: LearnedLoss | None = None,
    ):
        super().__init__(experiment, seed)
        self._target, self._progress, self._earlier = target, progress, earlier
        self._opened: EvolutionRun | None = None
        self._restored: EvolutionState | None = None

    @property
    def run(self) -> EvolutionRun:
        """Returns the run's folder, which `begin` opens."""
        if self._opened is None:
            raise RuntimeError("call begin() first, it opens the folder")
        return self._opened

    def begin(self, state: EvolutionState | None, ranks: int) -> EvolutionState:
        """Opens the folder, unless it is open.

        Ranks can be lost before this process knows any state, after the folder was opened: the
        state that was then restored is the one to continue from.
        """
        if self._opened is None:
            self._restored = self._open(state)
            state = self._restored
        started = super().begin(state or self._restored, ranks)
        self._progress.begin(started.epoch, ranks)
        return started

    def _open(self, state: EvolutionState | None) -> EvolutionState:
        """Opens the folder and returns the state to continue from.

        With a state, this process replaces a rank 0 that was lost. The folder's state is then used
        if at most one epoch is missing there, which is repeated: its row may be missing, too.
        """
        target = self._target
        if state is not None:
            allowed = target.allow_changed_family
            target = RunTarget(target.path, resume=True, allow_changed_family=allowed)
        self._opened = run = EvolutionRun(self._experiment, self._seed, target, self._earlier)
        saved = run.restore()
        self._progress.warn(run.warnings)
        if state is None or state.epoch <= saved.epoch + 1:
            return saved
        run.save_state(state)
        return state

    def failed_epochs(self) -> int:
        """Reads it from the folder, so that stops do not matter."""
        return self.run.failed_epochs()

    def advance(self, lives: int) -> None:
        """Shows that lives have ended."""
        self._progress.advance(lives)

    def record(self, result: EpochResult) -> None:
        """Writes an epoch and shows it."""
        self.run.record(result)
        self._progress.show(result)

    def stopped(self, state: EvolutionState) -> None:
        """Writes the best loss so far."""
        self.run.save_best(state)
        self._progress.stopped(state)

    def finished(self, state: EvolutionState) -> None:
        """Writes what a finished run leaves."""
        self._progress.finished(self.run.finish(state))

    def pause(self) -> None:
        """Removes the progress bar."""
        self._progress.close()

    def close(self) -> None:
        """Removes the progress bar and closes the folder."""
        self.pause()
        if self._opened is not None:
            self._opened.close()
