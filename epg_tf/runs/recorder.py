"""What a rank does besides evolving: rank 0 writes the run's folder and tells the user, the others
nothing.
"""

from __future__ import annotations

import math
import shlex
import time

from tqdm import tqdm

from epg_tf.core import formatting
from epg_tf.epg.state import EpochResult, EvolutionState, initial_state
from epg_tf.core.experiment import Experiment
from epg_tf.runs.folder import settings_table
from epg_tf.runs.evolution_run import RunFolder


class NullRecorder:
    """Records nothing.

    Args:
      experiment: Settings of the run.
      seed: Of the run.
    """

    def __init__(self, experiment: Experiment, seed: int):
        self._experiment, self._seed = experiment, seed

    def begin(self, state: EvolutionState | None, ranks: int) -> EvolutionState:
        """Gets ready.

        Args:
          state: What this process has come to; None if it has only started.
          ranks: Number of processes at work.

        Returns:
          The newest state known here.
        """
        del ranks
        return state or initial_state(self._experiment, self._seed)

    def advance(self, lives: int) -> None:
        """Takes note of lives that have ended."""

    def record(self, result: EpochResult) -> None:
        """Takes note of an epoch."""

    def stopped(self, state: EvolutionState) -> None:
        """Takes note that the user has stopped the run after this state."""

    def finished(self, state: EvolutionState) -> None:
        """Takes note that the run is complete."""

    def close(self) -> None:
        """Takes the progress bar away."""


class Recorder(NullRecorder):
    """Records in a folder, and on standard output.

    Args:
      experiment: Settings of the run.
      seed: Of the run.
      run_dir: The folder.
      resume: Go on with the run there.
      overwrite: Replace the run there.
    """

    def __init__(self, experiment: Experiment, seed: int, run_dir: str, resume: bool, overwrite: bool):
        super().__init__(experiment, seed)
        self._run_dir, self._resume, self._overwrite = run_dir, resume, overwrite
        self._folder: RunFolder | None = None
        self._bar: _Bar | None = None

    def begin(self, state: EvolutionState | None, ranks: int) -> EvolutionState:
        """Opens the folder, unless it is open, and says what the run will cost."""
        if self._folder is None:
            state = self._open(state)
        self._announce(state.epoch, ranks)
        self._bar = _Bar(self._experiment, state.epoch, ranks, compiles=self._bar is None)
        return state

    def _open(self, state: EvolutionState | None) -> EvolutionState:
        """Returns where to go on: from the folder, unless that is far behind; a state means that
        rank 0 was lost.
        """
        took_over = state is not None
        self._folder = folder = RunFolder(self._run_dir, self._experiment, self._seed, self._resume or took_over,
                                          self._overwrite and not took_over)
        saved, messages = folder.restore()
        for message in [f"damaged: {message}" for message in messages] + folder.notes:
            print(message)
        folder.board.text("settings", settings_table(self._experiment.to_mapping()))
        if state is None or state.epoch <= saved.epoch + 1:  # one epoch may not have been written: it is lived again
            return saved
        folder.save_state(state)
        return state

    def _announce(self, epoch: int, ranks: int) -> None:
        experiment, evolution, count = self._experiment, self._experiment.evolution, formatting.count
        steps = evolution.lives * experiment.life_steps
        left = evolution.epochs - epoch
        print(f"evolving a loss for {experiment.task.family} in {self._folder.path}"
              + (f", on {ranks} ranks" if ranks > 1 else "") + (f", from epoch {epoch} on" if epoch else ""))
        print(f"cost: {left} epochs x {evolution.lives} lives x {experiment.life_steps} env steps "
              f"= {count(steps)} env "
              f"steps an epoch, {count(steps * left)} in all; besides, "
              f"{experiment.inner.final_episodes} final "
              f"episodes a life (at most {experiment.task.episode_limit} env steps each)"
              + _validation_cost(experiment))
        shards = math.ceil(evolution.lives / experiment.compute.shard_lives)
        if ranks > shards:
            print(f"{ranks - shards} of {ranks} ranks have nothing to do: an epoch has only "
                  f"{shards} shards of "
                  f"config.compute.shard_lives={experiment.compute.shard_lives} lives")

    def advance(self, lives: int) -> None:
        """Moves the bar."""
        self._bar.advance(lives)

    def record(self, result: EpochResult) -> None:
        """Writes an epoch and shows it."""
        self._folder.record(result)
        self._bar.show(result)

    def stopped(self, state: EvolutionState) -> None:
        """Leaves the folder such that the run can go on, and says how."""
        self.close()
        self._folder.save_losses(state, finished=False)
        print(f"stopped after epoch {state.epoch} of {self._experiment.evolution.epochs}; its "
              "checkpoint is in "
              f"{self._folder.path / 'checkpoints'}\nto go on, run the same command with --resume")

    def finished(self, state: EvolutionState) -> None:
        """Writes what a finished run leaves, and says where."""
        self.close()
        count, summary, path = formatting.count, self._folder.finish(state), self._folder.path
        best = summary["best_validation_return_mean"]
        validation = f"best validation return {best:.2f}"
        if best == -math.inf:
            validation = "never validated (best/ is just the newest)"
        print(f"evolved {summary['parameters']} parameters in "
              f"{formatting.duration(summary['seconds'])}, "
              f"{count(summary['env_steps'])} env steps; {validation}, {summary['failed_lives']} "
              "failed lives")
        if summary["last_fitness_mean"] is not None and math.isnan(summary["last_fitness_mean"]):
            print("warning: every life of the last epoch failed; smaller learning rates, sigma or "
                  "deviations may help")
        loss, output = shlex.quote(f"{path}/best"), shlex.quote(f"{path}-test")
        print(f"results are in {path}; next: python -m launch.meta_test --loss={loss} "
              f"--output_dir={output}")

    def close(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.close()


def _validation_cost(experiment: Experiment) -> str:
    evolution = experiment.evolution
    if not evolution.validation_period:
        return ""
    return f" and {evolution.validation_lives} validation lives every {evolution.validation_period} epochs"


class _Bar:
    """Shows progress: a bar on a terminal, now and then a line elsewhere."""

    def __init__(self, experiment: Experiment, epoch: int, ranks: int, compiles: bool):
        self.epochs, self._epoch, self._ranks = experiment.evolution.epochs, epoch, ranks
        lives = experiment.evolution.lives
        self._bar = tqdm(total=self.epochs * lives, initial=epoch * lives, disable=None, leave=False,
                         bar_format="{desc} |{bar:20}| {percentage:3.0f} % [{elapsed} < "
                                    "{remaining}]")
        self._bar.set_description_str(f"epoch {epoch}/{self.epochs}")
        self._first, self._started = compiles, time.perf_counter()

    def advance(self, lives: int) -> None:
        """Counts lives that have ended here, and as many on every other rank."""
        self._bar.n = min(self._bar.n + lives * self._ranks, self._bar.total)
        self._bar.update(0)

    def show(self, result: EpochResult) -> None:
        """Shows an epoch's numbers."""
        metrics, epoch = result.metrics, result.state.epoch
        line = (f"epoch {epoch}/{self.epochs}  alpha {metrics['alpha']:.2f}  mean fitness "
                f"{metrics['fitness_mean']:.2f}"
                f"  {formatting.count(metrics['env_steps_per_second'])} env steps/s")
        seconds, left = metrics["seconds"], self.epochs - epoch
        if self._first and left:
            self._first = False
            self._bar.write(f"the first epoch took {formatting.duration(seconds)}, compilation "
                            "included; at that "
                            f"rate the other {left} take {formatting.duration(seconds * left)}")
        self._bar.n = epoch * self._bar.total // self.epochs
        self._bar.set_description_str(line)
        if self._bar.disable and (epoch % max(1, self.epochs // 20) == 0 or left == 0):
            spent = time.perf_counter() - self._started
            rest = spent * left / (epoch - self._epoch)
            print(f"{line}  {formatting.duration(spent)} so far, {formatting.duration(rest)} left", flush=True)

    def close(self) -> None:
        """Removes the bar."""
        self._bar.close()
