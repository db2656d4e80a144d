"""Adapts Evolved Policy Gradients to a session."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epg_tf.artifacts.artifact import LearnedLoss, save
from epg_tf.core import files
from epg_tf.core.communication import Communicator
from epg_tf.core.errors import RecordError
from epg_tf.core.formatting import count, duration
from epg_tf.core.memory import refuse_what_cannot_fit
from epg_tf.core.types import Array
from epg_tf.epg.baseline_settings import BASELINE_SETTINGS
from epg_tf.epg.epoch_metrics import COLUMNS, NEWER_COLUMNS
from epg_tf.epg.memory_requirements import evolution_requirements
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.past_policies import PastPolicies
from epg_tf.epg.post_mortem import why_lives_failed
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import EpochResult, EvolutionState, broadcast_state
from epg_tf.runs import checkpoints, standstill
from epg_tf.runs.beginning import beginning, facts_of
from epg_tf.runs.checkpoints import Checkpoint
from epg_tf.runs.folder import RunFolder, RunLength, RunTarget
from epg_tf.runs.identity import OWN_FILES, RunKind, beginning_in_words
from epg_tf.runs.progress import Write
from epg_tf.runs.session import run_in_folder
from epg_tf.runs.system import Failures, OneCheckpoint, failures
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.units import remarks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EVOLUTION = RunKind(
    name="evolution",
    unit="epoch",
    own=OWN_FILES,
    may_change=frozenset(
        {
            "config.evolution.epochs",
            "config.evolution.failed_epochs",
            "config.compute.threads",
            "config.compute.parallel",
            *BASELINE_SETTINGS,  # evolution has no use for them
        }
    ),
    per_rank=frozenset({"config.compute.threads", "config.compute.parallel"}),
    from_mapping=Experiment.from_mapping,
)

_MOVED = {
    "loss": "a loss",
    "initialisation": "an initial policy",
    "both": "a loss and an initial policy",
}


def evolve_in_folder(
    experiment: Experiment,
    seed: int,
    run_dir: files.PathLike,
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
        system = EvolutionSystem(experiment, seed, shards, earlier=begin_with)
        yield from run_in_folder(system, target, write)


class EvolutionSystem(OneCheckpoint[EpochResult]):
    """One run of evolution on this rank.

    Args:
      experiment: Settings, the same on every rank.
      communicator: The ranks that share the work; None: one process.
      earlier: What a new run begins with; rank 0's counts. None: a fresh loss.

    Attributes:
      state: The newest one. It stays when other ranks are lost.

    Raises:
      ConfigError: The settings need more memory than there is, or do not fit `earlier`.
    """

    kind = EVOLUTION
    stopping = "stopping as soon as the lives have finished the update they are in"
    columns = COLUMNS
    newer = NEWER_COLUMNS
    finite = frozenset({"phi", "best_phi"})

    def __init__(
        self,
        experiment: Experiment,
        seed: int,
        shards: Shards,
        communicator: Communicator | None = None,
        earlier: LearnedLoss | None = None,
    ):
        super().__init__(experiment, seed, communicator, facts_of(earlier))
        needs = evolution_requirements(experiment, shards.threads)
        refuse_what_cannot_fit(experiment, needs, self.communicator.local_size)
        self._shards, self._earlier = shards, earlier
        self.state = self._before = self._first = beginning(experiment, seed, earlier)
        evolution = experiment.evolution
        self.length = RunLength(evolution.epochs, "config.evolution.epochs")
        self.lives = evolution.lives
        self.standstill = standstill.of_evolution(experiment)
        most = min(evolution.failed_epochs, evolution.epochs)  # a short run does not end well
        self.failures = Failures("failed_lives", evolution.lives, most, self._why_failed)

    @property
    def done(self) -> int:
        """Epochs done."""
        return self.state.epoch

    def steps(self, advance: Callable[[int], None]) -> Iterator[EpochResult]:
        """Yields the result of each epoch, the same on every rank."""
        settings, shards = self._experiment, self._shards
        epochs = evolve(settings, self._seed, self.state, shards, advance, self.communicator)
        for result in epochs:
            self._before, self.state = self.state, result.state
            yield result

    def stop(self) -> None:
        """Ends lives after the update they are in."""
        self._shards.stop()

    def _why_failed(self, steps: int) -> str:
        """Lives some of the newest epoch again to find out."""
        reason = why_lives_failed(self._experiment, self._seed, self._before, self._shards.stopped)
        return (
            f"all {self.lives} lives of {steps} epochs in a row failed "
            f"(config.evolution.failed_epochs), the last in epoch {self.done}: {reason}; correct "
            "the environment, or make learning rates, sigma or deviations smaller"
        )

    def arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Returns the arrays and the numbers of the state."""
        state = self.state
        arrays = {
            "phi": state.phi,
            "second_moment": state.second_moment,
            "best_phi": state.best_phi,
            "last_update": state.last_update,
            **(state.past.arrays() if state.past is not None else {}),
        }
        return arrays, {"env_steps": state.env_steps, "best_return": state.best_return}

    def load(self, checkpoint: Checkpoint) -> None:
        """Continues from the state in a checkpoint."""
        arrays, facts = checkpoint.arrays, checkpoint.facts
        self.state = EvolutionState(
            epoch=checkpoint.epoch,
            phi=arrays["phi"],
            second_moment=arrays["second_moment"],
            env_steps=facts["env_steps"],
            best_phi=arrays["best_phi"],
            best_return=facts["best_return"],
            last_update=arrays["last_update"],
            past=PastPolicies.from_arrays(arrays) if self._experiment.past.policies else None,
        )

    def restore(self, path: Path, folder: RunFolder | None) -> None:
        """Continues from the state that rank 0 has, see `System.restore`.

        Where this process replaces a rank 0 that was lost, the folder's state is used if at most
        one epoch is missing there, which is repeated: its row may be missing, too.
        """
        if folder is not None:
            memory, self.state = self.state, self._first
            super().restore(path, folder)
            if self._earlier is None and folder.identity.begun:
                self._check_begun(folder)
            if memory.epoch > self.done + 1:
                self.state = memory
        self.state = broadcast_state(self.state, self.communicator)

    def _check_begun(self, folder: RunFolder) -> None:
        """Refuses to begin a run afresh that began with another loss."""
        if not checkpoints.epochs(folder.path / "checkpoints"):
            began = beginning_in_words(folder.identity.begun)
            raise RecordError(
                f"{folder.path}: the run began with {began} and has no checkpoint yet; pass that "
                "again, or overwrite=True"
            )

    def keep(self, folder: RunFolder, result: EpochResult | None) -> None:
        """Writes `best/` after a validation, and where a kill may have come before that."""
        if result is None or not math.isnan(result.metrics["validation_return_mean"]):
            if self.state.best_return > -math.inf:
                self._save_best(folder)

    def _save_best(self, folder: RunFolder) -> None:
        """Writes `best/`: the phi with the best validation so far, else the newest."""
        state = self.state
        validated = state.best_return > -math.inf
        facts = {
            **folder.facts,
            "env_steps": state.env_steps,
            "validation_return_mean": state.best_return if validated else None,
            "chosen": "best in validation" if validated else "newest, never validated",
        }
        save(folder.path / "best", state.best_phi, self._experiment, facts)

    def leave(self, folder: RunFolder) -> None:
        """Writes `best/`, the newest phi where none was validated."""
        self._save_best(folder)

    def finish(self, folder: RunFolder, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Writes `best/` and `final/`."""
        state = self.state
        self._save_best(folder)
        last = {"env_steps": state.env_steps, "epoch": state.epoch, "chosen": "last epoch"}
        save(folder.path / "final", state.phi, self._experiment, {**folder.facts, **last})
        return {
            "env_steps": state.env_steps,
            "parameters": state.phi.size,
            "first_fitness_mean": rows[0]["fitness_mean"] if rows else None,
            "last_fitness_mean": rows[-1]["fitness_mean"] if rows else None,
            "best_validation_return_mean": state.best_return,
            "failed_lives": failures(rows, "failed_lives"),
        }

    def figure(self, rows: Sequence[Mapping[str, Any]]) -> Figure:
        """Draws fitness and validation."""
        from epg_tf.reports import plots  # here, so that `import epg_tf` needs no matplotlib

        return plots.evolution_figure(rows)

    @staticmethod
    def purpose(experiment: Experiment) -> str:
        """Returns what evolves, and for which families."""
        families = ", ".join(task.family for task in experiment.tasks)
        return f"evolving {_MOVED[experiment.evolution.moves]} for {families}"

    @staticmethod
    def costs(experiment: Experiment, done: int = 0, ranks: int = 1) -> list[str]:
        """Returns lines on what a run does after some epochs, and what that costs."""
        evolution = experiment.evolution
        left = evolution.epochs - done
        shortest, longest = evolution.life_lengths(experiment.inner.updates)
        life_steps = longest * experiment.inner.update_period
        steps = evolution.lives * life_steps
        shorter = "at most " if shortest < longest else ""
        lines = [
            f"cost: {left} epoch{'s' * (left > 1)} x {evolution.lives} lives x {shorter}"
            f"{life_steps} env steps = {shorter}{count(steps)} env steps an "
            f"epoch, {count(steps * left)} in all" + _other_costs(experiment),
        ]
        shard_lives = experiment.compute.shard_lives
        shards = math.ceil(evolution.lives / shard_lives)
        if ranks > shards:
            lines.append(
                f"{ranks - shards} of {ranks} ranks have nothing to do: an epoch has only {shards} "
                f"shards of config.compute.shard_lives={shard_lives} lives"
            )
        return lines + [line for task in experiment.tasks for line in remarks(make_family(task))]

    def line(self, result: EpochResult) -> str:
        """Returns the numbers of an epoch."""
        metrics = result.metrics
        return (
            f"alpha {metrics['alpha']:.2f}  mean fitness {metrics['fitness_mean']:.2f}  "
            f"{count(metrics['env_steps_per_second'])} env steps/s"
        )

    def ending(self, summary: Mapping[str, Any]) -> list[str]:
        """Returns how a finished run ended, with a warning where its last lives failed."""
        best = summary["best_validation_return_mean"]
        validation = f"best validation return {best:.2f}"
        if best == -math.inf:
            validation = "never validated (best/ is just the newest)"
        learned = f"evolved {summary['parameters']} parameters in"
        lines = [
            f"{self.what_it_did(summary, learned)} {duration(summary['seconds'])}, "
            f"{count(summary['env_steps'])} env steps; {validation}, {summary['failed_lives']} "
            "failed lives"
        ]
        if summary["last_fitness_mean"] is not None and math.isnan(summary["last_fitness_mean"]):
            lines.append(
                "warning: every life of the last epoch failed; smaller learning rates, sigma or "
                "deviations may help"
            )
        return lines


def _other_costs(experiment: Experiment) -> str:
    """Returns what costs env steps besides those in which lives learn, as the end of a line."""
    evolution = experiment.evolution
    final = (
        f"{experiment.inner.final_episodes} final episodes a life (at most "
        f"{max(task.episode_limit for task in experiment.tasks)} env steps each)"
    )
    validation = (
        f"{evolution.validation_lives} validation lives every {evolution.validation_period} epochs"
    )
    if evolution.plays_final_episodes:
        return f"; besides, {final}" + (f" and {validation}" if evolution.validation_period else "")
    return f"; besides, {validation}, with {final}" if evolution.validation_period else ""
