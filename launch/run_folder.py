"""Writes down a run of evolution, and reads it back to go on with it."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.algorithms.evolution import EpochResult, EvolutionState, initial_state
from epg_tf.config import ConfigError, Experiment, from_mapping
from epg_tf.learned_loss import save_loss, versions
from epg_tf.records import checkpoints, files, plots
from epg_tf.records.metrics import MetricsFile, TensorBoardWriter

OWN = ("metrics.csv", "tensorboard", "checkpoints", "best", "final", "learning_curve.png", "summary.json",
       "config.json")  # removed in this order: what marks a run goes last
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
        self._lock = lock(self.path, "--run_dir") if self.path.is_dir() else None
        now = {"seed": seed, "commit": _commit(), "versions": versions()}
        before = self._earlier_run() if resume else None
        if overwrite:
            self._check_replaceable()
        files.prepare_folder(path, "--run_dir", resume, overwrite, OWN)
        self._lock = self._lock or lock(self.path, "--run_dir")
        self._facts = now if before is None else {name: before.get(name) for name in now}
        self.notes = [f"this run began with {name} {self._facts[name]}; now it is {now[name]}, so numbers may differ"
                      for name in ("commit", "versions") if self._facts[name] != now[name]]
        files.write_json(self.path / "config.json", {"config": experiment.to_mapping(), **self._facts})
        self.metrics = MetricsFile(self.path / "metrics.csv")
        self.board = TensorBoardWriter(self.path / "tensorboard")

    def _earlier_run(self) -> dict | None:
        """Returns config.json of the run to resume, or None where nothing has begun."""
        if not self.path.is_dir() or all(entry.name.startswith(".config.json.") for entry in self.path.iterdir()):
            return None
        if not (self.path / "config.json").is_file():
            raise files.RecordError(f"--run_dir={self.path}: nothing to resume, the folder holds no config.json; pass "
                                    f"--overwrite to start a run in it, or choose another folder")
        before = files.read_json(self.path / "config.json", "the run's config")
        if before.get("seed") != self.seed:
            raise files.RecordError(f"--seed={self.seed}: the run in --run_dir={self.path} has seed "
                                    f"{before.get('seed')}; pass that, --overwrite, or another folder")
        self._check_same_settings(before)
        return before

    def _check_replaceable(self) -> None:
        """Refuses to overwrite what is called as in a run but is none."""
        there = [name for name in OWN if (self.path / name).exists()]
        if there and not {"config", "seed"} <= set(_read_mapping(self.path / "config.json")):
            raise files.RecordError(f"--run_dir={self.path}: --overwrite would replace {', '.join(there)}, but this "
                                    f"is no run (no config.json that says so); move them away or choose another folder")

    def _check_same_settings(self, before: dict) -> None:
        try:
            then = from_mapping(before.get("config"))
        except ConfigError as error:
            raise files.RecordError(f"--run_dir={self.path}: config.json is damaged ({error}); restore it, or pass "
                                    f"--overwrite to start anew") from error
        for field, old, value in changes(then, self.experiment, _MAY_CHANGE):
            raise files.RecordError(f"{field}={value!r}: the run in --run_dir={self.path} has {old!r}; resume with "
                                    f"that, pass --overwrite, or choose another folder")

    def restore(self) -> tuple[EvolutionState, list[str]]:
        """Returns the state to go on from (the initial one if none is saved) and a line per damaged checkpoint."""
        checkpoint, messages = checkpoints.load_newest(self.path / "checkpoints")
        if checkpoint is None and (messages or self.metrics.read()):
            reason = messages[0].split(";")[0] if messages else "there is none, but metrics.csv has rows"
            raise files.RecordError(f"--run_dir={self.path}: no checkpoint can be read ({reason}); restore one, or "
                                    f"pass --overwrite to start anew")
        state = initial_state(self.experiment, self.seed)
        if checkpoint is not None:
            facts = checkpoint.facts
            state = EvolutionState(checkpoint.epoch, checkpoint.arrays["phi"], checkpoint.arrays["second_moment"],
                                   facts["env_steps"], checkpoint.arrays["best_phi"], facts["best_return"],
                                   checkpoint.arrays["last_update"])
        if state.epoch > self.experiment.evolution.epochs:
            raise files.RecordError(f"config.evolution.epochs={self.experiment.evolution.epochs}: the run in "
                                    f"--run_dir={self.path} has done {state.epoch}; ask for at least as many")
        if state.epoch < self.experiment.evolution.epochs:
            self._unfinish()
        self.metrics.truncate_after(state.epoch)
        if len(self.metrics.read()) != state.epoch:
            self.notes.append(f"metrics.csv lacks epochs before {state.epoch}; curve and summary will lack them too")
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
        """Writes one epoch, the checkpoint last: a kill before it makes resuming write the same row again."""
        self.metrics.append(result.metrics)
        self.board.scalars(result.state.epoch, {k: v for k, v in result.metrics.items() if k != "epoch"}, "evolution")
        self.save_state(result.state)
        if not np.isnan(result.metrics["validation_return_mean"]):
            self.save_losses(result.state, finished=False)
            plots.learning_curve(self.metrics.read(), self.path / "learning_curve.png")

    def save_losses(self, state: EvolutionState, finished: bool) -> None:
        """Writes `best/`, and `final/` once evolution is finished."""
        facts = {**self._facts, "env_steps": state.env_steps}
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
                   "failed_lives": int(sum(r["failed_lives"] for r in rows)), **self._facts}
        files.write_json(self.path / "summary.json", summary)
        self.board.close()
        return summary


def changes(before: Experiment, now: Experiment, free: Set[tuple[str, str]]) -> Iterator[tuple[str, Any, Any]]:
    """Yields name, old and new value of settings that differ, but for those in `free`, (group, name)."""
    old = before.to_mapping()
    for group, fields in now.to_mapping().items():
        for name, value in fields.items():
            if old[group][name] != value and (group, name) not in free:
                yield f"config.{group}.{name}", old[group][name], value


def lock(folder: Path, flag: str) -> int:
    """Keeps other processes from writing to the same folder until this one ends, however it ends.

    Args:
      folder: The folder.
      flag: Flag that named it, for the error message.

    Returns:
      The descriptor that holds the lock.

    Raises:
      RecordError: Another process holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise files.RecordError(f"{flag}={folder}: another process is writing to this folder; wait for it, or use "
                                f"another folder") from error
    return descriptor


def _read_mapping(path: Path) -> dict:
    """Returns the JSON object in `path`, or nothing if there is none."""
    try:
        return files.read_json(path, "the run's config")
    except files.RecordError:
        return {}


def _commit() -> str | None:
    """Returns the commit of the code, or None outside a checkout."""
    try:
        words = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=True,
                              timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def settings_table(experiment: Experiment) -> str:
    """Writes the settings as a Markdown table, for TensorBoard."""
    rows = [f"| {group}.{name} | {value} |" for group, fields in dataclasses.asdict(experiment).items()
            for name, value in fields.items()]
    return "\n".join(["| setting | value |", "|---|---|", *rows])
