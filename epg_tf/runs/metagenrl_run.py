"""Writes down a run of MetaGenRL, and reads it back to go on with it.

Rank 0 writes the folder; every rank writes the shards of agents that live on it, so hosts must
share the folder. After each round a shard leaves its weights (the newest few states are kept) and
the round's steps; the replay is put together from the steps of the newest rounds, so that a
checkpoint costs a round's steps, however long the replay is.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from epg_tf.core.errors import RecordError
from epg_tf.metagenrl.agents import AgentShard
from epg_tf.metagenrl.state import ObjectiveState, RoundResult, initial_state
from epg_tf.metagenrl.population import Population
from epg_tf.artifacts.learned_objective import save_objective
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment, from_mapping
from epg_tf.runs import checkpoints
from epg_tf.core import files
from epg_tf.reports import objective_plots
from epg_tf.runs.metrics import MetricsFile, TensorBoardWriter
from epg_tf.runs.folder import ClaimedFolder

OWN = ("metrics.csv", "tensorboard", "checkpoints", "agents", "objectives", "final", "learning_curve.png",
       "summary.json", "config.json")  # removed in this order: what marks a run goes last
_MAY_CHANGE = {"config.steps_per_agent", "config.threads", "config.objective_period"}
_KEEP = 3


class ObjectiveFolder(ClaimedFolder):
    """What rank 0 writes of one run of MetaGenRL.

    Args:
      path: The folder.
      experiment: Settings of the run.
      seed: Of the run.
      resume: Go on with what is there.
      overwrite: Replace what an earlier run left.

    Raises:
      RecordError: The folder cannot be used as asked; nothing has been deleted.
    """

    def __init__(self, path: str, experiment: MetaGenRLExperiment, seed: int, resume: bool, overwrite: bool):
        super().__init__(path, "metagenrl", experiment.to_mapping(),
                         lambda settings: from_mapping(settings).to_mapping(), seed, resume, overwrite, OWN,
                         _MAY_CHANGE)
        self.experiment = experiment
        self.metrics = MetricsFile(self.path / "metrics.csv")
        self.board = TensorBoardWriter(self.path / "tensorboard")

    def go_on_from(self, state: ObjectiveState) -> None:
        """Drops what was recorded after a state.

        Raises:
          RecordError: The run has already gone further than it is asked to.
        """
        if state.round > self.experiment.rounds:
            raise RecordError(f"config.steps_per_agent={self.experiment.steps_per_agent}: the run "
                              "in --run_dir="
                                    f"{self.path} has done "
                                    f"{state.round * self.experiment.round_steps}; ask for at "
                                    f"least as many")
        self.describe()
        for folder in self.path.glob("objectives/round_*"):
            if int(folder.name.removeprefix("round_")) > state.round:
                shutil.rmtree(folder)
        if state.round < self.experiment.rounds:
            shutil.rmtree(self.path / "final", ignore_errors=True)
            (self.path / "summary.json").unlink(missing_ok=True)
        self.metrics.truncate_after(state.round)
        self.board.purge_after(state.round)
        self._keep(state)

    def record(self, result: RoundResult) -> None:
        """Writes a round whose shards have been saved: numbers, the objective where one is due, the
        state last.
        """
        state = result.state
        self.metrics.append(result.metrics)
        self.board.scalars(state.round, {k: v for k, v in result.metrics.items() if k != "epoch"}, "metagenrl")
        self._keep(state)
        save_state(self.path, state)
        self._draw()

    def _draw(self) -> None:
        objective_plots.training_curves(self.metrics.read(), self.experiment.environments,
                                        self.path / "learning_curve.png")

    def _keep(self, state: ObjectiveState) -> None:
        """Keeps the objective for good, at intervals, the first one included."""
        folder = self.path / "objectives" / f"round_{state.round:08d}"
        if state.round % self.experiment.objective_period == 0 and not (folder / "loss.json").is_file():
            self._save(folder, state)

    def _save(self, folder: Path, state: ObjectiveState) -> None:
        env_steps = state.round * self.experiment.round_steps * self.experiment.agents
        save_objective(folder, state.parameters, self.experiment,
                       {**self.facts, "round": state.round, "env_steps": env_steps})

    def finish(self, state: ObjectiveState) -> dict:
        """Writes `final/` and `summary.json`; returns the summary."""
        rows = self.metrics.read()
        self._save(self.path / "final", state)
        self._draw()
        last = rows[-1] if rows else {}
        returns = {name: value for name, value in last.items() if name.startswith("training_return")}
        summary = {"rounds": state.round, "parameters": state.parameters.size,
                   "env_steps": state.round * self.experiment.round_steps * self.experiment.agents,
                   "seconds": sum(row["seconds"] for row in rows), "last": returns,
                   "failed_agents": int(last.get("failed_agents", 0)), **self.facts}
        files.write_json(self.path / "summary.json", summary)
        self.board.close()
        return summary


def save_state(path: Path, state: ObjectiveState) -> None:
    """Checkpoints the objective; the shards' states of the same round must be on disk before."""
    arrays = {"parameters": state.parameters, "first_moment": state.first_moment, "second_moment": state.second_moment}
    checkpoints.save(path / "checkpoints", state.round, arrays, {"updates": state.updates}, _KEEP)


def save_shards(path: Path, population: Population) -> None:
    """Writes the shards that live on this rank, after a round or before the first."""
    experiment = population.experiment
    rounds = -(-experiment.agent.replay_steps // experiment.round_steps)
    for number, shard in population.shards.items():
        folder = _shard_folder(path, number)
        if shard.round:
            checkpoints.save(folder / "steps", shard.round, shard.replay.newest(experiment.round_steps), {},
                             rounds + _KEEP - 1)
        checkpoints.save(folder / "weights", shard.round, shard.arrays(), {}, _KEEP)


def _shard_folder(path: Path, number: int) -> Path:
    return path / "agents" / f"shard_{number:03d}"


def restore(path: Path, population: Population, seed: int) -> tuple[ObjectiveState, list[str]]:
    """Puts objective and agents back to the newest round that all ranks can restore whole.

    Returns:
      (the state, the initial one where nothing was saved, which is then saved itself; a line per
      damaged checkpoint that was passed over).

    Raises:
      RecordError: There are checkpoints, but none can be read.
    """
    communicator, notes = population.communicator, []
    found = np.zeros(_KEEP, np.int64)
    rounds = checkpoints.epochs(path / "checkpoints")[-_KEEP:]
    found[: len(rounds)] = np.array(rounds, np.int64) + 1  # 0: none
    for number in sorted((int(n) - 1 for n in communicator.broadcast(found) if n), reverse=True):
        problem = ""
        try:
            state = _read(path, population, number)
        except RecordError as error:
            problem = str(error)
            notes.append(f"{problem}; passed over for an older checkpoint")
        if communicator.sum(np.array([bool(problem)], np.int64))[0] == 0:
            return state, notes
    if found.any():
        reason = notes[0].split(";")[0] if notes else "another rank cannot read its agents"
        raise RecordError(f"--run_dir={path}: no checkpoint can be read ({reason}); restore one, "
                          "or pass "
                                f"--overwrite to start anew")
    if MetricsFile(path / "metrics.csv").read():
        raise RecordError(f"--run_dir={path}: no checkpoint can be read (there is none, but "
                          "metrics.csv has "
                                f"rows); restore one, or pass --overwrite to start anew")
    state = initial_state(population.experiment, seed)
    save_shards(path, population)  # or a kill in the first round would leave rows without a checkpoint
    communicator.sum(np.zeros(1, np.int64))
    if communicator.rank == 0:
        save_state(path, state)
    return state, notes


def _read(path: Path, population: Population, number: int) -> ObjectiveState:
    saved = checkpoints.load(path / "checkpoints", number)
    for shard_number, shard in population.shards.items():
        folder = _shard_folder(path, shard_number)
        _restore_shard(shard, folder, number, population.experiment)
    arrays = saved.arrays
    return ObjectiveState(number, arrays["parameters"], arrays["first_moment"], arrays["second_moment"],
                          saved.facts["updates"])


def _restore_shard(shard: AgentShard, folder: Path, number: int, experiment: MetaGenRLExperiment) -> None:
    weights = checkpoints.load(folder / "weights", number)
    rounds = -(-experiment.agent.replay_steps // experiment.round_steps)
    shard.replay.clear()
    for earlier in range(max(0, number - rounds) + 1, number + 1):
        shard.replay.extend(checkpoints.load(folder / "steps", earlier).arrays)
    shard.load(number, weights.arrays)
