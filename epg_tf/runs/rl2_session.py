"""Meta-trains RL² in a folder: starts or resumes the run and records every iteration."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from epg_tf.baselines.rl2 import IterationResult, RL2Trainer
from epg_tf.core.errors import Interrupted
from epg_tf.core.files import PathLike
from epg_tf.core.memory import MemoryNeed, refuse_what_cannot_fit
from epg_tf.core.rl2_experiment import RL2Experiment
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.progress import Write
from epg_tf.runs.rl2_progress import RL2Progress
from epg_tf.runs.rl2_run import RL2Run

_NUMBERS = 20  # float32 that backpropagation keeps of an env step, for each unit of the LSTM


def meta_train_rl2_in_folder(
    experiment: RL2Experiment,
    seed: int,
    run_dir: PathLike,
    *,
    resume: bool = False,
    overwrite: bool = False,
    write: Write | None = None,
) -> Iterator[IterationResult]:
    """Meta-trains a recurrent policy in this process and records the run.

    The files are those of the command epg-tf meta-train-rl2. Stopped in any way, the run can be
    resumed, and ends with the same bits as without the stop.

    Args:
      experiment: Settings.
      seed: Of all randomness, >= 0.
      run_dir: Folder for all files of the run; `read_run` reads it.
      resume: Continue the run that is there, or start it if there is none.
      overwrite: Replace the run that is there; other files in the folder stay.
      write: Called with lines about progress, e.g. print; None is silent.

    Yields:
      An `IterationResult` per iteration, after it is recorded. After the last one `final/` and
      `summary.json` are written.

    Raises:
      RecordError: The folder cannot be used in this way; nothing has been deleted.
      ConfigError: The family does not fit, or the settings need more memory than there is.
      OSError: A file cannot be written; earlier checkpoints are unchanged.
      RunFailed: A loss is not finite.
    """
    target = RunTarget(run_dir, resume, overwrite)
    with contextlib.closing(RL2Session(experiment, seed, target, write)) as session:
        yield from session.iterations()


class RL2Session:
    """A run of RL²; opens the folder at once.

    Args:
      experiment: Settings.
      seed: Of the run.
      target: The folder, and what happens to an earlier run there.
      write: Called with lines about progress; None is silent.

    Raises:
      RecordError, ConfigError: As `meta_train_rl2_in_folder`.
    """

    def __init__(
        self,
        experiment: RL2Experiment,
        seed: int,
        target: RunTarget,
        write: Write | None = None,
    ):
        refuse_what_cannot_fit([_need(experiment)])
        self._trainer = RL2Trainer(experiment, seed)  # first: it may refuse the settings
        self._progress = RL2Progress(experiment, target.path, write)
        self._run = RL2Run(experiment, seed, target)
        self._stopped = False

    def iterations(self) -> Iterator[IterationResult]:
        """Meta-trains and records to the end, from the state in the folder.

        Yields:
          An `IterationResult` per iteration, after it is recorded.

        Raises:
          Interrupted: `stop` was called.
          RecordError, OSError, RunFailed: As `meta_train_rl2_in_folder`.
        """
        agent = self._trainer.agent
        done, best_return = self._run.restore(agent)
        self._progress.begin(done, self._run.warnings)
        try:
            for result in self._trainer.iterate(done, best_return):
                self._run.record(result, agent)
                done, best_return = result.iteration, result.best_return
                self._progress.show(result)
                yield result
                if self._stopped:
                    raise Interrupted
        except (Interrupted, KeyboardInterrupt, GeneratorExit):
            self._progress.stopped(done)
            raise
        self._progress.finished(self._run.finish(done, best_return, agent))

    def stop(self) -> None:
        """Ends the run after the current iteration."""
        self._stopped = True

    def close(self) -> None:
        """Lets other processes use the folder."""
        self._progress.close()
        self._run.close()


def _need(experiment: RL2Experiment) -> MemoryNeed:
    """Returns what backpropagation through a minibatch of trials needs."""
    units, minibatches = experiment.network.lstm_units, experiment.ppo.minibatches
    steps = experiment.iteration_steps / minibatches
    return MemoryNeed(
        4.0 * _NUMBERS * units * steps,
        "gradients of trials",
        f"config.trials={experiment.trials}, config.task.episode_limit="
        f"{experiment.task.episode_limit} and config.network.lstm_units={units}",
    )
