"""Records a run of MetaGenRL in its folder: what rank 0 writes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from epg_tf.artifacts.learned_objective import load_objective, save_objective
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment, metagenrl_from_mapping
from epg_tf.metagenrl.population import metric_columns
from epg_tf.metagenrl.state import ObjectiveState, RoundResult
from epg_tf.metagenrl.validation import (
    best_round,
    ends_early,
    is_validated,
    validation_columns,
)
from epg_tf.runs import checkpoints, standstill
from epg_tf.runs.folder import RunFolder, RunLength, RunTarget
from epg_tf.runs.identity import RunIdentity, RunKind
from epg_tf.runs.metagenrl_checkpoints import save_state
from epg_tf.runs.metagenrl_progress import SilentMetaGenRLProgress
from epg_tf.runs.rare_drawing import RareDrawing

METAGENRL = RunKind(
    name="metagenrl",
    unit="round",
    own=(
        "metrics.csv",
        "tensorboard",
        "checkpoints",
        "agents",
        "objectives",
        "best",
        "final",
        "learning_curve.png",
        "summary.json",
        "config.json",
    ),
    may_change=frozenset(
        {
            "config.steps_per_agent",
            "config.failed_rounds",
            "config.threads",
            "config.objective_period",
            "config.validation.patience",
        }
    ),
    per_rank=frozenset({"config.threads"}),
    from_mapping=metagenrl_from_mapping,
)

_KEPT = re.compile(r"round_(\d{8,})")


def identity_of(experiment: MetaGenRLExperiment, seed: int) -> RunIdentity:
    """Returns the identity of a run of MetaGenRL."""
    return RunIdentity(METAGENRL, experiment.to_mapping(), seed)


class NullMetaGenRLRun:
    """Records nothing: what all ranks but the first use."""

    def begin(self, state: ObjectiveState, damaged: list[str], ranks: int) -> None:
        """Drops what was recorded after a state."""

    def failed_rounds(self) -> int:
        """Returns after how many of the newest recorded rounds, in a row, all agents had failed."""
        return 0

    def ends_early(self, number: int) -> bool:
        """Returns whether the run ends after a round (`validation.ends_early`)."""
        return False

    def record(self, result: RoundResult) -> None:
        """Writes a round whose shards have been saved."""

    def stopped(self, state: ObjectiveState) -> None:
        """Shows that the run was stopped after a state."""

    def finish(self, state: ObjectiveState) -> None:
        """Writes what a finished run leaves."""

    def close(self) -> None:
        """Lets other processes use the folder."""


def kept_name(number: int) -> str:
    """Returns the name of the folder of the objective after a round."""
    return f"round_{number:08d}"


def kept_objectives(run: files.PathLike) -> list[tuple[int, Path]]:
    """Returns (round, folder) of the objectives that a run kept, oldest first; other folders beside
    them are not of the run.
    """
    named = [(_KEPT.fullmatch(path.name), path) for path in Path(run).glob("objectives/*")]
    return sorted((int(match[1]), path) for match, path in named if match)


class MetaGenRLRun(NullMetaGenRLRun):
    """The folder of one run of MetaGenRL, open for writing until `close`.

    Args:
      experiment: Settings of the run.
      seed: Of the run.
      target: The folder, and what happens to an earlier run there.
      progress: Shows what is recorded.

    Attributes:
      path: The folder.

    Raises:
      RecordError: The folder cannot be used in this way; nothing has been deleted.
    """

    def __init__(
        self,
        experiment: MetaGenRLExperiment,
        seed: int,
        target: RunTarget,
        progress: SilentMetaGenRLProgress,
    ):
        self._folder = RunFolder(identity_of(experiment, seed), target)
        self._experiment, self._progress = experiment, progress
        self.path = self._folder.path
        self._picture = RareDrawing(self._draw)

    def begin(self, state: ObjectiveState, damaged: list[str], ranks: int) -> None:
        """Drops what was recorded after a state, and shows what is left to do.

        Args:
          state: The state to continue from.
          damaged: Messages about damaged checkpoints.
          ranks: Number of processes at work.

        Raises:
          RecordError: The run has already more rounds than its experiment allows.
        """
        experiment = self._experiment
        field, unit = "config.steps_per_agent", experiment.round_steps
        ended = self.ends_early(state.round)
        rounds = state.round if ended else experiment.rounds
        self._folder.continue_after(
            state.round, RunLength(rounds, field, unit), metric_columns(experiment)
        )
        self._progress.warn([f"damaged: {message}" for message in damaged])
        self._progress.warn(self._folder.warnings)
        # Before shards of these rounds are written again: a kill must not leave both together.
        checkpoints.drop_after(self.path / "checkpoints", state.round)
        for number, folder in kept_objectives(self.path):
            if number > state.round:
                shutil.rmtree(folder)
        self._keep_objective(state)
        self._keep_best()
        self._progress.begin(state, ranks, ended)

    def failed_rounds(self) -> int:
        """Reads it from the folder, so that stops do not matter."""
        agents = self._experiment.agents
        return self._folder.metrics.newest_in_a_row("failed_agents", agents)

    def ends_early(self, number: int) -> bool:
        """Reads it from the folder, so that stops do not matter."""
        return ends_early(self._experiment, number, self._folder.metrics.read())

    def record(self, result: RoundResult) -> None:
        """Writes a round whose shards have been saved; the checkpoint of the objective last."""
        state = result.state
        self._folder.metrics.append(result.metrics)
        numbers = {name: value for name, value in result.metrics.items() if name != "epoch"}
        self._folder.board.scalars(state.round, numbers, "metagenrl")
        self._keep_objective(state)
        self._keep_best()
        save_state(self.path, state)
        self._picture.update()
        self._progress.show(result)

    def _draw(self) -> None:
        from epg_tf.reports import objective_plots  # here: `import epg_tf` needs no matplotlib

        places = self._experiment.environments
        returns = {f"return in {place}": f"training_return/{place}" for place in places}
        rows = self._folder.metrics.read()
        objective_plots.training_curves(rows, returns, self.path / "learning_curve.png")

    def _keep_objective(self, state: ObjectiveState) -> None:
        """Writes the objective of every `objective_period` rounds, and each that was tested, to a
        folder of its own.
        """
        folder = self._objective_folder(state.round)
        due = state.round % self._experiment.objective_period == 0
        due = due or is_validated(self._experiment, state.round)
        if due and not (folder / "loss.json").is_file():
            self._save_objective(folder, state)

    def _objective_folder(self, number: int) -> Path:
        return self.path / "objectives" / kept_name(number)

    def _keep_best(self) -> None:
        """Makes `best/` the best of the tested objectives, whatever is there.

        Raises:
          RecordError: That objective cannot be read.
        """
        if not self._experiment.validation.period:
            return
        row, best = best_round(self._experiment, self._folder.metrics.read()), self.path / "best"
        if row is None:
            shutil.rmtree(best, ignore_errors=True)  # of a round that was dropped
            return
        number = int(row["epoch"])
        try:
            if load_objective(best).facts.get("round") == number:
                return
        except RecordError:
            pass  # there is none yet, or a kill left it half written
        try:
            found = load_objective(self._objective_folder(number))
        except RecordError as error:
            raise RecordError(
                f"{self.path}: the objective of round {number}, the best in tests, cannot be read "
                f"({error}); restore its folder, or start another run"
            ) from error
        save_objective(best, found.parameters, self._experiment, found.facts)

    def _save_objective(self, folder: Path, state: ObjectiveState) -> None:
        facts = {**self._folder.facts, "round": state.round, "env_steps": self._env_steps(state)}
        save_objective(folder, state.parameters, self._experiment, facts)

    def _env_steps(self, state: ObjectiveState) -> int:
        return state.round * self._experiment.round_steps * self._experiment.agents

    def stopped(self, state: ObjectiveState) -> None:
        """Shows that the run was stopped after a state."""
        self._progress.stopped(state)

    def finish(self, state: ObjectiveState) -> None:
        """Writes `final/`, the learning curve and `summary.json`."""
        rows = self._folder.metrics.read()
        self._save_objective(self.path / "final", state)
        self._picture.draw()
        last = rows[-1] if rows else {}
        unchanged = standstill.of_metagenrl(self._experiment)
        summary: dict[str, Any] = {
            "rounds": state.round,
            "parameters": state.parameters.size,
            "env_steps": self._env_steps(state),
            "seconds": sum(row["seconds"] for row in rows),
            "last": {
                name: value for name, value in last.items() if name.startswith("training_return")
            },
            "best": self._best(rows),
            "failed_agents": int(last.get("failed_agents", 0)),
            "unchanged_rounds": unchanged.count(rows),
            "verdict": unchanged.verdict(rows),
            **self._folder.facts,
        }
        files.write_json(self.path / "summary.json", summary)
        self._progress.finished(summary)

    def _best(self, rows: list[dict[str, Any]]) -> dict[str, float] | None:
        """Returns the round of `best/` and its returns; None without tests."""
        row = best_round(self._experiment, rows)
        if row is None:
            return None
        names = validation_columns(self._experiment)
        return {"round": int(row["epoch"]), **{name: row[name] for name in names}}

    def close(self) -> None:
        """Closes the log and lets other processes use the folder."""
        self._progress.close()
        self._folder.close()
