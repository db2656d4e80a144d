"""Writes down a run of evolution, and reads it back to go on with it."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import numpy as np

from epg_tf.algorithms.evolution import EpochResult, EvolutionState, initial_state
from epg_tf.config import Experiment
from epg_tf.learned_loss import save_loss, versions
from epg_tf.records import checkpoints, files, plots
from epg_tf.records.metrics import MetricsFile, TensorBoardWriter

OWN = ("config.json", "metrics.csv", "tensorboard", "checkpoints", "best", "final", "learning_curve.png",
       "summary.json")
_MAY_CHANGE = {("evolution", "epochs"), ("compute", "threads")}


class RunFolder:
    """The folder of one run.

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
        self.path = Path(path)
        self.experiment = experiment
        self.seed = seed
        if resume and self.path.is_dir() and any(self.path.iterdir()):
            self._check_same_run()
        files.prepare_folder(path, "--run_dir", resume, overwrite, OWN)
        self._facts = {"seed": seed, "commit": _commit()}
        files.write_json(self.path / "config.json", {"config": experiment.to_mapping(), **self._facts,
                                                     "versions": versions()})
        self.metrics = MetricsFile(self.path / "metrics.csv")

    def _check_same_run(self) -> None:
        if not (self.path / "config.json").is_file():
            raise files.RecordError(f"--run_dir={self.path}: nothing to resume, the folder holds no config.json; "
                                    f"choose a folder of launch.meta_train or a new one")
        before = files.read_json(self.path / "config.json", "the run's config")
        if before.get("seed") != self.seed:
            raise files.RecordError(f"--seed={self.seed}: the run in --run_dir={self.path} has seed "
                                    f"{before.get('seed')}; pass that, or choose another folder")
        then = before.get("config", {})
        for group, fields in self.experiment.to_mapping().items():
            for name, value in fields.items():
                old = then.get(group, {}).get(name)
                value = list(value) if isinstance(value, tuple) else value
                if old != value and (group, name) not in _MAY_CHANGE:
                    raise files.RecordError(f"config.{group}.{name}={value!r}: the run in --run_dir={self.path} has "
                                            f"{old!r}; resume with the same settings, or choose another folder")

    def restore(self) -> tuple[EvolutionState, list[str]]:
        """Returns the state to go on from (the initial one if none is saved) and a line per damaged checkpoint."""
        checkpoint, messages = checkpoints.load_newest(self.path / "checkpoints")
        state = initial_state(self.experiment, self.seed)
        if checkpoint is not None:
            facts = checkpoint.facts
            state = EvolutionState(checkpoint.epoch, checkpoint.arrays["phi"], checkpoint.arrays["second_moment"],
                                   facts["env_steps"], checkpoint.arrays["best_phi"], facts["best_return"])
        self.metrics.truncate_after(state.epoch)
        self.board = TensorBoardWriter(self.path / "tensorboard")
        self.board.purge_after(state.epoch)
        self.save_state(state)
        return state, messages

    def save_state(self, state: EvolutionState) -> None:
        """Checkpoints a state, and `best/` with it."""
        arrays = {"phi": state.phi, "second_moment": state.second_moment, "best_phi": state.best_phi}
        checkpoints.save(self.path / "checkpoints", state.epoch, arrays,
                         {"env_steps": state.env_steps, "best_return": state.best_return})

    def record(self, result: EpochResult) -> None:
        """Writes one epoch: its row first, so that no checkpoint lacks one; an unfinished row is cut off on resume."""
        self.metrics.append(result.metrics)
        self.save_state(result.state)
        self.board.scalars(result.state.epoch, {k: v for k, v in result.metrics.items() if k != "epoch"}, "evolution")
        if not np.isnan(result.metrics["validation_return_mean"]):
            self.save_losses(result.state, finished=False)
            plots.learning_curve(self.metrics.read(), self.path / "learning_curve.png")

    def save_losses(self, state: EvolutionState, finished: bool) -> None:
        """Writes `best/`, and `final/` once evolution is finished."""
        facts = {**self._facts, "env_steps": state.env_steps}
        save_loss(self.path / "best", state.best_phi, self.experiment,
                  {**facts, "validation_return_mean": state.best_return, "chosen": "best in validation"})
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
                   "failed_lives": int(sum(r["failed_lives"] for r in rows)), **self._facts, "versions": versions()}
        files.write_json(self.path / "summary.json", summary)
        self.board.close()
        return summary


def _commit() -> str | None:
    """Returns the commit of the code, or None outside a checkout."""
    try:
        return subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True,
                              check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def settings_table(experiment: Experiment) -> str:
    """Writes the settings as a Markdown table, for TensorBoard."""
    rows = [f"| {group}.{name} | {value} |" for group, fields in dataclasses.asdict(experiment).items()
            for name, value in fields.items()]
    return "\n".join(["| setting | value |", "|---|---|", *rows])
