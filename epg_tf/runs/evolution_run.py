"""Records a run of evolution in its folder, and restores it from there."""

from __future__ import annotations

from typing import Any

import numpy as np

from epg_tf.artifacts.learned_loss import LearnedLoss, save_loss
from epg_tf.core import files
from epg_tf.core.errors import RecordError, VersionError
from epg_tf.core.experiment import Experiment, from_mapping
from epg_tf.core.rival_settings import RIVAL_SETTINGS
from epg_tf.epg.epoch_metrics import COLUMNS, NEWER_COLUMNS
from epg_tf.epg.past_policies import PastPolicies
from epg_tf.epg.state import EpochResult, EvolutionState
from epg_tf.runs import checkpoints, standstill
from epg_tf.runs.beginning import beginning, facts_of
from epg_tf.runs.folder import (
    BEGUN_WITH,
    RunFolder,
    RunLength,
    RunTarget,
    beginning_in_words,
)
from epg_tf.runs.identity import OWN_FILES, RunIdentity, RunKind
from epg_tf.runs.rare_drawing import RareDrawing

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
            *RIVAL_SETTINGS,  # evolution has no use for them
        }
    ),
    per_rank=frozenset({"config.compute.threads", "config.compute.parallel"}),
    from_mapping=from_mapping,
)


def identity_of(
    experiment: Experiment, seed: int, earlier: LearnedLoss | None = None
) -> RunIdentity:
    """Returns the identity of a run of evolution, and what it says of what it begins with."""
    return RunIdentity(EVOLUTION, experiment.to_mapping(), seed, facts_of(earlier))


class EvolutionRun:
    """The folder of one run of evolution, open for writing until `close`.

    Args:
      experiment: Settings of the run.
      seed: Of the run.
      target: The folder, and what happens to an earlier run there.
      earlier: What a new run begins with; None: a fresh vector.

    Attributes:
      path: The folder.
      warnings: Lines about damaged checkpoints, changed versions and missing rows.

    Raises:
      RecordError: The folder cannot be used in this way; nothing has been deleted.
      ConfigError: What the run is to begin with does not fit the settings.
    """

    def __init__(
        self,
        experiment: Experiment,
        seed: int,
        target: RunTarget,
        earlier: LearnedLoss | None = None,
    ):
        self._first = beginning(experiment, seed, earlier)
        self._folder = RunFolder(identity_of(experiment, seed, earlier), target)
        self._experiment, self._earlier = experiment, earlier
        self.path = self._folder.path
        self.warnings: list[str] = []
        self._picture = RareDrawing(self._draw)

    def restore(self) -> EvolutionState:
        """Returns the newest state that is saved, or the initial one, and drops what is later.

        Raises:
          RecordError: No checkpoint can be read, though there is or was one; there is none yet,
            and the run began with a loss that is not given again; or the run has already more
            epochs than its experiment allows. Nothing has been deleted.
        """
        state = self._newest_state()
        epochs = self._experiment.evolution.epochs
        self._folder.continue_after(
            state.epoch, RunLength(epochs, "config.evolution.epochs"), COLUMNS, NEWER_COLUMNS
        )
        self.warnings += self._folder.warnings
        self.save_state(state)
        if state.best_return > -np.inf:  # a kill may have come between checkpoint and best/
            self.save_best(state)
        return state

    def _newest_state(self) -> EvolutionState:
        checkpoint = self._folder.newest_checkpoint()
        if checkpoint is None:
            if self._earlier is None and BEGUN_WITH in self._folder.facts:
                raise RecordError(
                    f"{self.path}: the run began with {beginning_in_words(self._folder.facts)} and "
                    "has no checkpoint yet; pass that again, or overwrite=True"
                )
            return self._first
        arrays, facts = checkpoint.arrays, checkpoint.facts
        try:
            return EvolutionState(
                epoch=checkpoint.epoch,
                phi=arrays["phi"],
                second_moment=arrays["second_moment"],
                env_steps=facts["env_steps"],
                best_phi=arrays["best_phi"],
                best_return=facts["best_return"],
                last_update=arrays["last_update"],
                past=PastPolicies.from_arrays(arrays) if self._experiment.past.policies else None,
            )
        except KeyError as error:
            raise VersionError(
                f"{self.path}: the checkpoint of epoch {checkpoint.epoch} has no {error}, so "
                "another version of epg_tf wrote it; resume with that one, or start another run"
            ) from error

    def failed_epochs(self) -> int:
        """Returns how many of the newest epochs, in a row, had only lives that failed."""
        lives = self._experiment.evolution.lives
        return self._folder.metrics.newest_in_a_row("failed_lives", lives)

    def record(self, result: EpochResult) -> None:
        """Writes one epoch; the checkpoint last, so that after a kill the epoch is repeated."""
        self._folder.metrics.append(result.metrics)
        numbers = {name: value for name, value in result.metrics.items() if name != "epoch"}
        self._folder.board.scalars(result.state.epoch, numbers, "evolution")
        self.save_state(result.state)
        if not np.isnan(result.metrics["validation_return_mean"]):
            self.save_best(result.state)
            self._picture.update()

    def _draw(self) -> None:
        from epg_tf.reports import plots  # here, so that `import epg_tf` needs no matplotlib

        plots.learning_curve(self._folder.metrics.read(), self.path / "learning_curve.png")

    def save_state(self, state: EvolutionState) -> None:
        """Writes a checkpoint."""
        arrays = {
            "phi": state.phi,
            "second_moment": state.second_moment,
            "best_phi": state.best_phi,
            "last_update": state.last_update,
            **(state.past.arrays() if state.past is not None else {}),
        }
        facts = {"env_steps": state.env_steps, "best_return": state.best_return}
        checkpoints.save(self.path / "checkpoints", state.epoch, arrays, facts)

    def save_best(self, state: EvolutionState) -> None:
        """Writes `best/`: the phi with the best validation so far, else the newest."""
        validated = state.best_return > -np.inf
        facts = {
            **self._folder.facts,
            "env_steps": state.env_steps,
            "validation_return_mean": state.best_return if validated else None,
            "chosen": "best in validation" if validated else "newest, never validated",
        }
        save_loss(self.path / "best", state.best_phi, self._experiment, facts)

    def finish(self, state: EvolutionState) -> dict[str, Any]:
        """Writes `best/`, `final/`, the learning curve and `summary.json`.

        Returns:
          The summary.
        """
        facts, rows = self._folder.facts, self._folder.metrics.read()
        self.save_best(state)
        last = {"env_steps": state.env_steps, "epoch": state.epoch, "chosen": "last epoch"}
        save_loss(self.path / "final", state.phi, self._experiment, {**facts, **last})
        self._picture.draw()
        unchanged = standstill.of_evolution(self._experiment)
        summary = {
            "epochs": state.epoch,
            "env_steps": state.env_steps,
            "seconds": sum(row["seconds"] for row in rows),
            "parameters": state.phi.size,
            "first_fitness_mean": rows[0]["fitness_mean"] if rows else None,
            "last_fitness_mean": rows[-1]["fitness_mean"] if rows else None,
            "best_validation_return_mean": state.best_return,
            "failed_lives": int(sum(row["failed_lives"] for row in rows)),
            "unchanged_epochs": unchanged.count(rows),
            "verdict": unchanged.verdict(rows),
            **facts,
        }
        files.write_json(self.path / "summary.json", summary)
        return summary

    def close(self) -> None:
        """Closes the log and lets other processes use the folder."""
        self._folder.close()
