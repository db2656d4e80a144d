"""Evolves a loss (Algorithm 1).

    python -m launch.meta_train --config=configs/point_goal.py --run_dir=runs/first
"""

from __future__ import annotations

import math
import shlex
import signal
import sys
import time
from pathlib import Path

from launch import command_line  # first: it quietens the frameworks

from absl import flags  # isort: skip
from ml_collections import config_flags  # isort: skip
from tqdm import tqdm  # isort: skip

from epg_tf.algorithms.evolution import EpochResult, evolve
from epg_tf.algorithms.inner_loop import Interrupted
from epg_tf.algorithms.shards import Shards
from epg_tf.config import Experiment
from launch.run_folder import RunFolder, settings_table

_CONFIG = config_flags.DEFINE_config_file("config", None, "Experiment file, e.g. configs/random_hopper.py:paper.")
_RUN_DIR = flags.DEFINE_string("run_dir", None, "Folder for all that the run leaves.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)
_RESUME = flags.DEFINE_bool("resume", False, "Go on with the run in --run_dir, or start it if there is none.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace the run in --run_dir; other files beside it stay.")


def main(argv: list[str]) -> int:
    """Runs evolution to its end, or to Ctrl-C or SIGTERM; returns the exit code."""
    del argv
    experiment = command_line.experiment_of(_CONFIG)
    if _RUN_DIR.value is None:
        raise command_line.UsageError("--run_dir is missing; name a folder, e.g. --run_dir=runs/first")
    if _RESUME.value and _OVERWRITE.value:
        raise command_line.UsageError("--resume and --overwrite contradict each other; pass one of them")
    try:
        return _run(RunFolder(_RUN_DIR.value, experiment, _SEED.value, _RESUME.value, _OVERWRITE.value))
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"error: cannot write to --run_dir={_RUN_DIR.value} ({error}); checkpoints written before are intact: "
              f"mend the cause and run the same command with --resume", file=sys.stderr)
        return 1


def _run(folder: RunFolder) -> int:
    """Evolves and records until the end or a signal; returns the exit code."""
    experiment = folder.experiment
    with Shards(experiment) as shards:
        stopped_by = _stop_on_signals(shards)
        state, messages = folder.restore()
        for message in [f"damaged: {message}" for message in messages] + folder.notes:
            print(message)
        folder.board.text("settings", settings_table(experiment))
        _announce(experiment, state.epoch, folder.path)
        bar = _Bar(experiment, state.epoch)
        try:
            for result in evolve(experiment, folder.seed, state, shards, bar.advance):
                folder.record(result)
                bar.show(result)
                state = result.state
                if stopped_by:
                    raise Interrupted
        except Interrupted:
            bar.close()
            folder.save_losses(state, finished=False)
            print(f"stopped after epoch {state.epoch} of {experiment.evolution.epochs}; its checkpoint is in "
                  f"{folder.path / 'checkpoints'}\nto go on, run the same command with --resume")
            return 128 + stopped_by[0]
        finally:
            bar.close()
        _report(folder, folder.finish(state))
    return 0


def _stop_on_signals(shards: Shards) -> list[int]:
    """Turns the first Ctrl-C or SIGTERM into a clean stop; returns a list that will hold the signal's number."""
    received: list[int] = []

    def handle(number, frame):
        del frame
        received.append(number)
        print("stopping as soon as the lives have finished the update they are in", file=sys.stderr, flush=True)
        shards.stop()
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_DFL)  # a second one ends the process at once

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, handle)
    return received


def _announce(experiment: Experiment, epoch: int, run_dir: Path) -> None:
    """Says what the run will cost before it starts."""
    evolution, count = experiment.evolution, command_line.count
    steps = evolution.lives * experiment.life_steps
    left = evolution.epochs - epoch
    print(f"evolving a loss for {experiment.task.family} in {run_dir}" + (f", from epoch {epoch} on" if epoch else ""))
    print(f"cost: {left} epochs x {evolution.lives} lives x {experiment.life_steps} env steps = {count(steps)} env "
          f"steps an epoch, {count(steps * left)} in all; besides, {experiment.inner.final_episodes} final episodes a "
          f"life (at most {experiment.task.episode_limit} env steps each)" + _validation_cost(experiment))


def _validation_cost(experiment: Experiment) -> str:
    evolution = experiment.evolution
    if not evolution.validation_period:
        return ""
    return f" and {evolution.validation_lives} validation lives every {evolution.validation_period} epochs"


class _Bar:
    """Shows progress: a bar on a terminal, now and then a line elsewhere."""

    def __init__(self, experiment: Experiment, epoch: int):
        self.epochs, self._epoch = experiment.evolution.epochs, epoch
        lives = experiment.evolution.lives
        self._bar = tqdm(total=self.epochs * lives, initial=epoch * lives, disable=None, leave=False,
                         bar_format="{desc} |{bar:20}| {percentage:3.0f} % [{elapsed} < {remaining}]")
        self._bar.set_description_str(f"epoch {epoch}/{self.epochs}")
        self._first, self._started = True, time.perf_counter()

    def advance(self, lives: int) -> None:
        """Counts lives that have ended."""
        self._bar.n = min(self._bar.n + lives, self._bar.total)
        self._bar.update(0)

    def show(self, result: EpochResult) -> None:
        """Shows an epoch's numbers."""
        metrics, epoch = result.metrics, result.state.epoch
        line = (f"epoch {epoch}/{self.epochs}  alpha {metrics['alpha']:.2f}  mean fitness {metrics['fitness_mean']:.2f}"
                f"  {command_line.count(metrics['env_steps_per_second'])} env steps/s")
        seconds, left = metrics["seconds"], self.epochs - epoch
        if self._first and left:
            self._first = False
            self._bar.write(f"the first epoch took {command_line.duration(seconds)}, compilation included; at that "
                            f"rate the other {left} take {command_line.duration(seconds * left)}")
        self._bar.n = epoch * self._bar.total // self.epochs
        self._bar.set_description_str(line)
        if self._bar.disable and (epoch % max(1, self.epochs // 20) == 0 or left == 0):
            spent = time.perf_counter() - self._started
            rest = spent * left / (epoch - self._epoch)
            print(f"{line}  {command_line.duration(spent)} so far, {command_line.duration(rest)} left", flush=True)

    def close(self) -> None:
        """Removes the bar."""
        self._bar.close()


def _report(folder: RunFolder, summary: dict) -> None:
    count = command_line.count
    best = summary["best_validation_return_mean"]
    validation = f"best validation return {best:.2f}"
    if best == -math.inf:
        validation = "never validated (best/ is just the newest)"
    print(f"evolved {summary['parameters']} parameters in {command_line.duration(summary['seconds'])}, "
          f"{count(summary['env_steps'])} env steps; {validation}, {summary['failed_lives']} failed lives")
    if summary["last_fitness_mean"] is not None and math.isnan(summary["last_fitness_mean"]):
        print("warning: every life of the last epoch failed; smaller learning rates, sigma or deviations may help")
    loss, output = shlex.quote(f"{folder.path}/best"), shlex.quote(f"{folder.path}-test")
    print(f"results are in {folder.path}; next: python -m launch.meta_test --loss={loss} --output_dir={output}")


if __name__ == "__main__":
    command_line.run(main)
