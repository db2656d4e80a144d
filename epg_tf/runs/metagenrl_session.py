"""Meta-learns an objective in a folder: starts or resumes the run and records every round."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from epg_tf.core.communication import Communicator, SingleProcess
from epg_tf.core.errors import Interrupted, RecordError, RunFailed, Stopped
from epg_tf.core.files import PathLike
from epg_tf.core.memory import refuse_what_cannot_fit
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.threads import configure_tensorflow, cpus
from epg_tf.metagenrl.memory_needs import memory_needs
from epg_tf.metagenrl.population import Population, meta_learn
from epg_tf.metagenrl.state import ObjectiveState, RoundResult, initial_state
from epg_tf.runs import metagenrl_checkpoints
from epg_tf.runs.folder import CONFIG, RunTarget
from epg_tf.runs.metagenrl_progress import MetaGenRLProgress, SilentMetaGenRLProgress
from epg_tf.runs.metagenrl_run import MetaGenRLRun, NullMetaGenRLRun, identity_of
from epg_tf.runs.progress import Write
from epg_tf.tasks.registry import named_environment


def meta_learn_in_folder(
    experiment: MetaGenRLExperiment,
    seed: int,
    run_dir: PathLike,
    *,
    resume: bool = False,
    overwrite: bool = False,
    write: Write | None = None,
) -> Iterator[RoundResult]:
    """Meta-learns an objective in this process and records the run.

    The files are those of the command epg-tf meta-train-metagenrl. Stopped in any way, the run can
    be resumed, and ends with the same bits as without the stop.

    Args:
      experiment: Settings.
      seed: Of all randomness, >= 0.
      run_dir: Folder for all files of the run; `read_run` reads it.
      resume: Continue the run that is there, or start it if there is none.
      overwrite: Replace the run that is there; other files in the folder stay.
      write: Called with lines about progress, e.g. print; None is silent.

    Yields:
      A `RoundResult` per round, after it is recorded. After the last one `final/` and
      `summary.json` are written.

    Raises:
      RecordError: The folder cannot be used in this way; nothing has been deleted.
      ConfigError: The settings need more memory than there is.
      OSError: A file cannot be written; earlier checkpoints are unchanged.
      RunFailed: In `config.failed_rounds` rounds in a row all agents had failed.
    """
    target = RunTarget(run_dir, resume, overwrite)
    session = MetaGenRLSession(experiment, seed, target, SingleProcess(), write)
    with contextlib.closing(session):
        yield from session.rounds()


class MetaGenRLSession:
    """What one rank does in a run of MetaGenRL; opens the folder at once.

    Args:
      experiment: Settings, the same on every rank.
      seed: Of the run.
      target: The folder, which all hosts share, and what happens to an earlier run there.
      communicator: The ranks of the run.
      write: Called with lines about progress on rank 0; None is silent.

    Raises:
      ConfigError: The settings need more memory than there is.
      RecordError: The folder cannot be used in this way, or this rank does not see it.
    """

    def __init__(
        self,
        experiment: MetaGenRLExperiment,
        seed: int,
        target: RunTarget,
        communicator: Communicator,
        write: Write | None = None,
    ):
        self._experiment, self._seed = experiment, seed
        self._path, self._communicator = Path(target.path), communicator
        threads = experiment.threads or cpus(communicator.local_size)
        specs = {name: named_environment(name).spec for name in experiment.environments}
        refuse_what_cannot_fit(
            memory_needs(experiment, specs, threads, communicator.size), communicator.local_size
        )
        configure_tensorflow(threads)  # before the first collective uses TensorFlow
        communicator.check_same(
            "what the run does (settings, seed, versions)", identity_of(experiment, seed).digest()
        )
        progress = SilentMetaGenRLProgress()
        if write is not None:
            progress = MetaGenRLProgress(experiment, target.path, write)
        self._run = NullMetaGenRLRun()
        if communicator.rank == 0:
            self._run = MetaGenRLRun(experiment, seed, target, progress)
        try:
            self._wait()
            self._check_shared()
            self._population = Population(experiment, seed, communicator)
        except BaseException:
            self.close()
            raise
        self._stopped = False
        self._failed_rounds = 0

    def _wait(self) -> None:
        """Returns once all ranks have called this."""
        self._communicator.sum(np.zeros(1, np.int64))

    def _check_shared(self) -> None:
        if not (self._path / CONFIG).is_file():
            raise RecordError(
                f"{self._path}: rank {self._communicator.rank} does not see what rank 0 wrote "
                "there; name a folder that all hosts share"
            )

    def rounds(self) -> Iterator[RoundResult]:
        """Meta-learns and records to the end, from the state in the folder.

        Yields:
          A `RoundResult` per round, after it is recorded.

        Raises:
          Interrupted, Stopped: `stop` was called.
          RecordError, OSError, RunFailed: As `meta_learn_in_folder`.
        """
        state = initial_state(self._experiment, self._seed)
        try:
            state = self._restore()
            rounds = meta_learn(self._experiment, self._seed, self._population, state)
            while not self._has_ended(state):
                result = next(rounds)
                metagenrl_checkpoints.save_shards(self._path, self._population)
                self._wait()
                state = result.state
                self._run.record(result)
                yield result
                self._check_failures(result)
                if self._stopped:
                    raise Interrupted
        except (Interrupted, Stopped, KeyboardInterrupt, GeneratorExit):
            self._run.stopped(state)
            raise
        self._run.finish(state)

    def _has_ended(self, state: ObjectiveState) -> bool:
        """Returns whether there are no more rounds, or tests have found nothing better for too
        long; the same on every rank.
        """
        if state.round >= self._experiment.rounds:
            return True
        if not self._experiment.validation.patience:
            return False
        return bool(self._communicator.broadcast_number(self._run.ends_early(state.round)))

    def _check_failures(self, result: RoundResult) -> None:
        """Counts rounds in a row after which all agents had failed.

        Raises:
          RunFailed: There were too many.
        """
        experiment = self._experiment
        failed = result.metrics["failed_agents"] == experiment.agents
        self._failed_rounds = self._failed_rounds + 1 if failed else 0
        if experiment.failed_rounds and self._failed_rounds >= experiment.failed_rounds:
            raise RunFailed(
                f"all {experiment.agents} agents had failed in {self._failed_rounds} rounds in a "
                f"row (config.failed_rounds), the last round {result.state.round}, e.g. "
                f"{self._population.why_agents_failed()}; correct the environment, or make "
                "learning rates smaller"
            )

    def _restore(self) -> ObjectiveState:
        """Returns the state to continue from, the same on every rank."""
        communicator = self._communicator
        state, damaged = metagenrl_checkpoints.restore(self._path, self._population, self._seed)
        digest = hashlib.sha256(state.parameters.tobytes() + str(state.round).encode()).digest()
        communicator.check_same(f"what was restored from {self._path}", digest)
        self._run.begin(state, damaged, communicator.size)
        # The same on every rank, or one alone would end the run.
        self._failed_rounds = communicator.broadcast_number(self._run.failed_rounds())
        return state

    def stop(self) -> None:
        """Ends the run after the update that agents are in, and the waiting for other ranks."""
        self._stopped = True
        self._population.stopped.set()
        self._communicator.stop()

    def close(self) -> None:
        """Lets other processes use the folder."""
        self._run.close()
