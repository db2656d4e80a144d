"""Writes down a run of evolution, and reads it back to go on with it."""

from __future__ import annotations

import shutil

import numpy as np

from epg_tf.core.errors import RecordError
from epg_tf.epg.state import EpochResult, EvolutionState, initial_state
from epg_tf.core.experiment import Experiment, from_mapping
from epg_tf.artifacts.learned_loss import save_loss
from epg_tf.runs import checkpoints
from epg_tf.core import files
from epg_tf.reports import plots
from epg_tf.runs.metrics import MetricsFile, TensorBoardWriter
from epg_tf.runs.folder import ClaimedFolder

OWN = ("metrics.csv", "tensorboard", "checkpoints", "best", "final", "learning_curve.png", "summary.json",
       "config.json")  # removed in this order: what marks a run goes last
_MAY_CHANGE = {"config.evolution.epochs", "config.compute.threads"}


class RunFolder(ClaimedFolder):
    """The folder of one run of evolution.

    Args:
      path: The folder.
      experiment: Settings of the run.
      seed: Of the run.
      resume: Go on with what is there.
      overwrite: Replace what an earlier run left.

    Raises:
      RecordError: The folder cannot be used as asked; nothing has been deleted.
    """

    def __init__(self, path: str, experiment: Experiment, seed: int, resume: bool, overwrite: bool):
        super().__init__(path, "evolution", experiment.to_mapping(),
                         lambda settings: from_mapping(settings).to_mapping(), seed, resume, overwrite, OWN,
                         _MAY_CHANGE)
        self.experiment = experiment
        self.metrics = MetricsFile(self.path / "metrics.csv")
        self.board = TensorBoardWriter(self.path / "tensorboard")

    def restore(self) -> tuple[EvolutionState, list[str]]:
        """Returns the state to go on from (the initial one if none is saved) and a line per damaged
        checkpoint.
        """
        checkpoint, messages = checkpoints.load_newest(self.path / "checkpoints")
        if checkpoint is None and (messages or self.metrics.read()):
            reason = messages[0].split(";")[0] if messages else "there is none, but metrics.csv has rows"
            raise RecordError(f"--run_dir={self.path}: no checkpoint can be read ({reason}); "
                              "restore one, or "
                                    f"pass --overwrite to start anew")
        state = initial_state(self.experiment, self.seed)
        if checkpoint is not None:
            facts = checkpoint.facts
            state = EvolutionState(checkpoint.epoch, checkpoint.arrays["phi"], checkpoint.arrays["second_moment"],
                                   facts["env_steps"], checkpoint.arrays["best_phi"], facts["best_return"],
                                   checkpoint.arrays["last_update"])
        if state.epoch > self.experiment.evolution.epochs:
            raise RecordError(f"config.evolution.epochs={self.experiment.evolution.epochs}: the "
                              "run in "
                                    f"--run_dir={self.path} has done {state.epoch}; ask for at "
                                    "least as many")
        self.describe()
        if state.epoch < self.experiment.evolution.epochs:
            self._unfinish()
        self.metrics.truncate_after(state.epoch)
        if len(self.metrics.read()) != state.epoch:
            self.notes.append(f"metrics.csv lacks epochs before {state.epoch}; curve and summary "
                              "will lack them too")
        self.board.purge_after(state.epoch)
        self.save_state(state)
        if state.best_return > -np.inf:  # a kill may have come between checkpoint and best/
            self.save_losses(state, finished=False)
        return state, messages

    def _unfinish(self) -> None:
        """Removes what says that the run is finished; it goes on."""
        shutil.rmtree(self.path / "final", ignore_errors=True)
        (self.path / "summary.json").unlink(missing_ok=True)

    def save_state(self, state: EvolutionState) -> None:
        """Checkpoints a state."""
        arrays = {"phi": state.phi, "second_moment": state.second_moment, "best_phi": state.best_phi,
                  "last_update": state.last_update}
        checkpoints.save(self.path / "checkpoints", state.epoch, arrays,
                         {"env_steps": state.env_steps, "best_return": state.best_return})

    def record(self, result: EpochResult) -> None:
        """Writes one epoch, the checkpoint last: a kill before it makes resuming write the same row
        again.
        """
        self.metrics.append(result.metrics)
        self.board.scalars(result.state.epoch, {k: v for k, v in result.metrics.items() if k != "epoch"}, "evolution")
        self.save_state(result.state)
        if not np.isnan(result.metrics["validation_return_mean"]):
            self.save_losses(result.state, finished=False)
            plots.learning_curve(self.metrics.read(), self.path / "learning_curve.png")

    def save_losses(self, state: EvolutionState, finished: bool) -> None:
        """Writes `best/`, and `final/` once evolution is finished."""
        facts = {**self.facts, "env_steps": state.env_steps}
        validated = state.best_return > -np.inf
        save_loss(self.path / "best", state.best_phi, self.experiment,
                  {**facts, "validation_return_mean": state.best_return if validated else None,
                   "chosen": "best in validation" if validated else "newest, never validated"})
        if finished:
            save_loss(self.path / "final", state.phi, self.experiment,
                      {**facts, "epoch": state.epoch, "chosen": "last epoch"})

    def finish(self, state: EvolutionState) -> dict:
        """Writes losses, picture and `summary.json`; returns the summary."""
        rows = self.metrics.read()
        self.save_losses(state, finished=True)
        plots.learning_curve(rows, self.path / "learning_curve.png")
        summary = {"epochs": state.epoch, "env_steps": state.env_steps, "seconds": sum(r["seconds"] for r in rows),
                   "parameters": state.phi.size, "first_fitness_mean": rows[0]["fitness_mean"] if rows else None,
                   "last_fitness_mean": rows[-1]["fitness_mean"] if rows else None,
                   "best_validation_return_mean": state.best_return,
                   "failed_lives": int(sum(r["failed_lives"] for r in rows)), **self.facts}
        files.write_json(self.path / "summary.json", summary)
        self.board.close()
        return summary
